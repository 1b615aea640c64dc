"""What every answer of the API has in common."""

from __future__ import annotations

import contextlib
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Generic, TypeVar

from fastapi import Query as InQuery
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from controlplane.paging import CURSOR_MAX, LIMIT, LIMIT_MAX

Item = TypeVar("Item")

Time = Annotated[
    str, Field(json_schema_extra={"format": "date-time"}, examples=["2026-01-31T23:59:59.999Z"], title="Time")
]
"""RFC 3339 in UTC, with milliseconds."""

Text = Annotated[str, Field(min_length=1, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")]
"""A text on one line. What holds a control character names nothing that a store keeps."""

_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})", re.ASCII
)


def _time_ms(value: object) -> object:
    """Milliseconds since the epoch of a time in RFC 3339; parts of a millisecond are dropped."""
    if not isinstance(value, str):
        return value
    moment = None
    if _RFC3339.fullmatch(value) is not None:
        with contextlib.suppress(ValueError):
            moment = datetime.fromisoformat(value.upper().replace("Z", "+00:00"))
    if moment is None:
        raise PydanticCustomError("time", "must be a time such as 2026-01-31T23:59:59Z")
    # Before the epoch there is nothing to be found.
    return max(0, (moment - EPOCH) // timedelta(milliseconds=1))


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

TimeQuery = Annotated[
    int,
    BeforeValidator(_time_ms),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2026-01-31T23:59:59Z"]}),
]
"""A time in RFC 3339, as milliseconds since the epoch."""

Cursor = Annotated[str, Field(min_length=1, max_length=CURSOR_MAX, pattern=r"^[A-Za-z0-9_-]+$")]


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


class Query(BaseModel):
    """Parameters of a query. An unknown one is a mistake, and not ignored."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)


NoQuery = Annotated[Query, InQuery()]


class PageQuery(Query):
    """Which page of a list."""

    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX, description="Items at most."), Digits] = LIMIT
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
