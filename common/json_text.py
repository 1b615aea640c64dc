"""JSON for people's terminals: the same value, and no character in it that steers one."""

from __future__ import annotations

import json
import re

_NOT_ASCII = re.compile(r"[^\x00-\x7e]")


def json_text(value: object, *, indent: int | None = None) -> str:
    """A value as JSON. What cannot be seen (controls, direction marks, lone surrogates) is escaped; scripts stay."""
    return inert_json(json.dumps(value, ensure_ascii=False, indent=indent))


def inert_json(text: str) -> str:
    """The same JSON document, laid out as it is, with what cannot be seen in its texts escaped.

    Valid JSON holds such characters inside texts only, and those of ASCII are escaped there already.
    """
    return text if text.isascii() and "\x7f" not in text else _NOT_ASCII.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]
