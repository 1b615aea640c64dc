"""What the API says of sessions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from common.state.administration import HANDLE_LENGTH
from controlplane.schemas import Model, PageQuery, Query, Text, Time

Handle = Annotated[str, Field(pattern=f"^[0-9a-f]{{{HANDLE_LENGTH}}}$", examples=["5d41402abc4b2a76"])]
"""The first hexadecimal characters of the SHA-256 of the session's id: it names a session and opens nothing."""

Subject = Annotated[Text, Field(max_length=1_024, description="The caller's `sub` at the identity provider.")]


class SessionItem(Model):
    """A live session."""

    handle: Handle
    subject: str
    email: str
    roles: list[str]
    created_at: Time
    last_used_at: Annotated[Time, Field(description="To the minute or so: use is written that seldom.")]
    idle_expires_at: Time
    expires_at: Time


class SessionQuery(PageQuery):
    """Whose sessions, and which page of them."""

    subject: Annotated[Subject | None, Field(description="Absent: everybody's.")] = None


class SubjectQuery(Query):
    """Whose sessions."""

    subject: Subject


class Revoked(Model):
    """How many sessions were ended."""

    revoked: Annotated[int, Field(ge=0)]
