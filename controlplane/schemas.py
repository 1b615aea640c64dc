"""What every answer of the API has in common."""

from __future__ import annotations

import re
import time
from typing import Annotated, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from controlplane.paging import CURSOR_MAX, LIMIT, LIMIT_MAX

Item = TypeVar("Item")

Time = Annotated[
    str, Field(json_schema_extra={"format": "date-time"}, examples=["2026-01-31T23:59:59.999Z"], title="Time")
]
"""RFC 3339 in UTC, with milliseconds."""

Cursor = Annotated[str, Field(min_length=1, max_length=CURSOR_MAX)]


_DIGITS = re.compile(r"[0-9]{1,18}", re.ASCII)


def _digits(value: object) -> object:
    """A number in a URL is digits, and nothing that could be read as a number too."""
    if isinstance(value, str) and _DIGITS.fullmatch(value) is None:
        raise PydanticCustomError("digits", "must be a whole number")
    return value


Digits = BeforeValidator(_digits)


class Model(BaseModel):
    """Names in the JSON are in camel case; nothing else than the declared fields."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


class Page(Model, Generic[Item]):
    """A page of a list."""

    items: list[Item]
    next_cursor: Annotated[
        str | None, Field(description="Send it as `cursor` for the next page; null on the last one.")
    ]


class Nothing(Model):
    """No parameters: an unknown one is a mistake, and not ignored."""


NoQuery = Annotated[Nothing, Query()]


class PageQuery(Model):
    """Which page of a list."""

    limit: Annotated[int, Digits, Field(ge=1, le=LIMIT_MAX, description="Items at most.")] = LIMIT
    cursor: Annotated[Cursor | None, Field(description="`nextCursor` of the page before.")] = None


class ProblemItem(Model):
    """One problem and its place: `routes[2].match.path`, `query.limit`, `header.if-match`; empty for the whole body."""

    path: str
    message: str


class Error(Model):
    """Every answer that is not a success."""

    error: Annotated[str, Field(description="A code that does not change; programs decide by it.")]
    message: Annotated[str, Field(description="For people.")]
    errors: Annotated[list[ProblemItem] | None, Field(description="With 400: every problem.")] = None
    revision: Annotated[int | None, Field(ge=0, description="With 409: the active revision.")] = None


def rfc3339(time_ms: int) -> str:
    """Milliseconds since the epoch as text."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(time_ms // 1000)) + f"{time_ms % 1000:03d}Z"
