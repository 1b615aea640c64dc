"""Templates of paths: `/ws/{workspaceId}/` to match, `/v1/{workspaceId}/{rest}` to rewrite (§3.1, §11.1.1)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from common.routetable.paths import AmbiguousPath, decoded_once, read_path, strict_reading

REST = "rest"
"""The name of what lies behind the matched prefix, in a rewrite."""

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]{0,63})\}")
_STAND_IN = "x"


@dataclass(frozen=True, slots=True)
class Template:
    """A path template in its strict reading.

    `literals` has one item a segment: its text, or None for a placeholder. `loose` is the same with every escape
    decoded, to compare with the loosest reading of a path. `placeholders` are names with the index of their segment.
    """

    text: str
    literals: tuple[str | None, ...]
    loose: tuple[str | None, ...]
    placeholders: tuple[tuple[str, int], ...]
    is_prefix: bool
    """The template ends in a slash: something (if only that slash) follows its last segment."""

    @property
    def literal_prefix(self) -> str:
        """What stands before the first placeholder (§3.3)."""
        return self.text.partition("{")[0]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.placeholders)

    @property
    def skeleton(self) -> tuple[tuple[str | None, ...], bool]:
        """Equal for two templates that match exactly the same paths (§3.2)."""
        return self.loose, self.is_prefix


# A route's path is parsed where the route is compiled, and again where it is placed.
@lru_cache(maxsize=1_024)
def parse_template(text: str) -> Template:
    """The template of `match.path`. ValueError says what is wrong with it.

    A literal must read the same both ways apart from its escapes: one with `//`, `;`, a backslash or an escaped slash
    could only ever be matched by requests that are ambiguous.
    """
    segments, is_prefix = _segments(text)
    placeholders = _placeholders(segments)
    names = [name for name, _ in placeholders]
    if REST in names:
        raise ValueError("{rest} names what follows the path in a rewrite: call the placeholder something else")
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise ValueError(f"holds the placeholder {{{min(repeated)}}} more than once")
    captured = {index for _, index in placeholders}
    literals = tuple(None if i in captured else strict_reading(segment) for i, segment in enumerate(segments))
    loose = tuple(None if literal is None else decoded_once(literal) for literal in literals)
    for literal in loose:
        if literal is not None and (not literal or any(mark in literal for mark in "/\\;")):
            raise ValueError(
                "holds an empty segment, ';', a backslash or an escaped slash in a literal: requests to it would be "
                "ambiguous; match the segment with a placeholder or use a shorter prefix"
            )
    return Template(strict_reading(text), literals, loose, placeholders, is_prefix)


def parse_literal_path(text: str) -> Template:
    """A path without placeholders, such as an entry of `reservedPaths`."""
    template = parse_template(text)
    if template.placeholders:
        raise ValueError("must not hold a placeholder")
    return template


def check_rewrite(text: str, names: frozenset[str]) -> None:
    """ValueError when `text` is no rewrite for a path with these placeholders (§11.1.1)."""
    segments, _ = _segments(text)
    used = [name for name, _ in _placeholders(segments)]
    unknown = [name for name in used if name not in names and name != REST]
    if unknown:
        raise ValueError(f"names {{{unknown[0]}}}, which is no placeholder of match.path")
    if REST in used and (used.count(REST) > 1 or not text.endswith(f"/{{{REST}}}")):
        raise ValueError("may hold {rest} only as its last segment")


def _segments(text: str) -> tuple[list[str], bool]:
    """Segments of a template and whether it ends in a slash; placeholders aside it must be a path that is accepted."""
    if not text.isascii():
        raise ValueError("holds a character outside ASCII: write it as percent-escapes of its UTF-8 bytes")
    try:
        read_path(_PLACEHOLDER.sub(_STAND_IN, text))
    except AmbiguousPath as error:
        raise ValueError(error.reason.removeprefix("the path ")) from None
    segments = text[1:].split("/")
    is_prefix = segments[-1] == ""
    return segments[:-1] if is_prefix else segments, is_prefix


def _placeholders(segments: list[str]) -> tuple[tuple[str, int], ...]:
    found = []
    for index, segment in enumerate(segments):
        if "{" not in segment and "}" not in segment:
            continue
        match = _PLACEHOLDER.fullmatch(segment)
        if match is None:
            raise ValueError(
                "must write a placeholder as a whole segment, {name}: a letter, then letters, digits, _ or -"
            )
        found.append((match[1], index))
    return tuple(found)
