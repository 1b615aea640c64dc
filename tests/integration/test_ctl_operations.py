"""`gatewayctl replicas`, `sessions` and `audit` against the control plane's own application, over a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from common.state.ports import NewSession, StateUnavailable
from controlplane.ctl import replicas
from tests.support.control import Control, route_table
from tests.support.ctl import Operator, served

ESCAPE = "\x1b[31m\u202e"


@pytest.fixture
async def operator() -> AsyncIterator[Operator]:
    async with served(Control()) as found:
        yield found


def id_hash(name: str) -> str:
    return sha256(name.encode()).hexdigest()


def handle(name: str) -> str:
    return id_hash(name)[:16]


async def sign_in(operator: Operator, name: str, subject: str, email: str = "") -> None:
    new = NewSession(id_hash(name), subject, email, (), idle_ms=3_600_000, max_age_ms=7_200_000)
    await operator.control.state.create_session(new)


class TestReplicas:
    async def test_each_is_shown_with_what_it_serves_and_why_it_is_behind(self, operator: Operator) -> None:
        await operator.control.put(route_table("a"), 0)
        await operator.control.put(route_table("b"), 1)
        state = operator.control.state
        await state.beat("gateway-1", 2, "", 10_000)
        await state.beat("gateway-2", 1, f"routes[0].upstream: {ESCAPE}no", 10_000)
        shown = await operator.run("replicas", token="operate")
        head, first, second = shown.stdout.splitlines()
        assert head.split() == ["REPLICA", "REVISION", "BEHIND", "SEEN", "LAST", "ERROR"]
        assert first.split()[:2] == ["gateway-1", "2"]
        assert second.split()[:3] == ["gateway-2", "1", "1"]
        assert r"routes[0].upstream: \x1b[31m\u202eno" in second
        found = (await operator.run("replicas", "--json")).value
        assert [(one["replica"], one["behind"]) for one in found["items"]] == [("gateway-1", 0), ("gateway-2", 1)]

    async def test_none_is_told_with_its_usual_reason(self, operator: Operator) -> None:
        shown = await operator.run("replicas")
        assert shown.exit_code == 0
        assert "GATEWAY_CONFIG_SOURCE=store" in shown.stdout


class TestWaiting:
    @pytest.fixture
    def table(self, tmp_path: Path) -> str:
        path = tmp_path / "routes.json"
        path.write_text(json.dumps(route_table("a")))
        return str(path)

    @pytest.fixture
    async def steps(self, operator: Operator, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
        """`steps(f, g, …)`: what happens in each pause between two looks; afterwards the time is over."""
        loop = asyncio.get_running_loop()

        def use(*happenings: Callable[[], Any]) -> None:
            left = list(happenings)
            times = iter([0.0, *(0.0 for _ in happenings), 1e9])

            def pause(_: float) -> None:
                asyncio.run_coroutine_threadsafe(left.pop(0)(), loop).result(30)

            monkeypatch.setattr(replicas, "pause", pause)
            monkeypatch.setattr(replicas, "now_s", lambda: next(times))

        return use

    async def test_it_returns_when_every_live_replica_serves_the_revision(
        self, operator: Operator, table: str, steps: Callable[..., None]
    ) -> None:
        state = operator.control.state
        await state.beat("a", 0, "", 60_000)
        steps(
            lambda: state.beat("b", 1, "", 60_000),
            lambda: state.beat("a", 1, "", 60_000),
        )
        ended = await operator.run("config", "push", table, "--yes", "--wait")
        assert ended.exit_code == 0
        told = [line for line in ended.stderr.splitlines() if "replicas serve revision 1" in line]
        assert told == [f"{done} replicas serve revision 1" for done in ("0 of 1", "1 of 2", "2 of 2")]

    async def test_it_gives_up_and_says_who_does_not_and_why(
        self, operator: Operator, table: str, steps: Callable[..., None]
    ) -> None:
        state = operator.control.state
        await state.beat("good", 1, "", 60_000)
        await state.beat("bad", 0, f"not valid{ESCAPE}", 60_000)
        steps()
        ended = await operator.run("config", "push", table, "--yes", "--wait", "--timeout", "7")
        assert ended.exit_code == 1
        assert ended.stdout == "Revision 1 is published and active.\n"
        assert r"error    bad: serves revision 0: not valid\x1b[31m\u202e" in ended.stderr
        assert "after 7 seconds 1 of 2 replicas do not serve it" in ended.stderr
        steps()
        again = await operator.run("config", "push", table, "--yes", "--wait", "--json")
        assert (again.exit_code, again.failure["error"], again.failure["revision"]) == (1, "not_served", 1)

    async def test_nobody_alive_is_not_everybody(
        self, operator: Operator, table: str, steps: Callable[..., None]
    ) -> None:
        steps()
        ended = await operator.run("config", "push", table, "--yes", "--wait")
        assert ended.exit_code == 1
        assert "no replica is alive" in ended.stderr
        assert await operator.active() == 1

    async def test_an_outage_is_waited_out_since_the_revision_is_published(
        self, operator: Operator, table: str, steps: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        state = operator.control.state
        alive = state.list_heartbeats

        async def down() -> Any:
            raise StateUnavailable("away")

        async def comes_back() -> None:
            monkeypatch.setattr(state, "list_heartbeats", alive)
            await state.beat("a", 1, "", 60_000)

        monkeypatch.setattr(state, "list_heartbeats", down)
        steps(comes_back)
        ended = await operator.run("config", "push", table, "--yes", "--wait")
        assert ended.exit_code == 0
        assert "The shared state does not answer" in ended.stderr
        monkeypatch.setattr(state, "list_heartbeats", down)
        steps()
        failed = await operator.run("config", "push", table, "--yes", "--wait", "--json")
        assert (failed.exit_code, failed.failure["error"], failed.failure["revision"]) == (1, "not_served", 1)
        assert "the replicas cannot be seen (The shared state" in failed.failure["message"]

    async def test_a_table_without_a_difference_is_waited_for_too(
        self, operator: Operator, table: str, steps: Callable[..., None]
    ) -> None:
        await operator.control.put(route_table("a"), 0)
        await operator.control.state.beat("a", 1, "", 60_000)
        steps()
        ended = await operator.run("config", "push", table, "--yes", "--wait", "--json")
        assert (ended.exit_code, ended.value["changed"]) == (0, False)
        assert [one["replica"] for one in ended.value["replicas"]] == ["a"]


class TestSessions:
    async def test_those_of_a_subject_or_of_all_are_listed_without_anything_that_opens_one(
        self, operator: Operator
    ) -> None:
        await sign_in(operator, "one", "alice", f"alice{ESCAPE}@example.test")
        await sign_in(operator, "two", "alice")
        await sign_in(operator, "three", "bob")
        mine = await operator.run("sessions", "list", "--subject", "alice", token="read")
        lines = mine.stdout.splitlines()
        assert lines[0].split() == ["HANDLE", "SUBJECT", "EMAIL", "CREATED", "EXPIRES"]
        assert sorted(line.split()[0] for line in lines[1:]) == sorted([handle("one"), handle("two")])
        assert r"alice\x1b[31m\u202e@example.test" in mine.stdout
        everybody = await operator.run("sessions", "list", "--json", token="operate")
        assert len(everybody.value["items"]) == 3
        assert id_hash("one") not in mine.stdout + everybody.stdout
        some = await operator.run("sessions", "list", "--limit", "2", token="read")
        assert len(some.stdout.splitlines()) == 3
        assert "There are more" in some.stderr
        nobody = await operator.run("sessions", "list", "--subject", "carol", token="read")
        assert (nobody.exit_code, nobody.stdout) == (0, "No session of carol is live.\n")

    async def test_a_subject_is_signed_out_everywhere(self, operator: Operator) -> None:
        await sign_in(operator, "one", "alice & co")
        await sign_in(operator, "two", "alice & co")
        await sign_in(operator, "three", "bob")
        ended = await operator.run("sessions", "revoke", "--subject", "alice & co", "--yes", token="operate")
        assert (ended.exit_code, ended.stdout) == (0, "2 sessions revoked.\n")
        state = operator.control.state
        assert await state.read_session(id_hash("one")) is None
        assert await state.read_session(id_hash("three")) is not None
        again = await operator.run("sessions", "revoke", "--subject", "alice & co", "--yes", "--json", token="operate")
        assert again.value == {"revoked": 0}

    async def test_one_session_is_ended_by_its_handle(self, operator: Operator) -> None:
        await sign_in(operator, "one", "alice")
        ended = await operator.run("sessions", "revoke", handle("one"), "--yes", token="operate")
        assert (ended.exit_code, ended.stdout) == (0, "1 session revoked.\n")
        gone = await operator.run("sessions", "revoke", handle("one"), "--yes", token="operate")
        assert (gone.exit_code, gone.stdout) == (1, "")

    async def test_a_handle_of_two_sessions_is_a_conflict(self, operator: Operator) -> None:
        state = operator.control.state
        for end in ("a", "b"):
            new = NewSession("0123456789abcdef" + end * 48, "alice", "", (), idle_ms=1_000, max_age_ms=1_000)
            await state.create_session(new)
        ended = await operator.run("sessions", "revoke", "0123456789abcdef", "--yes", "--json", token="operate")
        assert (ended.exit_code, ended.failure["error"]) == (3, "ambiguous_handle")

    @pytest.mark.parametrize("arguments", [(), ("0123456789abcdef", "--subject", "a"), ("xyz",), ("0123456789ABCDEF",)])
    async def test_what_names_no_session_is_wrong_usage(self, operator: Operator, arguments: tuple[str, ...]) -> None:
        assert (await operator.run("sessions", "revoke", *arguments, "--yes", token="operate")).exit_code == 2

    async def test_nobody_is_signed_out_unasked_or_without_the_scope(self, operator: Operator) -> None:
        await sign_in(operator, "one", "alice")
        unasked = await operator.run("sessions", "revoke", "--subject", "alice", token="operate")
        assert (unasked.exit_code, "add --yes" in unasked.stderr) == (1, True)
        refused = await operator.run("sessions", "revoke", "--subject", "alice", "--yes", token="config")
        assert refused.exit_code == 1
        assert "scope operate" in refused.stderr
        assert await operator.control.state.read_session(id_hash("one")) is not None


class TestAudit:
    async def test_entries_are_found_by_what_who_and_when(self, operator: Operator) -> None:
        await operator.control.put(route_table("a"), 0)
        await operator.run("sessions", "revoke", "--subject", "x", "--yes", token="operate")
        shown = await operator.run("audit", token="read")
        lines = shown.stdout.splitlines()
        assert lines[0].split() == ["TIME", "OPERATOR", "ACTION", "TARGET", "CLIENT"]
        assert ["sessions.revoke" in lines[1], "config.write" in lines[2]] == [True, True]
        assert "operate-operator" in lines[1]
        for arguments, count in (
            (("--action", "config.write"), 1),
            (("--operator", "nobody"), 0),
            (("--operator", "config-operator"), 1),
            (("--since", "2000-01-01"), 2),
            (("--since", "2999-01-01"), 0),
            (("--until", "2000-01-01T00:00:00Z"), 0),
        ):
            found = await operator.run("audit", *arguments, "--json", token="read")
            assert len(found.value["items"]) == count, arguments

    async def test_a_time_that_is_none_is_wrong_usage_and_an_unknown_action_is_refused(
        self, operator: Operator
    ) -> None:
        assert (await operator.run("audit", "--since", "yesterday")).exit_code == 2
        refused = await operator.run("audit", "--action", "config.erase")
        assert refused.exit_code == 1
        assert "error    query.action: " in refused.stderr
