"""Plots as SVG, without a library: bars of contenders, and lines of a cost against a number.

They are read on light and on dark pages alike: grey text, no background, colours that the colour-blind tell apart, and
every line ends at its name. Each has a title and a description of its figures for who does not see it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 720
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#a17c00")
"""After Okabe and Ito, its yellow darker."""
INK, FAINT = "#767676", "#9a9a9a"
_STYLE = "font-family='system-ui, sans-serif' font-size='13'"


@dataclass(frozen=True)
class Series:
    """A named line: `x` above 0, drawn by its logarithm, and `y` from 0."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Bar:
    """One contender; `own` ones are drawn in a colour of their own."""

    name: str
    value: float
    own: bool = False


def bars(title: str, unit: str, values: Sequence[Bar]) -> str:
    """Horizontal bars below each other, each with its name and figure."""
    left, row, top = 260, 24, 44
    scale = (WIDTH - left - 80) / max(bar.value for bar in values)
    parts = []
    for place, bar in enumerate(values):
        y, length = top + place * row, max(bar.value * scale, 1)
        fill = COLOURS[0] if bar.own else FAINT
        parts += [
            _text(left - 8, y + 13, bar.name, "end"),
            f"<rect x='{left}' y='{y}' width='{length:.1f}' height='{row - 7}' fill='{fill}'/>",
            _text(left + length + 6, y + 13, figure(bar.value)),
        ]
    told = "; ".join(f"{bar.name} {figure(bar.value)}" for bar in values)
    return _svg(f"{title}, {unit}", told, top + len(values) * row + 8, parts)


def lines(title: str, x_name: str, unit: str, series: Sequence[Series]) -> str:
    """Lines over a logarithmic axis; each one's last point carries its name."""
    left, right, top, bottom = 64, WIDTH - 170, 48, 320
    xs = [x for one in series for x, _ in one.points]
    most = _round_up(max(y for one in series for _, y in one.points))
    low, high = math.log10(min(xs)), math.log10(max(xs))

    def at(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - low) / (high - low) if high > low else 0.5
        return left + across * (right - left), bottom - y / most * (bottom - top)

    parts = []
    for step in range(5):
        value = most * step / 4
        _, y = at(10**low, value)
        parts += [
            f"<line x1='{left}' y1='{y:.1f}' x2='{right}' y2='{y:.1f}' stroke='{FAINT}' stroke-opacity='0.4'/>",
            _text(left - 8, y + 4, figure(value), "end"),
        ]
    for x in sorted(set(xs)):
        parts.append(_text(at(x, 0)[0], bottom + 20, f"{x:,.0f}".replace(",", "\u202f"), "middle"))
    parts.append(_text((left + right) / 2, bottom + 42, x_name, "middle"))
    ends: list[float] = []
    for one, colour in zip(series, COLOURS, strict=False):
        points = [at(x, y) for x, y in one.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2'/>")
        parts += [f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.5' fill='{colour}'/>" for x, y in points]
        y = _free(points[-1][1] + 4, ends)
        parts.append(_text(points[-1][0] + 10, y, one.name, fill=colour))
    told = "; ".join(f"{one.name}: " + ", ".join(f"{x:g} {figure(y)}" for x, y in one.points) for one in series)
    return _svg(f"{title}, {unit}", told, bottom + 56, parts)


def figure(value: float) -> str:
    """Three digits that count."""
    if value >= 100 or value == 0:
        return f"{value:,.0f}".replace(",", "\u202f")
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}".rstrip("0").rstrip(".")


def _round_up(value: float) -> float:
    step = 10 ** math.floor(math.log10(value or 1))
    return float(next(step * factor for factor in (1, 2, 4, 5, 8, 10) if step * factor >= value))


def _free(y: float, taken: list[float]) -> float:
    """A height for a name at which none stands yet."""
    while any(abs(y - other) < 15 for other in taken):
        y -= 15
    taken.append(y)
    return y


def _text(x: float, y: float, text: str, anchor: str = "start", fill: str = INK) -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' fill='{fill}' {_STYLE}>{escape(text)}</text>"


def _svg(title: str, told: str, height: float, parts: Sequence[str]) -> str:
    heading = f"<text x='8' y='22' fill='{INK}' font-weight='600' {_STYLE}>{escape(title)}</text>"
    body = "\n".join((f"<title>{escape(title)}</title>", f"<desc>{escape(told)}</desc>", heading, *parts))
    size = f"viewBox='0 0 {WIDTH} {height:.0f}' width='{WIDTH}' height='{height:.0f}'"
    return f"<svg xmlns='http://www.w3.org/2000/svg' role='img' {size}>\n{body}\n</svg>\n"
