"""What a person sees of a difference: all of it, soon, and nothing that steers the terminal."""

from __future__ import annotations

import io
import time

from rich.console import Console

from controlplane.ctl.screen import UNCUT, Screen, summary_of


def shown(difference: dict[str, object], *, colour: bool) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=colour, color_system="standard" if colour else None, width=UNCUT)
    Screen(as_json=False).diff(difference, console)
    return stream.getvalue()


def test_the_largest_difference_is_shown_soon() -> None:
    lines = 200_000
    began = time.process_time()
    text = shown({"added": ["a"], "unified": "+ line\n" * lines}, colour=True)
    assert time.process_time() - began < 20
    assert text.count("\n") == lines + 1


def test_lines_are_coloured_by_what_happens_to_them() -> None:
    unified = "--- revision 1\n+++ revision 2\n@@ -1,1 +1,1 @@ route a\n-old\n+new\n same\n"
    assert shown({"changed": [1], "unified": unified}, colour=True).splitlines() == [
        "\x1b[1m1 route changed\x1b[0m",
        "\x1b[1m--- revision 1\x1b[0m",
        "\x1b[1m+++ revision 2\x1b[0m",
        "\x1b[36m@@ -1,1 +1,1 @@ route a\x1b[0m",
        "\x1b[31m-old\x1b[0m",
        "\x1b[32m+new\x1b[0m",
        " same",
    ]


def test_nothing_in_a_difference_steers_the_terminal_or_is_markup() -> None:
    text = shown({"unified": "-\x1b[2J\u202e[red]x[/red]\x9b\n+ok\n"}, colour=False)
    assert text == "No difference.\n-\\x1b[2J\\u202e[red]x[/red]\\x9b\n+ok\n"


def test_a_difference_is_summed_up() -> None:
    assert summary_of({}) == "No difference."
    difference = {"added": ["a"], "changed": [1, 2], "removed": [], "settings": [1]}
    assert summary_of(difference) == "1 route added, 2 routes changed, settings changed"
