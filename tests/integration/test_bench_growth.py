"""The benchmark of growth works, and plots say in words what they show."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.bench.growth import GROWTH
from tests.bench.plots import WIDTH, Bar, Series, bars, figure, lines
from tests.integration.test_bench_smoke import bench
from tests.support.counterparts import require_program

SHORT: dict[str, tuple[str, list[object]]] = {
    "routes": ("routes", [10, 100]),
    "connections": ("contender", ["Wicketgate", "nginx"] * 2),
    "sessions": ("store", ["memory", "redis", "postgres"]),
    "replicas": ("replicas", [2, 2]),
}
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("kind", GROWTH)
def test_a_short_run_of_growth_measures_and_draws(tmp_path: Path, kind: str) -> None:
    for program in ("nginx", "redis-server"):
        require_program(program)
    file = tmp_path / "growth.json"
    done = bench("growth", "--short", "--only", kind, "--json", file, "--plots", tmp_path / "plots")
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())["results"][kind]
    column, expected = SHORT[kind]
    assert [row[column] for row in rows] == expected
    (plot,) = (tmp_path / "plots").iterdir()
    assert plot.name == f"growth-{kind}.svg"


def test_growth_names_what_it_can_measure() -> None:
    done = bench("growth", "--only", "people")
    assert done.returncode == 1
    assert "replicas" in done.stderr


def test_growth_names_the_stores_it_can_measure() -> None:
    done = bench("growth", "--only", "sessions", "--stores", "postgres,oracle")
    assert done.returncode == 1
    assert "oracle; there are memory, redis, postgres" in done.stderr


@pytest.mark.real
@pytest.mark.slow
def test_growth_measures_as_many_as_it_is_told_where_it_is_told(tmp_path: Path) -> None:
    require_program("redis-server")
    file = tmp_path / "growth.json"
    done = bench("growth", "--only", "sessions", "--stores", "postgres", "--counts", "40", "--json", file)
    assert done.returncode == 0, done.stderr
    ((row,),) = json.loads(file.read_text())["results"].values()
    assert (row["store"], row["sessions"], row["made_trips"]) == ("postgres", 40, 1.0)
    assert row["read_trips"] == 1 / 32


@pytest.mark.parametrize(
    "drawn",
    [
        bars("Bars", "µs", [Bar("a <b> & c", 3.0, own=True), Bar("d", 0.01)]),
        lines("Lines", "how many", "µs", [Series("a <b> & c", [(1, 0.0), (100_000, 7.0)]), Series("d", [(1, 6.9)])]),
        lines("One point", "how many", "µs", [Series("d", [(10, 4.0)])]),
    ],
)
def test_a_plot_is_svg_that_tells_its_figures_to_who_does_not_see_it(drawn: str) -> None:
    root = ElementTree.fromstring(drawn)
    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title", "").endswith(", µs")
    told = root.findtext(f"{SVG}desc", "")
    names = [each.text for each in root.iter(f"{SVG}text")]
    for name in {"a <b> & c", "d"} & set(names):
        assert str(name) in told
    assert all(0 <= float(each.get("x", "0")) <= WIDTH for each in root.iter(f"{SVG}text"))


def test_names_of_lines_that_end_together_stand_apart() -> None:
    drawn = lines("Lines", "n", "µs", [Series(name, [(1, 1.0), (10, 5.0)]) for name in ("a", "b", "c")])
    heights = {
        float(each.get("y", "0")) for each in ElementTree.fromstring(drawn).iter(f"{SVG}text") if each.text in "abc"
    }
    assert len(heights) == 3


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (0.25, "0.25"), (3.0, "3"), (17.74, "17.7"), (1234.5, "1\u202f234")]
)
def test_figures_show_three_digits_that_count(value: float, shown: str) -> None:
    assert figure(value) == shown
