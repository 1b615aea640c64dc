"""Sessions, cached decisions, the audit trail and replicas over HTTP (CONTRACT §12.7)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from common.state.coordination import Heartbeat
from common.state.ports import NewSession, StateUnavailable
from common.state.table_store import NewAuditEntry, Revision
from controlplane.replicas.service import ReplicasService
from controlplane.sessions.service import LOOKED_THROUGH_MAX
from tests.support.control import Control, error_of, problems_of, route_table


async def sign_in(control: Control, subject: str, id_hash: str) -> None:
    await control.state.create_session(
        NewSession(id_hash, subject, f"{subject}@example.com", ("dev",), idle_ms=3_600_000, max_age_ms=7_200_000)
    )


def hashed(number: int) -> str:
    return f"{number:016x}{'e' * 48}"


async def test_a_session_is_shown_by_its_handle_and_never_by_its_id() -> None:
    control = Control()
    await sign_in(control, "ada", hashed(1))
    answer = await control.send("GET", "/v1/sessions", token="read")
    assert answer.json() == {
        "items": [
            {
                "handle": hashed(1)[:16],
                "subject": "ada",
                "email": "ada@example.com",
                "roles": ["dev"],
                "createdAt": "2027-01-15T08:00:00.000Z",
                "lastUsedAt": "2027-01-15T08:00:00.000Z",
                "idleExpiresAt": "2027-01-15T09:00:00.000Z",
                "expiresAt": "2027-01-15T10:00:00.000Z",
            }
        ],
        "nextCursor": None,
    }


async def test_sessions_come_in_pages_of_everybody_or_of_a_subject() -> None:
    control = Control()
    for number in range(5):
        await sign_in(control, "ada" if number % 2 else "bob", hashed(number))
    for query, subjects in (("limit=2", ["bob", "ada", "bob", "ada", "bob"]), ("limit=1&subject=ada", ["ada", "ada"])):
        seen: list[str] = []
        cursor = ""
        while True:
            page = (await control.send("GET", f"/v1/sessions?{query}{cursor}", token="operate")).json()
            seen += [item["subject"] for item in page["items"]]
            if page["nextCursor"] is None:
                break
            cursor = f"&cursor={page['nextCursor']}"
        assert seen == subjects


async def test_the_sessions_of_a_subject_end_with_a_record_of_it() -> None:
    control = Control()
    await sign_in(control, "ada@1", hashed(1))
    await sign_in(control, "ada@1", hashed(2))
    await sign_in(control, "bob", hashed(3))
    answer = await control.send("DELETE", "/v1/sessions?subject=ada%401", token="operate")
    assert (answer.status_code, answer.json()) == (200, {"revoked": 2})
    again = await control.send("DELETE", "/v1/sessions?subject=ada%401", token="operate")
    assert again.json() == {"revoked": 0}
    entries = (await control.state.list_audit(None, 10)).entries
    assert [(one.action, one.target, one.operator) for one in entries] == [
        ("sessions.revoke", 'subject "ada@1"', "operate-operator")
    ] * 2
    assert len((await control.send("GET", "/v1/sessions")).json()["error"]) > 0  # config may not read sessions


async def test_one_session_ends_by_its_handle() -> None:
    control = Control()
    await sign_in(control, "ada", hashed(1))
    gone = await control.send("DELETE", f"/v1/sessions/{hashed(1)[:16]}", token="operate")
    assert (gone.status_code, gone.json()) == (200, {"revoked": 1})
    again = await control.send("DELETE", f"/v1/sessions/{hashed(1)[:16]}", token="operate")
    assert error_of(again) == (404, "not_found")
    assert [one.target for one in (await control.state.list_audit(None, 9)).entries] == [f"session {hashed(1)[:16]}"]


async def test_a_handle_of_two_sessions_is_409_and_ends_neither() -> None:
    control = Control()
    await sign_in(control, "ada", hashed(1))
    await sign_in(control, "bob", hashed(1)[:-1] + "f")
    answer = await control.send("DELETE", f"/v1/sessions/{hashed(1)[:16]}", token="operate")
    assert error_of(answer) == (409, "ambiguous_handle")
    assert len((await control.send("GET", "/v1/sessions", token="read")).json()["items"]) == 2
    assert (await control.state.list_audit(None, 9)).entries == ()


@pytest.mark.parametrize(
    ("method", "path", "places"),
    [
        ("DELETE", "/v1/sessions", ["query.subject"]),
        ("DELETE", "/v1/sessions?subject=", ["query.subject"]),
        ("DELETE", "/v1/sessions?subject=a%00b", ["query.subject"]),
        ("DELETE", "/v1/sessions?subject=a%0ab", ["query.subject"]),
        ("DELETE", "/v1/sessions?subject=%ff", ["query.subject"]),
        ("DELETE", "/v1/sessions?subject=a&subject=b", ["query.subject"]),
        ("DELETE", "/v1/sessions?subject=a&handle=b", ["query.handle"]),
        ("DELETE", f"/v1/sessions?subject={'a' * 1_025}", ["query.subject"]),
        ("DELETE", "/v1/sessions/ABCDEF0123456789", ["path.handle"]),
        ("DELETE", "/v1/sessions/0123", ["path.handle"]),
        ("DELETE", f"/v1/sessions/{hashed(1)}", ["path.handle"]),
        ("GET", "/v1/sessions?cursor=c2Vzc2lvbjphYQ&limit=999", ["query.limit"]),
        ("GET", "/v1/sessions?cursor=c2Vzc2lvbjphYQ", ["query.cursor"]),
        ("DELETE", "/v1/decisions", ["query"]),
        ("DELETE", "/v1/decisions?workspace_id=a", ["query.workspace_id"]),
        ("DELETE", "/v1/decisions?workspaceid=a&subject=b", ["query.workspaceid"]),
        ("DELETE", "/v1/decisions?workspaceId=%1b", ["query.workspaceId"]),
        (
            "GET",
            "/v1/audit?action=read&from=yesterday&to=1700000000&limit=0",
            ["query.action", "query.from", "query.to", "query.limit"],
        ),
        ("GET", "/v1/audit?from=2026-01-31T23:59:59", ["query.from"]),
        ("GET", "/v1/audit?from=2026-02-30T23:59:59Z", ["query.from"]),
        ("GET", "/v1/audit?since=2026-01-31T23:59:59Z", ["query.since"]),
        ("GET", "/v1/audit?cursor=cmV2aXNpb246Mg", ["query.cursor"]),
        ("GET", "/v1/replicas?limit=1", ["query.limit"]),
    ],
)
async def test_a_malformed_request_is_400_with_every_problem(method: str, path: str, places: list[str]) -> None:
    """A misspelt parameter that was ignored would revoke or drop more than was meant."""
    control = Control()
    answer = await control.send(method, path, token="operate")
    assert error_of(answer) == (400, "bad_request")
    assert sorted(problems_of(answer)) == sorted(places)
    assert (await control.state.list_audit(None, 9)).entries == ()


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/sessions", {"read", "operate"}),
        ("DELETE", "/v1/sessions?subject=a", {"operate"}),
        ("DELETE", "/v1/sessions/0123456789abcdef", {"operate"}),
        ("DELETE", "/v1/decisions?subject=a", {"operate"}),
        ("GET", "/v1/audit", {"read", "operate", "config"}),
        ("GET", "/v1/replicas", {"read", "operate", "config"}),
        ("GET", "/v1/me", {"read", "operate", "config"}),
    ],
)
async def test_each_operation_takes_its_scopes_and_no_other(method: str, path: str, allowed: set[str]) -> None:
    control = Control()
    for scope in ("read", "operate", "config"):
        refused = (await control.send(method, path, token=scope)).status_code == 403
        assert refused is (scope not in allowed), scope


async def test_decisions_are_dropped_by_subject_workspace_or_both() -> None:
    control = Control()
    for query, target in (
        ("subject=ada", 'subject "ada"'),
        ("workspaceId=w%2F1", 'workspace "w/1"'),
        ("workspaceId=w&subject=ada", 'subject "ada", workspace "w"'),
        ("subject=ada%2C%20workspace%20w", 'subject "ada, workspace w"'),
        ("subject=ada%22%2C%20workspace%20%22w", r'subject "ada\", workspace \"w"'),
        ("subject=ada%5C&workspaceId=w", r'subject "ada\\", workspace "w"'),
        ("subject=%C3%A9", 'subject "é"'),
    ):
        answer = await control.send("DELETE", f"/v1/decisions?{query}", token="operate")
        assert (answer.status_code, answer.json()) == (200, {"dropped": 0})
        newest = (await control.state.list_audit(None, 1)).entries[0]
        assert (newest.action, newest.target) == ("decisions.drop", target)
    assert await control.state.decisions_dropped() > 0


async def test_the_trail_is_filtered_by_action_operator_and_time() -> None:
    control = Control()
    for operator, action in (("ada", "config.write"), ("bob", "config.write"), ("ada", "sessions.revoke")):
        await control.state.append_audit(NewAuditEntry(action, "t", operator, "config", "192.0.2.1", "r"))
        control.time.pass_s(60)

    async def ids(query: str) -> list[int]:
        answer = await control.send("GET", f"/v1/audit?{query}", token="read")
        return [item["id"] for item in answer.json()["items"]]

    assert await ids("") == [3, 2, 1]
    assert await ids("operator=ada") == [3, 1]
    assert await ids("operator=ada&action=config.write") == [1]
    assert await ids("from=2027-01-15T08:01:00Z") == [3, 2]
    assert await ids("to=2027-01-15T09:01:00%2B01:00") == [1]
    assert await ids("from=1969-01-01T00:00:00Z&to=2027-01-15T08:00:00.001Z") == [1]


async def test_the_trail_comes_in_pages() -> None:
    control = Control()
    for number in range(3):
        await control.put(route_table(), number)
    first = (await control.send("GET", "/v1/audit?limit=2")).json()
    second = (await control.send("GET", f"/v1/audit?limit=2&cursor={first['nextCursor']}")).json()
    assert [item["id"] for item in first["items"] + second["items"]] == [3, 2, 1]
    assert second["nextCursor"] is None
    assert set(first["items"][0]) == {
        "id", "time", "action", "target", "operator", "scope", "client", "requestId"
    }  # fmt: skip


async def test_each_replica_is_shown_with_what_it_serves_and_how_far_behind() -> None:
    control = Control()
    await control.put(route_table(), 0)
    await control.put(route_table(), 1)
    await control.state.beat("gateway-1", 2, "", 20_000)
    await control.state.beat("gateway-2", 1, "revision 2 is not valid", 20_000)
    control.time.pass_s(1.5)
    assert (await control.send("GET", "/v1/replicas", token="operate")).json() == {
        "items": [
            {
                "replica": "gateway-1",
                "revision": 2,
                "behind": 0,
                "lastError": None,
                "time": "2027-01-15T08:00:00.000Z",
                "ageMs": 1500,
            },
            {
                "replica": "gateway-2",
                "revision": 1,
                "behind": 1,
                "lastError": "revision 2 is not valid",
                "time": "2027-01-15T08:00:00.000Z",
                "ageMs": 1500,
            },
        ],
        "nextCursor": None,
        "revision": 2,
    }
    control.time.pass_s(20)
    assert (await control.send("GET", "/v1/replicas")).json()["items"] == []


@dataclass
class Scripted:
    """A state whose replicas say one thing after the other; None: it is away."""

    rounds: list[list[Heartbeat] | None]
    asked: int = field(default=0)

    def now_ms(self) -> int:
        return 0

    async def list_revisions(self, before: int | None, limit: int) -> list[Revision]:
        return []

    async def list_heartbeats(self) -> list[Heartbeat]:
        self.asked += 1
        found = self.rounds[min(self.asked, len(self.rounds)) - 1]
        if found is None:
            raise StateUnavailable("away")
        return found


def beats(**revisions: int) -> list[Heartbeat]:
    return [Heartbeat(name, revision, "", 0) for name, revision in revisions.items()]


async def test_waiting_ends_when_the_last_live_replica_serves_the_revision_or_a_later_one() -> None:
    state = Scripted([beats(a=1, b=1), None, beats(a=2, b=1), beats(a=3, b=2), beats()])
    arrived = await ReplicasService(state, poll_s=0).arrival(2, timeout_s=60)
    assert (arrived.converged, state.asked) == (True, 4)
    assert [one.replica for one in arrived.serving] == ["a", "b"]


async def test_waiting_ends_with_its_time_and_names_who_lags() -> None:
    state = Scripted([beats(a=2, b=1)])
    arrived = await ReplicasService(state).arrival(2, timeout_s=0)
    assert (arrived.converged, state.asked) == (False, 1)
    assert [one.replica for one in arrived.lagging] == ["b"]


async def test_waiting_ends_with_the_process() -> None:
    service = ReplicasService(Scripted([beats(a=1)]), poll_s=0)
    service.end()
    assert not (await service.arrival(2, timeout_s=60)).converged


async def test_replicas_that_cannot_be_read_are_no_proof_of_arrival() -> None:
    arrived = await ReplicasService(Scripted([None])).arrival(2, timeout_s=0)
    assert (arrived.converged, arrived.serving, arrived.lagging) == (False, (), ())


async def test_a_write_that_waits_says_how_far_the_revision_has_come() -> None:
    control = Control()
    await control.state.beat("gateway-1", 0, "", 20_000)
    await control.state.beat("gateway-2", 1, "", 20_000)
    answer = await control.send(
        "PUT", "/v1/config?wait=replicas&timeoutMs=0", route_table(), headers={"if-match": '"0"'}
    )
    assert answer.status_code == 201
    assert answer.json()["replicas"] == {
        "converged": False,
        "serving": ["gateway-2"],
        "lagging": [{"replica": "gateway-1", "revision": 0, "lastError": None}],
    }
    await control.state.beat("gateway-1", 2, "", 20_000)
    await control.state.beat("gateway-2", 2, "", 20_000)
    back = await control.send("POST", "/v1/config/rollback?wait=replicas", {"revision": 1}, headers={"if-match": '"1"'})
    assert back.json()["replicas"] == {"converged": True, "serving": ["gateway-1", "gateway-2"], "lagging": []}
    assert (await control.put(route_table(), 2)).json()["replicas"] is None


@pytest.mark.parametrize(
    ("query", "places"),
    [
        ("wait=replica", ["query.wait"]),
        ("wait=", ["query.wait"]),
        ("wait=replicas&timeoutMs=30001", ["query.timeoutMs"]),
        ("wait=replicas&timeoutMs=-1&force=1", ["query.timeoutMs", "query.force"]),
        ("timeoutMs=5", ["query"]),
    ],
)
async def test_a_malformed_wait_writes_nothing(query: str, places: list[str]) -> None:
    control = Control()
    answer = await control.send("PUT", f"/v1/config?{query}", route_table(), headers={"if-match": '"0"'})
    assert error_of(answer) == (400, "bad_request")
    assert sorted(problems_of(answer)) == sorted(places)
    assert (await control.state.read_table()).revision == 0


async def test_no_credential_leaves_by_any_answer_or_line() -> None:
    control = Control()
    await sign_in(control, "ada", hashed(7))
    texts = [
        (await control.send("GET", path, token="read")).text
        for path in ("/v1/sessions", "/v1/audit", "/v1/replicas", "/openapi.json", "/readyz")
    ]
    whole = json.dumps(texts) + b"".join(control.lines).decode()
    assert hashed(7) not in whole
    assert "token-0123456789" not in whole


@pytest.mark.parametrize("limit", [1, 2, 200])
async def test_what_no_gateway_stored_hides_no_session(limit: int) -> None:
    """Who broke into a gateway may write sessions, but not keep operators from seeing the others."""
    control = Control()
    strange = ["", "!", "zz<script>", hashed(1).upper() + "g", hashed(1) + "\n", f"{hashed(1)}0", "g" * 4_096]
    for id_hash in (*strange, *(f"{hashed(1)}/{number}" for number in range(9))):
        await sign_in(control, "nobody", id_hash)
    for number in range(1, 4):
        await sign_in(control, "ada", hashed(number))
    seen: list[str] = []
    cursor = ""
    while True:
        answer = await control.send("GET", f"/v1/sessions?limit={limit}{cursor}", token="read")
        assert answer.status_code == 200
        seen += [item["handle"] for item in answer.json()["items"]]
        if answer.json()["nextCursor"] is None:
            break
        cursor = f"&cursor={answer.json()['nextCursor']}"
    assert seen == [hashed(number)[:16] for number in range(1, 4)]


async def test_a_store_full_of_what_no_gateway_stored_is_told_and_not_gone_through_for_ever() -> None:
    control = Control()
    for number in range(2 * LOOKED_THROUGH_MAX + 1):
        await sign_in(control, "nobody", f"strange {number}")
    assert error_of(await control.send("GET", "/v1/sessions?limit=1", token="read")) == (503, "state_unavailable")
    assert "no gateway's" in control.events()[-1]["detail"]


async def test_a_replica_that_cannot_be_hides_none() -> None:
    control = Control()
    await control.put(route_table(), 0)
    for replica, revision in (("forged", -1), ("gateway-1", 1)):
        await control.state.beat(replica, revision, "", 60_000)
    page = (await control.send("GET", "/v1/replicas", token="read")).json()
    assert [item["replica"] for item in page["items"]] == ["gateway-1"]
    path, headers = "/v1/config?wait=replicas&timeoutMs=0", {"if-match": '"1"'}
    written = (await control.send("PUT", path, route_table("a"), headers=headers)).json()
    assert [one["replica"] for one in written["replicas"]["lagging"]] == ["gateway-1"]
