"""The demo's composition, where no server is needed to judge it."""

from __future__ import annotations

import re
from pathlib import Path

import orjson
import pytest

from common.routetable.compiled import DeploymentDefaults
from common.routetable.load import load_route_table
from common.settings.secret import Secret
from dataplane.accessservice.policy import read_policy
from dataplane.accessservice.question import Question
from dataplane.dev import stack
from dataplane.dev.accounts import GUEST, MEMBER, WORKSPACE_ID, Account
from dataplane.dev.announce import for_people, for_programs, trials
from dataplane.dev.stack import Demo, NotForProduction, PortTaken, choose_port, refuse_in_production
from dataplane.dev.table import access_policy, route_table
from tests.support.ports import bound_socket, free_port, port_of

TABLE = load_route_table(orjson.dumps(route_table("http://127.0.0.1:3000")), DeploymentDefaults())


def _demo() -> Demo:
    return Demo(
        gateway="http://localhost:8080",
        provider="http://127.0.0.1:4000",
        upstream="http://127.0.0.1:4001",
        access="http://127.0.0.1:4002",
        table=Path("/tmp/demo/routes.json"),
        log=Path("/tmp/demo/gateway.log"),
        metrics_token=Secret("metrics-token"),
        control="http://127.0.0.1:4003",
        control_tokens={scope: Secret(f"{scope}-token") for scope in ("read", "operate", "config")},
        died=None,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("value", ["production", "PRODUCTION", " production", "prod", "staging", "1"])
def test_whatever_is_not_development_is_refused(value: str) -> None:
    with pytest.raises(NotForProduction):
        refuse_in_production({"GATEWAY_ENV": value})


@pytest.mark.parametrize("environment", [{}, {"GATEWAY_ENV": ""}, {"GATEWAY_ENV": "development"}])
def test_development_is_the_default(environment: dict[str, str]) -> None:
    refuse_in_production(environment)


def test_a_port_that_was_asked_for_is_taken_or_refused_but_never_replaced() -> None:
    port = free_port()
    assert choose_port(port) == port
    with bound_socket() as held:
        held.listen()
        with pytest.raises(PortTaken):
            choose_port(port_of(held))


def test_without_a_wish_a_busy_usual_port_gives_way_to_a_free_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with bound_socket() as held:
        held.listen()
        monkeypatch.setattr(stack, "USUAL_PORT", port_of(held))
        assert choose_port(None) != port_of(held)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_port_is_busy_when_either_name_of_this_machine_answers_on_it(host: str) -> None:
    """`localhost` may lead to `::1` first, where a stranger would be asked in the gateway's place."""
    try:
        held = bound_socket(host)
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with held:
        held.listen()
        with pytest.raises(PortTaken):
            choose_port(port_of(held))


@pytest.mark.parametrize(
    ("path", "route", "mode"),
    [
        ("/", "overview", "none"),
        ("/assets/style.css", "overview", "none"),
        ("/me", "account", "session"),
        (f"/workspaces/{WORKSPACE_ID}", "workspace", "any"),
        ("/stream", "stream-page", "session"),
        ("/events", "stream", "any"),
        ("/api/echo", "api", "jwt-only"),
    ],
)
def test_each_address_of_the_demo_has_the_route_it_is_meant_to_show(path: str, route: str, mode: str) -> None:
    match = TABLE.match("localhost", path, "GET")
    assert match is not None
    assert (match.route.id, match.route.auth_mode) == (route, mode)


@pytest.mark.parametrize(
    ("account", "workspace", "allowed"),
    [
        (MEMBER, WORKSPACE_ID, True),
        (GUEST, WORKSPACE_ID, False),
        (MEMBER, "00000000-0000-4000-8000-000000000000", False),
    ],
)
def test_the_policy_lets_one_account_into_one_workspace(account: Account, workspace: str, allowed: bool) -> None:
    policy = read_policy(orjson.dumps(access_policy()))
    question = Question(account.subject, workspace, "workspace", account.roles)
    assert policy.rule(question).allow is allowed


def test_the_announcement_prints_each_command_on_a_line_of_its_own() -> None:
    lines = for_people(_demo()).splitlines()
    for trial in trials(_demo()):
        assert f"  {trial.command}" in lines
        assert f"  # {trial.shows} ({trial.status})" in lines


def test_a_query_is_quoted_for_every_shell() -> None:
    for trial in trials(_demo()):
        for word in re.findall(r"\S*\?\S*", trial.command):
            assert word.startswith("'")


def test_programs_are_told_the_same_and_no_more_secrets() -> None:
    told = for_programs(_demo())
    assert [trial["command"] for trial in told["trials"]] == [trial.command for trial in trials(_demo())]
    assert orjson.dumps(told)


def test_a_demo_prints_no_secret_by_itself() -> None:
    assert "-token" not in repr(_demo())
