"""The map of the control plane's tokens (§12.7): who may act, and in which scope."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, cast, get_args

from common.settings.secret import Secret

Scope = Literal["read", "operate", "config"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

MIN_CHARACTERS = 16

FORM = 'JSON: `{"<token>": {"operator": "<name>", "scope": "read|operate|config"}}`'

_VISIBLE = re.compile(r"[!-~]+")
_OPERATOR = re.compile(r"[^\x00-\x20\x7f-\xa0](?:[^\x00-\x1f\x7f-\x9f]{0,126}[^\x00-\x20\x7f-\xa0])?")


@dataclass(frozen=True, slots=True)
class ControlToken:
    """A token, whose it is, and the one scope that it carries."""

    token: Secret
    operator: str
    scope: Scope


class _Pairs(list[tuple[str, object]]):
    """An object as its pairs, so that a repeated key is still seen."""


def parse_tokens(text: str) -> tuple[ControlToken, ...]:
    """The tokens of a map. `ValueError` names every entry with a problem by its place, never by its token."""
    try:
        raw = json.loads(text, object_pairs_hook=_Pairs)
    except (json.JSONDecodeError, RecursionError) as error:
        place = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(f"is not valid JSON{place}") from None
    if not isinstance(raw, _Pairs):
        raise ValueError('must be a JSON object such as {"<token>": {"operator": "<name>", "scope": "read"}}')  # noqa: TRY004 - a parser has one exception
    if not raw:
        raise ValueError("names no token; nobody could use the control plane")
    problems: list[str] = []
    tokens: list[ControlToken] = []
    seen: set[str] = set()
    for number, (token, entry) in enumerate(raw, 1):
        found = [*_token_problems(token, repeated=token in seen), *_entry_problems(entry)]
        seen.add(token)
        problems += [f"entry {number} {problem}" for problem in found]
        if not found:
            fields = dict(cast(_Pairs, entry))
            tokens.append(ControlToken(Secret(token), str(fields["operator"]), cast(Scope, fields["scope"])))
    if problems:
        raise ValueError("; ".join(problems))
    return tuple(tokens)


def _token_problems(token: str, *, repeated: bool) -> Iterator[str]:
    if repeated:
        yield "has the token of an earlier one; give each its own"
    elif len(token) < MIN_CHARACTERS:
        yield f"has a token of {len(token)} characters; at least {MIN_CHARACTERS} are needed"
    elif _VISIBLE.fullmatch(token) is None:
        yield "has a token with other than visible ASCII characters; it is sent in an authorization header"


def _entry_problems(entry: object) -> Iterator[str]:
    if not isinstance(entry, _Pairs):
        yield 'must be an object such as {"operator": "<name>", "scope": "read"}'
        return
    names = [name for name, _ in entry]
    fields = dict(entry)
    if len(fields) < len(names):
        yield "names a field twice"
    if not fields.keys() <= {"operator", "scope"}:
        yield "has a field besides operator and scope"
    operator, scope = fields.get("operator"), fields.get("scope")
    if not isinstance(operator, str) or _OPERATOR.fullmatch(operator) is None or not _is_text(operator):
        yield "needs an operator: a name of 1 to 128 characters on one line"
    if scope not in SCOPES:
        yield f"needs a scope: {', '.join(SCOPES[:-1])} or {SCOPES[-1]}"


def _is_text(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
