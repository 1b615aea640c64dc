"""What the API says of cached decisions."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from controlplane.schemas import Model, Query, Text


class DecisionsQuery(Query):
    """Whose decisions: of a subject, of a workspace, or of the two together."""

    subject: Annotated[Text | None, Field(max_length=1_024, description="At least one of the two.")] = None
    workspace_id: Annotated[
        Text | None, Field(max_length=512, description="As the request's path spells it, decoded.")
    ] = None

    @model_validator(mode="after")
    def _of_something(self) -> Self:
        if self.subject is None and self.workspace_id is None:
            raise PydanticCustomError("nothing", "must name subject, workspaceId or both")
        return self


class Dropped(Model):
    """How many stored decisions were forgotten; what gateways keep in their own memory they forget too, uncounted."""

    dropped: Annotated[int, Field(ge=0)]
