"""What the API says of replicas."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from controlplane.schemas import Model, Page, Time


class ReplicaItem(Model):
    """A gateway that follows the store and was heard of in the last seconds."""

    replica: str
    revision: Annotated[int, Field(ge=0, description="What it serves; 0: its file, or nothing yet.")]
    behind: Annotated[int, Field(ge=0, description="How many revisions the active one is ahead.")]
    last_error: Annotated[str | None, Field(description="Why the newest table is not the one it serves.")]
    time: Annotated[Time, Field(description="When it last said so.")]
    age_ms: Annotated[int, Field(ge=0)]


class ReplicaPage(Page[ReplicaItem]):
    """All of them: there is one page."""

    revision: Annotated[int, Field(ge=0, description="The active revision; 0 for none.")]


class Laggard(Model):
    """A replica that does not serve the revision yet."""

    replica: str
    revision: int
    last_error: str | None


class Arrival(Model):
    """How far a revision has come. It is active in any case: replicas that lag take it when they can."""

    converged: Annotated[
        bool,
        Field(description="Every live replica serves it, or a later one; false too where they could not be read."),
    ]
    serving: list[str]
    lagging: list[Laggard]
