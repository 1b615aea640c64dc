"""Lists by pages: a cursor is the place behind the last item shown, so a page costs the same wherever it is."""

from __future__ import annotations

import re

from common import base64url
from common.routetable.problems import Problem
from controlplane.errors import bad_request

LIMIT_MAX = 200
LIMIT = 50

CURSOR_MAX = 128

_ALPHABET = re.compile(r"[A-Za-z0-9_-]+")


def cursor_of(kind: str, place: str) -> str:
    """The cursor of a place in a list of a kind."""
    return base64url.encode(f"{kind}:{place}".encode()).decode()


def place_of(kind: str, cursor: str | None, form: re.Pattern[str]) -> str | None:
    """The place that a cursor stands for, None for none; 400 for one that no list of this kind gave."""
    if cursor is None:
        return None
    if _ALPHABET.fullmatch(cursor):
        try:
            text = base64url.decode(cursor.encode()).decode("ascii")
        except ValueError:
            text = ""
        found = text.partition(":")
        if found[0] == kind and form.fullmatch(found[2]) and cursor_of(kind, found[2]) == cursor:
            return found[2]
    raise bad_request(Problem("query.cursor", "is none of this list; begin without one, then send nextCursor"))


NUMBER = re.compile(r"[1-9][0-9]{0,17}")


def number_of(kind: str, cursor: str | None) -> int | None:
    """`place_of` for a place that is a number."""
    place = place_of(kind, cursor, NUMBER)
    return None if place is None else int(place)
