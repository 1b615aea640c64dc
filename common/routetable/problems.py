"""What is wrong with a table: every problem with its JSON path, collected rather than raised one by one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_PROBLEMS = 1_000
"""A table with more is wrong in kind, not in detail; the bound keeps a hostile one from filling the memory."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SHOWN_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem: `path` is its place (`routes[2].match.path`; `""` is the document), `message` says what to do."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class RouteTableInvalid(Exception):
    """The table was refused as a whole; `problems` holds every reason, in the order of the document."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(summary(problems))
        self.problems = problems


def summary(problems: tuple[Problem, ...], shown: int = 3) -> str:
    """The first problems as one line, and how many more there are."""
    line = "; ".join(str(problem) for problem in problems[:shown])
    more = len(problems) - shown
    return f"{line}; and {more} more" if more > 0 else line


class Problems:
    """Collects problems. A place that was reported once, or lies inside one that was, is not reported again."""

    def __init__(self) -> None:
        self._found: dict[str, Problem] = {}
        self._around: set[str] = set()

    def add(self, path: str, message: str) -> None:
        if path in self._found or any(outer in self._found for outer in _outer_paths(path)):
            return
        if self.full:
            return
        self._found[path] = Problem(path, message)
        self._around.update(_outer_paths(path))

    @property
    def full(self) -> bool:
        return len(self._found) >= MAX_PROBLEMS

    @property
    def any(self) -> bool:
        return bool(self._found)

    def touch(self, path: str) -> bool:
        """A problem was reported at this place, inside it, or around it."""
        if not self._found:
            return False
        return path in self._found or path in self._around or any(outer in self._found for outer in _outer_paths(path))

    def listed(self) -> tuple[Problem, ...]:
        """All problems in the order of the document; where not all may have been kept, the last says so."""
        found = tuple(sorted(self._found.values(), key=_document_order))
        if self.full:
            found += (Problem("", f"only the first {MAX_PROBLEMS} problems are listed"),)
        return found

    def raise_if_any(self) -> None:
        """Raise `RouteTableInvalid` with everything that was collected."""
        if self._found:
            raise RouteTableInvalid(self.listed())


def below(path: str, key: str) -> str:
    """The path of a field inside the object at `path`."""
    if _NAME.fullmatch(key) is None:
        return f"{path}[{shown(key)}]"
    return f"{path}.{key}" if path else key


def shown(value: object) -> str:
    """A value of the document for a message: quoted, on one line, in ASCII, cut to a readable length."""
    text = json.dumps(value) if isinstance(value, str | int | float | bool | None) else type(value).__name__
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _outer_paths(path: str) -> Iterator[str]:
    for at in range(len(path) - 1, 0, -1):
        if path[at] in ".[":
            yield path[:at]
    if path:
        yield ""


_STEP = re.compile(r"\[(\d+)\]|[^.\[]+|\[")


def _document_order(problem: Problem) -> tuple[bool, list[tuple[int, str]]]:
    """What stands outside the routes first, then the routes in their order (`[2]` before `[10]`)."""
    steps = [(int(step[1]) if step[1] else -1, step[0]) for step in _STEP.finditer(problem.path)]
    return problem.path.startswith("routes["), steps
