"""What a person sees, and what a program reads: results on standard output, everything else on standard error.

Nothing that comes from the control plane or a table reaches a terminal unescaped, and none of it is read as markup.
Colour is for terminals, and only without NO_COLOR.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import typer

from common.json_text import json_text
from common.telemetry.redact import escape_controls

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from controlplane.ctl.failures import CtlError, Problem
    from controlplane.ctl.tables import Column

UNCUT = 1_000_000
"""The width of what is no terminal: a program reads whole lines."""

HEAD_LINES = 2
"""Of a unified diff: the names of both sides."""

_FRACTION = re.compile(r"\.[0-9]+")
_LINE_STYLES = {"+": "green", "-": "red", "@": "cyan"}


class Screen:
    """Writes for one command. With `as_json` standard output gets one JSON document, and standard error JSON too."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._out: Console | None = None
        self._err: Console | None = None

    @property
    def out(self) -> Console:
        """Standard output. Imported late: help and JSON need none of it."""
        self._out = self._out or _console(sys.stdout)
        return self._out

    @property
    def err(self) -> Console:
        """Standard error."""
        self._err = self._err or _console(sys.stderr)
        return self._err

    def json(self, value: object) -> None:
        """The result, for a program."""
        write(json_text(value, indent=2) + "\n")

    def line(self, message: str, style: str = "") -> None:
        """A sentence of the result."""
        self.out.print(plain(message, style), soft_wrap=True)

    def note(self, message: str, style: str = "dim") -> None:
        """Something beside the result."""
        if not self.as_json:
            self.err.print(plain(message, style), soft_wrap=True)

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str | Text]]) -> None:
        """Rows under titles."""
        from rich.text import Text

        from controlplane.ctl.tables import print_table

        cells = [[cell if isinstance(cell, Text) else plain(cell) for cell in row] for row in rows]
        print_table(self.out, columns, cells)

    def diff(self, difference: dict[str, Any], console: Console | None = None) -> None:
        """A difference as the control plane tells it: what it comes to, and the unified text."""
        from rich.segment import Segment, Segments
        from rich.style import Style

        console = console or self.out
        console.print(plain(summary_of(difference), "bold"), soft_wrap=True)
        styles = {mark: Style.parse(style) for mark, style in _LINE_STYLES.items()}
        heading = Style.parse("bold")
        # Laid out by itself: of a large table there are half a million lines, and as texts each takes 150 µs.
        lines = str(difference.get("unified", "")).splitlines()
        segments = []
        for number, line in enumerate(lines):
            style = heading if number < HEAD_LINES else styles.get(line[:1])
            segments += [Segment(escape_controls(line), style), Segment.line()]
        console.print(Segments(segments), soft_wrap=True, end="")

    def warnings(self, found: Sequence[dict[str, Any]]) -> None:
        """Permissive settings of a table, beside the result."""
        from rich.text import Text

        for one in found if not self.as_json else ():
            place = f"{one['route']}: {one['setting']}" if one.get("route") else str(one.get("setting", ""))
            message = Text.assemble(("warning  ", "yellow"), plain(place, "bold"), plain(f": {one.get('message', '')}"))
            self.err.print(message, soft_wrap=True)

    def problems(self, found: Sequence[Problem]) -> None:
        """Every problem with its place."""
        from rich.text import Text

        for one in found:
            message = Text.assemble(
                ("error    ", "bold red"), plain(one.path or "document", "bold"), plain(f": {one.message}")
            )
            self.err.print(message, soft_wrap=True)

    def failure(self, error: CtlError) -> None:
        """Why it was not done, on standard error."""
        if self.as_json:
            write(json_text({"error": error.code, "message": str(error), **error.details()}) + "\n", to_stderr=True)
            return
        self.problems(error.problems)
        self.err.print(plain(f"gatewayctl: {error}"), soft_wrap=True)

    @contextmanager
    def waiting(self, message: str) -> Generator[None]:
        """Says on a terminal that something takes its time."""
        if self.as_json or not sys.stderr.isatty():
            yield
            return
        with self.err.status(plain(message)):
            yield

    @contextmanager
    def progress(self) -> Generator[Callable[[str], None]]:
        """Tells how far something is: one line that changes on a terminal, a line for each step elsewhere."""
        if self.as_json:
            yield lambda _: None
        elif not sys.stderr.isatty():
            yield self.note
        else:
            with self.err.status("") as status:
                yield lambda message: status.update(plain(message))


def moment(text: object) -> str:
    """A time of the control plane (RFC 3339 in UTC), to the second."""
    return _FRACTION.sub("", str(text)).replace("T", " ")


def plain(text: object, style: str = "") -> Text:
    """A text from anywhere: on one line, without what steers a terminal, and never read as markup."""
    from rich.text import Text

    return Text(escape_controls(str(text)), style=style)


def summary_of(difference: dict[str, Any]) -> str:
    """What a difference comes to, in one line."""
    counts = [
        f"{len(difference.get(kind, ()))} route{'' if len(difference.get(kind, ())) == 1 else 's'} {kind}"
        for kind in ("added", "changed", "removed")
        if difference.get(kind)
    ]
    counts += ["settings changed"] if difference.get("settings") else []
    return ", ".join(counts) or "No difference."


def write(text: str, *, to_stderr: bool = False) -> None:
    """Write as it is, in UTF-8 as JSON is whatever the locale says, and at once: what cannot be written (a full disk, a
    closed pipe) is an error here and not later.
    """
    typer.echo(text.encode("utf-8"), nl=False, err=to_stderr)


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    terminal = stream.isatty()
    return Console(
        file=stream,
        force_terminal=terminal,
        width=None if terminal else UNCUT,
        highlight=False,
        markup=False,
        emoji=False,
    )
