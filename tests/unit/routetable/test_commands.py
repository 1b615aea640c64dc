"""`gateway check` and `gateway explain`: what they print and what they exit with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from dataplane.cli import check, explain
from tests.support.route_tables import document, route

VALID = document(route("all", "/"), route("ws", "/ws/{id}", auth={"mode": "any", "workspace": {"param": "id"}}))
INVALID = document(route("a", "/x"), route("a", "/x", upstream="http://user:hunter2@b", nmae=1))


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    app = typer.Typer()
    check.register(app)
    explain.register(app)
    return CliRunner().invoke(app, list(arguments), input=stdin)


@pytest.fixture
def valid(tmp_path: Path) -> str:
    path = tmp_path / "valid.json"
    path.write_bytes(VALID)
    return str(path)


@pytest.fixture
def invalid(tmp_path: Path) -> str:
    path = tmp_path / "invalid.json"
    path.write_bytes(INVALID)
    return str(path)


class TestCheck:
    def test_a_valid_table_exits_0_and_its_warnings_are_printed(self, valid: str) -> None:
        result = run("check", valid)
        assert result.exit_code == 0
        assert "is valid: version 2, 2 routes" in result.stdout
        assert "warning  all: auth.mode" in result.stdout
        assert "\x1b" not in result.stdout

    def test_an_invalid_one_exits_1_and_every_problem_has_its_place(self, invalid: str) -> None:
        result = run("check", invalid)
        assert result.exit_code == 1
        for place in ("routes[1].id", "routes[1].match.path", "routes[1].nmae", "routes[1].upstream"):
            assert f"error    {place}: " in result.stdout
        assert "hunter2" not in result.output
        assert "4 problems" in result.stdout

    def test_json_holds_errors_and_warnings(self, valid: str, invalid: str) -> None:
        good, bad = json.loads(run("check", valid, "--json").stdout), json.loads(run("check", invalid, "--json").stdout)
        assert (good["valid"], good["errors"]) == (True, [])
        assert good["warnings"][0] == {
            "route": "all",
            "setting": "auth.mode",
            "message": "anybody may call this route, and the upstream gets no identity",
        }
        assert bad["valid"] is False
        assert bad["errors"][0]["path"] == "routes[1].id"

    def test_standard_input_is_read_for_a_dash(self) -> None:
        assert run("check", "-", stdin=VALID).exit_code == 0
        assert run("check", "-", stdin=b"{").exit_code == 1

    def test_a_file_that_cannot_be_read_exits_2_and_says_why(self, tmp_path: Path) -> None:
        result = run("check", str(tmp_path / "missing.json"))
        assert result.exit_code == 2
        assert "No such file" in result.stderr
        assert run("check", str(tmp_path)).exit_code == 2

    def test_production_refuses_wide_ranges(self, tmp_path: Path) -> None:
        path = tmp_path / "wide.json"
        path.write_bytes(document(trustedProxies=["10.0.0.0/28", "10.0.1.0/27"]))
        assert run("check", str(path)).exit_code == 0
        result = run("check", str(path), "--production")
        assert result.exit_code == 1
        assert "trustedProxies[1]" in result.stdout

    def test_markup_in_a_table_is_printed_as_it_is(self) -> None:
        result = run("check", "-", stdin=document(route("x", "/", **{"[red]x[/red]": 1})))
        assert "[red]x[/red]" in result.stdout


class TestExplain:
    def test_the_route_is_named_with_what_it_beat_and_where_it_goes(self, valid: str) -> None:
        result = run("explain", valid, "GET", "https://Any.Example:444/ws/%61b?x=1")
        assert result.exit_code == 0
        assert "ws handles it" in result.stdout
        assert "captured  {id} = %61b" in result.stdout
        assert "sent to   http://app.internal:3000/ws/%61b" in result.stdout
        assert "all, by literal prefix" in result.stdout

    @pytest.mark.parametrize("url", ["/a/../b", "//ws/x", "http://h/a%"])
    def test_a_refused_request_exits_1(self, valid: str, url: str) -> None:
        result = run("explain", valid, "GET", url)
        assert result.exit_code == 1
        assert "400" in result.stdout

    def test_a_request_without_a_route_exits_1(self) -> None:
        text = document(route("x", "/x", methods=["POST"]))
        result = run("explain", "-", "GET", "/x", stdin=text)
        assert result.exit_code == 1
        assert "x: handles POST only" in result.stdout

    def test_json_is_whole(self, valid: str) -> None:
        value = json.loads(run("explain", valid, "GET", "/ws/7/y", "--json").stdout)
        assert value["outcome"] == "route"
        assert value["route"] == "ws"
        assert value["request"] == {"method": "GET", "host": None, "path": "/ws/7/y"}
        assert value["upstreams"] == ["http://app.internal:3000/ws/7/y"]
        assert value["beaten"][0]["route"] == "all"
        assert len(value["steps"]) == 7

    @pytest.mark.parametrize(
        ("method", "url"), [("G T", "/"), ("GET", "x"), ("GET", "ftp://h/"), ("GET", "http://a b/")]
    )
    def test_what_is_no_request_exits_2(self, valid: str, method: str, url: str) -> None:
        result = run("explain", valid, method, url)
        assert result.exit_code == 2
        assert result.stderr.startswith("gateway explain: ")

    def test_an_invalid_table_exits_1_and_points_to_check(self, invalid: str) -> None:
        result = run("explain", invalid, "GET", "/")
        assert result.exit_code == 1
        assert "gateway check" in result.stderr
