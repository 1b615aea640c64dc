"""The command line: what it refuses, with which exit code, and what it never prints."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from common.settings.secret import Secret
from dataplane.accessservice import cli
from dataplane.accessservice.conformance import Pair, Report, Target
from dataplane.accessservice.conformance import Result as CheckResult

PAIRS = ["--allow", "urn:user:1:w-1", "--deny", "user-2:"]
URL = "http://127.0.0.1:9"


def run(*arguments: str, env: dict[str, str | None] | None = None) -> Result:
    unset: dict[str, str | None] = {"ACCESS_TOKEN": None, "ACCESS_TOKEN_FILE": None, "COLUMNS": "200"}
    return CliRunner().invoke(cli.app, list(arguments), env={**unset, **(env or {})})


def told(result: Result) -> str:
    """What was printed, without the frames of a terminal."""
    return " ".join(re.sub(r"[│╭╮╰╯─\n]", " ", result.output).split())


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> list[Target]:
    """What a run of the checks is asked for; each run passes."""
    seen: list[Target] = []

    async def run_checks(asked: Target) -> Report:
        seen.append(asked)
        return Report(asked.url, (CheckResult("allow", "it is", "must", "passed"),))

    monkeypatch.setattr("dataplane.accessservice.conformance.run_checks", run_checks)
    return seen


def test_help_shows_an_example_of_each_use() -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert "gateway-access policy.json" in result.output
    assert "gateway-access --conformance" in result.output


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["p.json", "--conformance", URL], "not both"),
        (["--json"], "give a policy file to serve, or --conformance"),
        (["p.json", "--allow", "a:b"], "belong to --conformance"),
        (["p.json", "--token", "t"], "ACCESS_TOKEN"),
        (["--conformance", URL, "--token", "t", "--deny", "a:b"], "--allow SUBJECT:WORKSPACE is required"),
        (["--conformance", URL, "--token", "t", "--allow", "a:b", "--deny", "b"], "--deny SUBJECT:WORKSPACE"),
        (["--conformance", URL, *PAIRS], "ACCESS_TOKEN"),
        (["--conformance", URL, "--token", "t", "--token-file", "f", *PAIRS], "keep one"),
        (["--conformance", URL, "--token-file", "/nowhere/f", *PAIRS], "No such file"),
        (["--conformance", "access:3000", "--token", "t", *PAIRS], "http"),
        (["--conformance", "http://u:p@a", "--token", "t", *PAIRS], "user name or password"),
        (["--conformance", f"{URL}/v1/decisions", "--token", "t", *PAIRS], "leave /v1/decisions out"),
        (["--conformance", URL, "--token", "t", "--ca", "/nowhere/ca", *PAIRS], "--ca"),
        (["--conformance", URL, "--token", "a b", *PAIRS], "visible ASCII"),
    ],
)
def test_wrong_usage_is_2_and_says_what_to_do(arguments: list[str], advice: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert advice in told(result)


@pytest.mark.parametrize("how", ["option", "file", "environment", "environment file"])
def test_the_token_comes_from_where_it_is_put_and_is_never_printed(
    how: str, target: list[Target], tmp_path: Path
) -> None:
    token = "token-that-is-secret"
    file = tmp_path / "token"
    file.write_text(token + "\n")
    arguments = {"option": ["--token", token], "file": ["--token-file", str(file)]}.get(how, [])
    env: dict[str, str | None] = {
        "environment": {"ACCESS_TOKEN": token},
        "environment file": {"ACCESS_TOKEN_FILE": str(file)},
    }.get(how, {})
    result = run("--conformance", URL, *PAIRS, *arguments, env=env)
    assert result.exit_code == 0, result.output
    assert target[0].token == Secret(token)
    assert token not in result.output


def test_the_pairs_are_split_at_their_last_colon_and_may_name_no_workspace(target: list[Target]) -> None:
    result = run("--conformance", f"{URL}/base/", "--token", "t", *PAIRS, "--role", "a", "--role", "b", "--route", "r")
    assert result.exit_code == 0, result.output
    (asked,) = target
    assert asked.url == f"{URL}/base"
    assert asked.allow == Pair("urn:user:1", "w-1")
    assert asked.deny == Pair("user-2", None)
    assert (asked.roles, asked.route_id, asked.timeout_s) == (("a", "b"), "r", 3.0)


def test_a_failed_check_is_1_and_the_report_can_be_read_by_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    results = (
        CheckResult("allow", "it is", "must", "failed", "403", "answer 200"),
        CheckResult("deny", "it is", "should", "warning", "x", "y"),
    )

    async def run_checks(asked: Target) -> Report:
        return Report(asked.url, results)

    monkeypatch.setattr("dataplane.accessservice.conformance.run_checks", run_checks)
    result = run("--conformance", URL, "--token", "t", *PAIRS, "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert report["passed"] is False
    assert report["counts"] == {"passed": 0, "warning": 1, "failed": 1, "skipped": 0}
    assert report["checks"][0]["advice"] == "answer 200"
    text = told(run("--conformance", URL, "--token", "t", *PAIRS))
    assert "found: 403" in text
    assert "do: answer 200" in text
    assert "\x1b" not in text


def test_serving_without_a_token_is_1_and_names_the_variable(tmp_path: Path) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text('{"version": 1, "grants": []}')
    result = run(str(policy))
    assert result.exit_code == 1
    assert "ACCESS_TOKEN" in result.output


def test_a_weak_token_is_refused_in_production(tmp_path: Path) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text('{"version": 1, "grants": []}')
    result = run(str(policy), env={"ACCESS_TOKEN": "short", "GATEWAY_ENV": "production"})
    assert result.exit_code == 1
    assert "ACCESS_TOKEN" in result.output
    assert "short" not in result.output.replace("too short", "")
