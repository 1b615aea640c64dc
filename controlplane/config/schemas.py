"""What the API says of revisions."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from controlplane.schemas import Model, ProblemItem, Time

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


class Validation(Model):
    """What a write of this table would meet. Nothing was written."""

    valid: bool
    errors: list[ProblemItem]
    warnings: list[TableWarning]
    protected_routes: Annotated[
        list[str], Field(description="Protected routes that it removes or changes: a write of it is refused with 409.")
    ]
    revision: Annotated[int, Field(ge=0, description="The active revision that it was compared with; 0 for none.")]


class Rollback(Model):
    """Which revision's table to write again."""

    revision: RevisionNumber
