"""Raw JSON to models, reporting every fault of the shape and going on with the rest.

A faulty field is left out and a missing one replaced by a stand-in, so that what stands around it is judged in the same
run. `Problems` never reports anything inside a place that was reported already, so a stand-in causes no problem.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.alias_generators import to_camel

from common.routetable.model import (
    UPSTREAM_KINDS,
    AuthPart,
    BudgetPart,
    DefaultsPart,
    MatchPart,
    RateLimitsPart,
    RouteV1,
    RouteV2,
    TableV1,
    TableV2,
    TimeoutsPart,
    WorkspacePart,
)
from common.routetable.problems import Problems, below, shown

M = TypeVar("M", bound=BaseModel)

_OF_VERSION_2 = ("hosts", "upstreamHost")
_PATTERNS = {
    "id": "must match ^[a-z0-9][a-z0-9-]{0,63}$",
    "path": "must start with a slash",
    "rewrite": "must start with a slash",
    "param": "must be the name of a placeholder of match.path, without its braces",
    "methods": "must be a method in upper case, such as GET",
}
_WORDS = {
    "missing": "is required",
    "string_type": "must be a text",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "model_type": "must be an object",
    "too_short": "must not be empty",
}

RawTable = dict[str, object]


def _known(model: type[BaseModel]) -> tuple[str, ...]:
    return tuple(to_camel(name) for name in model.model_fields)


# Keys of every object inside a route or the defaults, by the field that holds it.
_NESTED = {
    "defaults": _known(DefaultsPart),
    "match": _known(MatchPart),
    "auth": _known(AuthPart),
    "workspace": _known(WorkspacePart),
    "timeouts": _known(TimeoutsPart),
    "rateLimits": _known(RateLimitsPart),
    "client": _known(BudgetPart),
    "principal": _known(BudgetPart),
}


def version_of(raw: RawTable, problems: Problems) -> int:
    """The table's version; 2 with a problem reported when it declares none that exists."""
    version = raw.get("version")
    if type(version) is int and version in (1, 2):
        return version
    problems.add("version", "is required: 1 or 2" if version is None else "must be 1 or 2")
    return 2


def read_table(raw: RawTable, version: int, problems: Problems) -> TableV1 | TableV2:
    """Everything of the table but its routes, which `read_route` judges one by one."""
    model: type[TableV1] | type[TableV2] = TableV1 if version == 1 else TableV2
    bare: RawTable = {"version": version, "routes": []}
    table = _read(model, {**raw, **bare}, "", {}, problems)
    return table or model.model_validate(bare)


def read_route(raw: object, version: int, index: int, problems: Problems) -> RouteV1 | None:
    """One route; None when it is no object."""
    stand_ins: RawTable = {"id": f"route-{index}", "match": {"path": "/"}, "upstream": "http://localhost"}
    model = RouteV1 if version == 1 else RouteV2
    return _read(model, raw, f"routes[{index}]", stand_ins, problems)


def _read(model: type[M], raw: object, where: str, stand_ins: RawTable, problems: Problems) -> M | None:
    if not isinstance(raw, dict):
        problems.add(where, "must be an object")
        return None
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=True)
    kept = _own(raw)
    for fault in faults:
        if problems.full:
            return None
        place = _place(fault["loc"])
        problems.add(_path(where, place), _message(fault, place, model))
        nested = fault["type"] == "missing" and len(place) > 1
        _remove(kept, place[:-1] if nested else place)
    try:
        return model.model_validate({**stand_ins, **kept})
    except ValidationError:
        return None


def _place(location: tuple[str | int, ...]) -> list[str | int]:
    """Where a fault is in the file: without the tag that pydantic adds behind `upstream`."""
    if len(location) > 1 and location[0] == "upstream" and location[1] in UPSTREAM_KINDS:
        return ["upstream", *location[2:]]
    return list(location)


def _path(where: str, place: Iterable[str | int]) -> str:
    path = where
    for part in place:
        path = f"{path}[{part}]" if isinstance(part, int) else below(path, part)
    return path


def _message(fault: Any, place: list[str | int], model: type[BaseModel]) -> str:
    kind: str = fault["type"]
    context = fault.get("ctx", {})
    keys = [part for part in place if isinstance(part, str)]
    if kind == "extra_forbidden":
        return _unknown_key(keys, model)
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(keys[-1], "is not of the expected form")
    if kind == "literal_error":
        return f"must be one of {context['expected']}"
    if kind == "greater_than_equal":
        return f"must be at least {context['ge']}"
    if kind == "less_than_equal":
        return f"must be at most {context['le']}"
    if kind == "too_long":
        return f"must hold at most {context['max_length']} entries"
    return _WORDS.get(kind, "is not valid")


def _unknown_key(keys: list[str], model: type[BaseModel]) -> str:
    key = keys[-1]
    if key in _OF_VERSION_2 and len(keys) == 1:
        return 'belongs to version 2: set "version": 2 to use it'
    candidates = _known(model) if len(keys) == 1 else _NESTED.get(keys[-2], ())
    near = difflib.get_close_matches(key, candidates, n=1)
    return f"unknown key{f'; did you mean {shown(near[0])}?' if near else ''}"


def _own(value: Any) -> Any:
    """A copy whose objects can be changed; copied once, since a table may hold a million faults."""
    return {key: _own(item) for key, item in value.items()} if isinstance(value, dict) else value


def _remove(value: Any, place: list[str | int]) -> None:
    """Take the field at `place` away; a fault inside a list takes the whole list with it."""
    while place and isinstance(value, dict) and place[0] in value:
        key, *place = place
        if place and isinstance(value[key], dict):
            value = value[key]
        else:
            del value[key]
            return
