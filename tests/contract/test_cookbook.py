"""The route table cookbook: every table is valid, and does with each request what the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dataplane.cli.app import build

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/cookbook.md").read_text()
RECIPES = re.findall(r"^## (.+?)$.*?```json\n(.*?)```.*?```text\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
QUESTIONS = [(title, table, line) for title, table, lines in RECIPES for line in lines.splitlines()]


def test_every_recipe_has_a_table_and_a_question() -> None:
    assert (
        len(RECIPES) == len(re.findall(r"^## ", PAGE, re.MULTILINE)) == PAGE.count("```json") == PAGE.count("```text")
    )


@pytest.mark.parametrize(("title", "table", "_"), RECIPES, ids=lambda value: value if len(value) < 60 else "")
def test_the_table_is_valid(title: str, table: str, _: str, tmp_path: Path) -> None:
    (tmp_path / "routes.json").write_text(table)
    judged = CliRunner().invoke(build(), ["check", str(tmp_path / "routes.json")])
    assert judged.exit_code == 0, judged.output


@pytest.mark.parametrize(("title", "table", "line"), QUESTIONS, ids=[line for _, _, line in QUESTIONS])
def test_a_request_goes_where_the_page_says(title: str, table: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "routes.json").write_text(table)
    asked, _, answer = line.partition(" -> ")
    explained = CliRunner().invoke(build(), ["explain", str(tmp_path / "routes.json"), *asked.split(), "--json"])
    told = json.loads(explained.output)
    route, _, places = answer.partition(" at ")
    assert (told["route"] or "no route") == route
    if places:
        assert told["upstreams"] == places.split(" then ")
