"""What the API says of revisions."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from controlplane.replicas.schemas import Arrival
from controlplane.schemas import Digits, Model, ProblemItem, Query, Time

WAIT_MS = 10_000
WAIT_MAX_MS = 30_000
"""Less than what proxies and clients usually wait for an answer."""

RevisionNumber = Annotated[int, Field(ge=1, lt=10**18)]


class RevisionItem(Model):
    """A revision without its table."""

    revision: RevisionNumber
    time: Time
    operator: str
    action: Annotated[str, Field(examples=["config.write", "config.rollback"])]


class RevisionWithTable(RevisionItem):
    """A revision; credentials in upstream URLs of a version 1 table are masked."""

    table: dict[str, Any]


class TableWarning(Model):
    """A setting that opens something up. It is legal; somebody should have meant it."""

    route: Annotated[str | None, Field(description="A route's id; null for what concerns them all.")]
    setting: Annotated[str, Field(description="Its place in the table, or a variable's name.")]
    message: str


class Written(Model):
    """The revision that was written and is active now."""

    revision: RevisionNumber
    warnings: list[TableWarning]
    replicas: Annotated[Arrival | None, Field(description="With `wait=replicas`: how far it has come.")]


class WriteQuery(Query):
    """Whether the answer waits for the replicas. The write has happened by then, and stays."""

    wait: Annotated[
        Literal["replicas"] | None, Field(description="Answer when every live replica serves the new revision.")
    ] = None
    timeout_ms: Annotated[
        int | None,
        Field(ge=0, le=WAIT_MAX_MS, description=f"Answer after this time in any case. Default {WAIT_MS}."),
        Digits,
    ] = None

    @model_validator(mode="after")
    def _waits_for_something(self) -> Self:
        if self.timeout_ms is not None and self.wait is None:
            raise PydanticCustomError("idle", "has timeoutMs without wait=replicas, where it has no effect")
        return self


class FieldChange(Model):
    """A field that differs; null stands for one that is not written."""

    path: Annotated[str, Field(description="Inside its route, or inside the table for a setting.")]
    before: Any
    after: Any


class RouteChange(Model):
    """A route that both tables have, and its fields that differ."""

    id: str
    fields: list[FieldChange]


class TableDiff(Model):
    """What turns one table into another. The order of routes means nothing, and is no difference."""

    added: Annotated[list[str], Field(description="Ids of routes.")]
    removed: Annotated[list[str], Field(description="Ids of routes.")]
    changed: list[RouteChange]
    settings: Annotated[list[FieldChange], Field(description="What differs outside the routes.")]
    unified: Annotated[str, Field(description="Both as text, in one order; empty without a difference.")]


class RevisionDiff(TableDiff):
    """What turns one revision's table into another's."""

    before: Annotated[int, Field(alias="from", ge=0)]
    after: Annotated[int, Field(alias="to", ge=1)]


class DiffQuery(Query):
    """Which revisions."""

    before: Annotated[
        int | None,
        Field(alias="from", ge=0, lt=10**18, description="Absent: the one before `to`. 0: the empty store."),
        Digits,
    ] = None
    after: Annotated[
        int | None, Field(alias="to", ge=1, lt=10**18, description="Absent: the active revision."), Digits
    ] = None


class Validation(Model):
    """What a write of this table would meet. Nothing was written."""

    valid: bool
    errors: list[ProblemItem]
    warnings: list[TableWarning]
    protected_routes: Annotated[
        list[str], Field(description="Protected routes that it removes or changes: a write of it is refused with 409.")
    ]
    diff: Annotated[TableDiff | None, Field(description="From the active table to this one; null for an invalid one.")]
    revision: Annotated[int, Field(ge=0, description="The active revision that it was compared with; 0 for none.")]


class Rollback(Model):
    """Which revision's table to write again."""

    revision: RevisionNumber
