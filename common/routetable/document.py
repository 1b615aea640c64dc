"""Bytes to a JSON document, refusing what two readers could read differently (RFC 8259 §4, RFC 7493)."""

from __future__ import annotations

import json

from common.routetable.problems import Problems, below, shown

MAX_TABLE_BYTES = 8 * 1024 * 1024
"""What the control plane accepts (§12.7); a file may not be larger than what can be pushed."""

MAX_DEPTH = 16
"""The deepest field of a table lies five levels down."""


_BROKEN_TEXT = "is not valid Unicode text: it holds one half of a surrogate pair"


class _Object(list[tuple[str, object]]):
    """An object as its pairs, so that a repeated key is still seen."""


class _NotJSON(ValueError):
    """A constant that Python's reader takes and JSON does not have."""


def read_document(text: bytes, problems: Problems) -> object:
    """The document as dicts, lists and scalars; None with a problem reported when it cannot be read.

    Repeated keys, `null`, NaN, infinities, a byte order mark, text that is not UTF-8, more than `MAX_TABLE_BYTES` and
    more than `MAX_DEPTH` levels are problems.
    """
    if len(text) > MAX_TABLE_BYTES:
        problems.add("", f"is larger than {MAX_TABLE_BYTES} bytes")
        return None
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as error:
        problems.add("", f"is not UTF-8: byte {error.start} cannot be read")
        return None
    if not decoded.strip():
        problems.add("", "is empty: a route table is a JSON object")
        return None
    return _plain(_parsed(decoded, problems), "", 0, problems)


def _parsed(text: str, problems: Problems) -> object:
    try:
        value: object = json.loads(text, object_pairs_hook=_Object, parse_constant=_constant)
    except json.JSONDecodeError as error:
        problems.add("", f"is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}")
    except _NotJSON as error:
        problems.add("", f"is not valid JSON: {error}")
    except RecursionError:
        problems.add("", "is nested too deeply")
    except ValueError:
        # Python bounds the digits of an integer that it reads from text.
        problems.add("", "is not a usable JSON document: it holds a number of too many digits")
    else:
        return value
    return _Object()


def _constant(name: str) -> object:
    raise _NotJSON(f"{name} is no number of JSON")


def _plain(value: object, path: str, depth: int, problems: Problems) -> object:
    if depth > MAX_DEPTH:
        problems.add(path, "is nested too deeply")
        return None
    if isinstance(value, _Object):
        plain: dict[str, object] = {}
        for key, item in value:
            place = below(path, key)
            if _is_broken(key):
                problems.add(place, _BROKEN_TEXT)
                continue
            if key in plain:
                problems.add(place, f"the key {shown(key)} stands more than once in one object")
            if item is None:
                problems.add(place, "must not be null: leave the field out instead")
                continue
            plain[key] = _plain(item, place, depth + 1, problems)
        return plain
    if isinstance(value, str) and _is_broken(value):
        problems.add(path, _BROKEN_TEXT)
    if isinstance(value, list):
        return [_plain(item, f"{path}[{index}]", depth + 1, problems) for index, item in enumerate(value)]
    return value


def _is_broken(text: str) -> bool:
    """An escape of the document made a lone surrogate, which nothing behind it can encode."""
    if text.isascii():
        return False
    return any("\ud800" <= character <= "\udfff" for character in text)
