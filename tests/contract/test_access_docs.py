"""`docs/access.md` shows what works: its examples are read by the code, and the names it tells operators exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

from typer.testing import CliRunner

from dataplane.access.protocol import FailureKind, parse_decision
from dataplane.accessservice import cli
from dataplane.accessservice.policy import read_policy
from dataplane.accessservice.question import read_question
from dataplane.metrics import GatewayMetrics

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/access.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)


def test_the_question_on_the_page_is_one() -> None:
    (request,) = [block for kind, block in BLOCKS if kind == "http"]
    read_question(request.partition("\n\n")[2].encode())


def test_the_answers_on_the_page_decide_as_they_say() -> None:
    (answers, _policy) = [block for kind, block in BLOCKS if kind == "json"]
    lines = answers.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert getattr(parse_decision(200, line.encode()), "allow", None) is json.loads(line)["allow"]


def test_the_policy_on_the_page_is_valid() -> None:
    (_answers, policy) = [block for kind, block in BLOCKS if kind == "json"]
    assert len(read_policy(policy.encode()).grants) == 3


def test_every_metric_on_the_page_is_published() -> None:
    published = GatewayMetrics().render().decode()
    named = set(re.findall(r"gateway_[a-z_]+[a-z]", PAGE))
    assert len(named) >= 7
    for name in named:
        assert f"# TYPE {name.removesuffix('_total')}" in published


def test_every_cause_that_a_log_line_can_name_is_on_the_page() -> None:
    for kind in FailureKind.__args__:  # type: ignore[attr-defined]
        assert f"`{kind}`" in PAGE


def test_every_option_on_the_page_exists() -> None:
    shown = CliRunner().invoke(cli.app, ["--help"], env={"COLUMNS": "200"}).output
    for option in set(re.findall(r"--[a-z][a-z-]+", PAGE)):
        assert option in shown


def test_every_variable_on_the_page_is_in_the_reference_of_the_configuration() -> None:
    reference = (ROOT / "docs/configuration.md").read_text()
    for name in set(re.findall(r"(?:GATEWAY_)?ACCESS_[A-Z_]*[A-Z]", PAGE)):
        assert name.removesuffix("_FILE") in reference
