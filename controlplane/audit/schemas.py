"""What the API says of the audit trail."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from controlplane.schemas import Model, PageQuery, Text, Time, TimeQuery

Action = Literal["config.write", "config.rollback", "sessions.revoke", "decisions.drop"]


class AuditItem(Model):
    """One entry."""

    id: Annotated[int, Field(ge=1, description="Rises with each entry.")]
    time: Time
    action: str
    target: Annotated[
        str, Field(description='What it was done to. What a caller named is a JSON string: `subject "ada"`.')
    ]
    operator: str
    scope: str
    client: Annotated[str, Field(description="The address of the caller's socket.")]
    request_id: Annotated[str, Field(description="The `x-request-id` of the request; its log line bears it too.")]


class AuditQuery(PageQuery):
    """Which entries, and which page of them."""

    action: Annotated[Action | None, Field(description="Absent: every action.")] = None
    operator: Annotated[Text | None, Field(max_length=128, description="Absent: everybody's.")] = None
    since: Annotated[TimeQuery | None, Field(alias="from", description="Not before this time.")] = None
    until: Annotated[TimeQuery | None, Field(alias="to", description="Before this time.")] = None
