"""Tables for people: aligned, one line a row, and readable on a narrow terminal too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console

GAP = 2


@dataclass(frozen=True, slots=True)
class Column:
    """A column. One that may shrink is cut to no less than `shortest` cells, with an ellipsis; 0: it never is."""

    title: str
    shortest: int = 0
    right: bool = False


def print_table(console: Console, columns: Sequence[Column], rows: Sequence[Sequence[Text]]) -> None:
    """Print rows under their titles; where even the cut columns do not fit, each row as lines of its own.

    Into a pipe or a file nothing is cut. The texts are already safe to show.
    """
    widths = [
        max(cell_len(column.title), *(row[index].cell_len for row in rows), 1) for index, column in enumerate(columns)
    ]
    if console.is_terminal:
        fitting = fitted(widths, [column.shortest for column in columns], console.width)
        if fitting is None:
            return _print_records(console, columns, rows)
        widths = fitting
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    for column, width in zip(columns, widths, strict=True):
        table.add_column(
            column.title,
            width=width,
            no_wrap=True,
            overflow="ellipsis",
            justify="right" if column.right else "left",
        )
    for row in rows:
        table.add_row(*row)
    console.print(table)
    return None


def fitted(widths: Sequence[int], shortest: Sequence[int], available: int) -> list[int] | None:
    """The widths, cut where they may be so that all fit into `available` with their gaps; None when they cannot."""
    found = list(widths)
    excess = sum(found) + GAP * (len(found) - 1) - available
    while excess > 0:
        spare = [width - least if least else 0 for width, least in zip(found, shortest, strict=True)]
        widest = max(range(len(found)), key=lambda index: (spare[index] > 0) * found[index])
        if spare[widest] <= 0:
            return None
        found[widest] -= 1
        excess -= 1
    return found


def _print_records(console: Console, columns: Sequence[Column], rows: Sequence[Sequence[Text]]) -> None:
    name_width = max(len(column.title) for column in columns)
    for number, row in enumerate(rows):
        if number:
            console.print()
        for column, cell in zip(columns, row, strict=True):
            if cell:
                console.print(Text.assemble((column.title.ljust(name_width), "bold"), " " * GAP, cell))
