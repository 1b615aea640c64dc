"""Tables for people stay readable, however narrow the terminal is, and whole where a program reads them."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from controlplane.ctl.screen import UNCUT
from controlplane.ctl.tables import GAP, Column, fitted, print_table

COLUMNS = (Column("NAME", shortest=6), Column("REVISION", right=True), Column("ERROR", shortest=8))
ROWS = (
    ("gateway-7f9c4d-a", "12", "upstream: must be an http or https URL"),
    ("gateway-7f9c4d-b", "7", ""),
)


def printed(width: int | None) -> list[str]:
    """The lines on a terminal of this width; None is no terminal."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=width is not None, width=width or UNCUT, color_system=None)
    print_table(console, COLUMNS, [[Text(cell) for cell in row] for row in ROWS])
    return stream.getvalue().splitlines()


def test_columns_are_aligned_under_their_titles() -> None:
    head, first, second = printed(100)
    assert head.split() == ["NAME", "REVISION", "ERROR"]
    assert first.index("12") + 2 == second.index("7", 16) + 1 == head.index("REVISION") + len("REVISION")
    assert first.index("upstream") == head.index("ERROR")


def test_a_narrow_terminal_cuts_what_may_be_cut() -> None:
    lines = printed(40)
    assert all(len(line) <= 40 for line in lines)
    assert "…" in lines[1]
    assert "12" in lines[1]


def test_a_terminal_that_is_too_narrow_for_columns_gets_a_line_for_each_field() -> None:
    lines = printed(20)
    assert lines[0].split() == ["NAME", "gateway-7f9c4d-a"] or lines[0].startswith("NAME")
    assert "12" in "".join(lines)
    assert all(len(line) <= 20 for line in lines)
    assert "".join(line.strip() for line in lines).endswith("7")


def test_a_program_reads_whole_lines() -> None:
    lines = printed(None)
    assert len(lines) == 3
    assert lines[1].split(maxsplit=2)[2] == ROWS[0][2]
    assert all(len(line) < 200 for line in lines)


@given(st.data())
def test_what_fits_is_as_wide_as_possible_and_never_too_wide(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 5))
    widths = data.draw(st.lists(st.integers(1, 60), min_size=count, max_size=count))
    shortest = data.draw(st.lists(st.sampled_from([0, 4, 8, 70]), min_size=count, max_size=count))
    available = data.draw(st.integers(1, 200))
    found = fitted(widths, shortest, available)
    least = [min(width, low) if low else width for width, low in zip(widths, shortest, strict=True)]
    gaps = GAP * (count - 1)
    if found is None:
        assert sum(least) + gaps > available
        return
    assert sum(found) + gaps == min(sum(widths) + gaps, available)
    assert all(low <= cut <= width for low, cut, width in zip(least, found, widths, strict=True))
