"""The route table over HTTP: read, judged, written by compare-and-swap, rolled back (CONTRACT §12.7)."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import pytest

from common.routetable.document import MAX_TABLE_BYTES
from tests.support.control import JSON, Control, control_settings, error_of, problems_of, route_table

WRITES = [("PUT", "/v1/config", route_table()), ("POST", "/v1/config/rollback", {"revision": 1})]


async def revisions(control: Control) -> int:
    return (await control.state.read_table()).revision


async def test_an_empty_store_is_404_with_etag_0_and_takes_revision_1() -> None:
    control = Control()
    empty = await control.send("GET", "/v1/config")
    assert error_of(empty) == (404, "not_found")
    assert empty.headers["etag"] == '"0"'
    written = await control.put(route_table(), 0)
    assert written.status_code == 201
    assert written.headers["etag"] == '"1"'
    assert written.headers["location"] == "/v1/config/revisions/1"
    assert written.json()["revision"] == 1


async def test_the_table_comes_back_byte_for_byte() -> None:
    """So that it can be changed by hand, sent back, and compared."""
    control = Control()
    text = json.dumps(route_table("a", "b"), indent=3).encode() + b"\n"
    await control.put(text, 0)
    answer = await control.send("GET", "/v1/config", token="read")
    assert answer.content == text
    assert answer.headers["etag"] == '"1"'
    assert answer.headers["content-type"] == "application/json"


async def test_a_write_is_recorded_with_who_did_it_from_where_on_which_request() -> None:
    control = Control()
    await control.send("PUT", "/v1/config", route_table(), headers={"if-match": '"0"', "x-request-id": "deploy-17"})
    (entry,) = (await control.state.list_audit(None, 10)).entries
    assert (entry.action, entry.target) == ("config.write", "revision 1")
    assert (entry.operator, entry.scope) == ("config-operator", "config")
    assert (entry.client, entry.request_id) == ("192.0.2.7", "deploy-17")


async def test_the_same_table_again_is_a_new_revision() -> None:
    control = Control()
    assert [(await control.put(route_table(), n)).json()["revision"] for n in range(3)] == [1, 2, 3]


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
async def test_a_stale_revision_is_409_with_the_active_one(method: str, path: str, body: Any) -> None:
    control = Control()
    await control.put(route_table(), 0)
    for stale in (0, 2, 17):
        answer = await control.send(method, path, body, headers={"if-match": f'"{stale}"'})
        assert error_of(answer) == (409, "revision_conflict")
        assert answer.json()["revision"] == 1
        assert answer.headers["etag"] == '"1"'
    assert await revisions(control) == 1


async def test_of_a_hundred_writers_one_wins() -> None:
    control = Control()
    answers = await asyncio.gather(*(control.put(route_table(f"r{number}"), 0) for number in range(100)))
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses == [201] + [409] * 99
    assert {answer.json()["revision"] for answer in answers} == {1}
    assert len((await control.state.list_audit(None, 200)).entries) == 1


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
@pytest.mark.parametrize(
    ("sent", "refusal"),
    [
        ([], (428, "precondition_required")),
        (["*"], (428, "precondition_required")),
        ([" * "], (428, "precondition_required")),
        (['W/"1"'], (400, "bad_request")),
        (["1"], (400, "bad_request")),
        ([""], (400, "bad_request")),
        (['""'], (400, "bad_request")),
        (['"1", "2"'], (400, "bad_request")),
        (['"1", *'], (400, "bad_request")),
        (['"1"', '"1"'], (400, "bad_request")),
        (["*", '"1"'], (400, "bad_request")),
        (['"01"'], (400, "bad_request")),
        (['"-1"'], (400, "bad_request")),
        (['"+1"'], (400, "bad_request")),
        (['"1.0"'], (400, "bad_request")),
        (['"abc"'], (400, "bad_request")),
        (["'1'"], (400, "bad_request")),
        (['"99999999999999999999"'], (400, "bad_request")),
    ],
)
async def test_if_match_is_one_strong_quoted_revision(
    method: str, path: str, body: Any, sent: list[str], refusal: tuple[int, str]
) -> None:
    control = Control()
    await control.put(route_table(), 0)
    answer = await control.send(method, path, body, headers=[("if-match", value) for value in sent])
    assert error_of(answer) == refusal
    if refusal[0] == 400:
        assert list(problems_of(answer)) == ["header.if-match"]
    assert await revisions(control) == 1


BROKEN_TABLES: list[tuple[bytes, list[str]]] = [
    (b"", [""]),
    (b"  ", [""]),
    (b"{", [""]),
    (b"[]", [""]),
    (b"null", [""]),
    (b'"text"', [""]),
    (b"\xff{}", [""]),
    (b"\xef\xbb\xbf{}", [""]),
    (b'{"version": NaN, "routes": []}', [""]),
    (b"[" * 100_000, [""]),
    (b'{"version": 2, "version": 2, "routes": []}', ["version"]),
    (b'{"version": 3, "rotues": []}', ["version", "routes", "rotues"]),
    (
        b'{"version": 2, "routes": [{"id": "A", "match": {"path": "x"}, "upstream": "x", "auth": {"mode": "no"}}]}',
        ["routes[0].id", "routes[0].match.path", "routes[0].auth.mode"],
    ),
]


@pytest.mark.parametrize(("body", "places"), BROKEN_TABLES)
async def test_an_invalid_table_is_400_with_every_problem_and_nothing_is_written(
    body: bytes, places: list[str]
) -> None:
    control = Control()
    answer = await control.put(body, 0)
    assert error_of(answer) == (400, "invalid_config")
    assert set(problems_of(answer)) == set(places)
    judged = (await control.send("POST", "/v1/config/validate", body, token="read")).json()
    assert judged["valid"] is False
    assert judged["errors"] == answer.json()["errors"]
    assert await revisions(control) == 0


async def test_a_deep_table_is_refused_without_harm() -> None:
    control = Control()
    body = b'{"version": 2, "routes": [], "defaults": ' + b'{"a":' * 50 + b"1" + b"}" * 51
    assert error_of(await control.put(body, 0)) == (400, "invalid_config")


@pytest.mark.parametrize(
    ("headers", "refusal"),
    [
        ([("content-type", "application/json; charset=utf-8")], None),
        ([("content-type", "Application/JSON;Charset=UTF-8")], None),
        ([("content-type", 'application/json ; charset="utf-8"')], None),
        ([("content-type", "application/json"), ("content-encoding", "identity")], None),
        ([("content-type", "application/json; charset=latin-1")], 415),
        ([("content-type", "application/problem+json")], 415),
        ([("content-type", "application/jsonp")], 415),
        ([("content-type", "application/json, text/plain")], 415),
        ([("content-type", "text/plain")], 415),
        ([("content-type", "")], 415),
        ([("content-type", "application/json"), ("content-type", "application/json")], 415),
        ([("content-type", "application/json"), ("content-encoding", "gzip")], 415),
        ([("content-type", "application/json"), ("content-encoding", "br, identity")], 415),
    ],
)
async def test_the_media_type_is_compared_without_case_and_parameters_that_mean_the_same(
    headers: list[tuple[str, str]], refusal: int | None
) -> None:
    control = Control()
    body = json.dumps(route_table()).encode()
    answer = await control.send("PUT", "/v1/config", body, headers=[*headers, ("if-match", '"0"')])
    assert answer.status_code == (refusal or 201), answer.text
    assert refusal is None or error_of(answer) == (415, "unsupported_media_type")


async def test_a_body_without_a_media_type_is_415() -> None:
    control = Control()
    answer = await control.send("POST", "/v1/config/validate", None)
    assert error_of(answer) == (415, "unsupported_media_type")


async def test_a_compressed_body_is_not_unpacked() -> None:
    """A few kilobytes could be gigabytes."""
    control = Control()
    body = gzip.compress(json.dumps(route_table()).encode())
    headers = {**JSON, "content-encoding": "gzip", "if-match": '"0"'}
    assert error_of(await control.send("PUT", "/v1/config", body, headers=headers))[0] == 415


async def test_a_table_over_8_mib_is_413_and_one_of_8_mib_is_read() -> None:
    control = Control()
    text = json.dumps(route_table()).encode()
    assert (await control.put(text + b" " * (MAX_TABLE_BYTES - len(text)), 0)).status_code == 201
    over = await control.put(text + b" " * (MAX_TABLE_BYTES - len(text) + 1), 1)
    assert error_of(over) == (413, "payload_too_large")
    assert over.headers["connection"] == "close"
    assert await revisions(control) == 1


async def test_rollback_writes_the_old_table_as_a_new_revision() -> None:
    control = Control()
    await control.put(route_table("old"), 0)
    await control.put(route_table("new"), 1)
    answer = await control.send("POST", "/v1/config/rollback", {"revision": 1}, headers={"if-match": '"2"'})
    assert (answer.status_code, answer.json()["revision"], answer.headers["etag"]) == (201, 3, '"3"')
    assert (await control.send("GET", "/v1/config")).json() == route_table("old")
    assert (await control.send("GET", "/v1/config/revisions/2")).json()["table"] == route_table("new")
    newest = (await control.state.list_audit(None, 1)).entries[0]
    assert (newest.action, newest.target) == ("config.rollback", "revision 3, the table of revision 1")


async def test_a_rollback_of_more_than_8192_bytes_is_413() -> None:
    """It is judged on the loop, where a million unknown fields would hold up everybody for half a minute."""
    control = Control()
    await control.put(route_table(), 0)
    largest = b'{"revision": 1}'.ljust(8_192)
    answer = await control.send("POST", "/v1/config/rollback", largest + b" ", headers={**JSON, "if-match": '"1"'})
    assert error_of(answer) == (413, "payload_too_large")
    assert "8192" in answer.json()["message"]
    answer = await control.send("POST", "/v1/config/rollback", largest, headers={**JSON, "if-match": '"1"'})
    assert answer.status_code == 201


async def test_rollback_to_what_never_was_is_404() -> None:
    control = Control()
    await control.put(route_table(), 0)
    answer = await control.send("POST", "/v1/config/rollback", {"revision": 2}, headers={"if-match": '"1"'})
    assert error_of(answer) == (404, "not_found")


@pytest.mark.parametrize(
    ("body", "places"),
    [
        (b"", [""]),
        (b"3", [""]),
        (b"{}", ["revision"]),
        (b'{"revision": "1"}', ["revision"]),
        (b'{"revision": 1.0}', ["revision"]),
        (b'{"revision": true}', ["revision"]),
        (b'{"revision": null}', ["revision"]),
        (b'{"revision": 0}', ["revision"]),
        (b'{"revision": 1, "revision": 1}', ["revision"]),
        (b'{"revision": 1, "force": true}', ["force"]),
        (b'{"revison": 1}', ["revision", "revison"]),
        (b'{"revision": ' + b"9" * 5_000 + b"}", [""]),
    ],
)
async def test_a_malformed_rollback_is_400_with_every_problem(body: bytes, places: list[str]) -> None:
    control = Control()
    await control.put(route_table(), 0)
    answer = await control.send("POST", "/v1/config/rollback", body, headers={**JSON, "if-match": '"1"'})
    assert error_of(answer) == (400, "bad_request")
    assert sorted(problems_of(answer)) == sorted(places)


async def test_validation_writes_nothing_and_says_what_a_write_would_meet() -> None:
    control = Control(control_settings(PROTECTED_ROUTES="admin"))
    await control.put(route_table("admin", "app"), 0)
    answer = await control.send("POST", "/v1/config/validate", route_table("app"), token="read")
    judged = answer.json()
    assert (answer.status_code, judged["valid"], judged["errors"]) == (200, True, [])
    assert judged["protectedRoutes"] == ["admin"]
    assert judged["revision"] == 1
    assert {"route", "setting", "message"} == set(judged["warnings"][0])
    assert await revisions(control) == 1


async def test_validation_shows_the_difference_from_the_active_table() -> None:
    control = Control()
    first = (await control.send("POST", "/v1/config/validate", route_table("a"))).json()
    assert (first["diff"]["added"], first["revision"]) == (["a"], 0)
    await control.put(route_table("a"), 0)
    changed = route_table("a", "b")
    changed["routes"][0]["websocket"] = True
    diff = (await control.send("POST", "/v1/config/validate", changed)).json()["diff"]
    assert (diff["added"], diff["removed"], diff["settings"]) == (["b"], [], [])
    assert diff["changed"] == [{"id": "a", "fields": [{"path": "websocket", "before": None, "after": True}]}]
    assert diff["unified"].startswith("--- revision 1\n+++ this table\n")
    assert (await control.send("POST", "/v1/config/validate", b"{}")).json()["diff"] is None


async def test_two_revisions_are_told_apart() -> None:
    control = Control()
    await control.put(route_table("a"), 0)
    await control.put(route_table("a", "b"), 1)
    await control.put(route_table("b", hosts=["app.example.com"]), 2)

    async def diff(query: str) -> dict[str, Any]:
        answer = await control.send("GET", f"/v1/config/diff{query}", token="read")
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        return body

    whole = await diff("?from=1&to=3")
    assert set(whole) == {"from", "to", "added", "removed", "changed", "settings", "unified"}
    assert (whole["from"], whole["to"], whole["added"], whole["removed"]) == (1, 3, ["b"], ["a"])
    assert whole["settings"] == [{"path": "hosts", "before": None, "after": ["app.example.com"]}]
    assert await diff("?from=2&to=3") == await diff("") == await diff("?from=2") == await diff("?to=3")
    back = await diff("?from=3&to=1")
    assert (back["added"], back["removed"]) == (["a"], ["b"])
    assert (await diff("?from=0&to=1"))["added"] == ["a"]
    assert (await diff("?from=2&to=2"))["unified"] == ""


@pytest.mark.parametrize("query", ["", "?from=1&to=9", "?from=9", "?to=9"])
async def test_a_difference_from_what_never_was_is_404(query: str) -> None:
    control = Control()
    assert error_of(await control.send("GET", f"/v1/config/diff{query}")) == (404, "not_found")


@pytest.mark.parametrize(
    ("query", "places"),
    [
        ("from=a&to=0", ["query.from", "query.to"]),
        ("from=-1", ["query.from"]),
        ("from=1.0&revision=1", ["query.from", "query.revision"]),
        ("before=1", ["query.before"]),
    ],
)
async def test_a_malformed_difference_is_400_with_every_problem(query: str, places: list[str]) -> None:
    answer = await Control().send("GET", f"/v1/config/diff?{query}")
    assert error_of(answer) == (400, "bad_request")
    assert sorted(problems_of(answer)) == sorted(places)


async def test_a_protected_route_is_neither_removed_nor_changed() -> None:
    control = Control(control_settings(PROTECTED_ROUTES="admin,other"))
    table = route_table("admin", "app")
    assert (await control.put(table, 0)).status_code == 201
    changed = route_table("admin", "app")
    changed["routes"][0]["upstream"] = "http://127.0.0.1:6666"
    by_default = {**table, "defaults": {"crossSite": "strict"}}
    for refused in (route_table("app"), changed, by_default):
        answer = await control.put(refused, 1)
        assert error_of(answer) == (409, "protected_route")
        assert "admin" in answer.json()["message"]
        assert answer.json()["revision"] == 1
    assert (await control.put(route_table("app", "admin", "more"), 1)).status_code == 201


async def test_a_rollback_behind_a_protected_route_is_refused_too() -> None:
    control = Control(control_settings(PROTECTED_ROUTES="admin"))
    await control.put(route_table("app"), 0)
    await control.put(route_table("app", "admin"), 1)
    answer = await control.send("POST", "/v1/config/rollback", {"revision": 1}, headers={"if-match": '"2"'})
    assert error_of(answer) == (409, "protected_route")


async def test_the_history_comes_in_pages_newest_first() -> None:
    control = Control()
    for number in range(5):
        await control.put(route_table(), number)
    seen: list[int] = []
    query = "?limit=2"
    while query:
        page = (await control.send("GET", f"/v1/config/revisions{query}", token="read")).json()
        assert set(page) == {"items", "nextCursor"}
        seen += [item["revision"] for item in page["items"]]
        query = f"?limit=2&cursor={page['nextCursor']}" if page["nextCursor"] else ""
    assert seen == [5, 4, 3, 2, 1]
    assert set(page["items"][0]) == {"revision", "time", "operator", "action"}
    assert page["items"][0]["time"] == "2027-01-15T08:00:00.000Z"


@pytest.mark.parametrize(
    ("query", "places"),
    [
        ("limit=0", ["query.limit"]),
        ("limit=201", ["query.limit"]),
        ("limit=1e1", ["query.limit"]),
        ("limit=", ["query.limit"]),
        ("limit=x&cursor=&page=2", ["query.limit", "query.cursor", "query.page"]),
        ("limit=1&limit=1", ["query.limit"]),
        ("limit=1&%6Cimit=2", ["query.limit"]),
        ("limit=%ff", ["query.limit"]),
        ("cursor=", ["query.cursor"]),
        ("cursor=!", ["query.cursor"]),
        ("cursor=cmV2aXNpb246MA", ["query.cursor"]),
        ("cursor=YXVkaXQ6Mg", ["query.cursor"]),
        ("cursor=cmV2aXNpb246Mh", ["query.cursor"]),
        ("cursor=cmV2aXNpb246Mg==", ["query.cursor"]),
        (f"cursor={'A' * 129}", ["query.cursor"]),
    ],
)
async def test_a_malformed_query_is_400_with_every_parameter(query: str, places: list[str]) -> None:
    control = Control()
    answer = await control.send("GET", f"/v1/config/revisions?{query}")
    assert error_of(answer) == (400, "bad_request")
    assert sorted(problems_of(answer)) == sorted(places)


@pytest.mark.parametrize("path", ["/v1/config?x=1", "/v1/config/revisions/1?x=1"])
async def test_an_unknown_parameter_is_not_ignored(path: str) -> None:
    assert problems_of(await Control().send("GET", path)) == {"query.x": "is unknown"}


@pytest.mark.parametrize("number", ["0", "-1", "x", "1.0", "9" * 30])
async def test_a_revision_that_is_no_number_is_400(number: str) -> None:
    assert error_of(await Control().send("GET", f"/v1/config/revisions/{number}")) == (400, "bad_request")


async def test_a_revision_that_never_was_is_404() -> None:
    assert error_of(await Control().send("GET", "/v1/config/revisions/7")) == (404, "not_found")


async def test_the_password_in_an_upstream_url_is_shown_to_nobody() -> None:
    """A version 1 table may carry one; whoever may read the table may not use it."""
    control = Control()
    table = route_table("a", "b", version=1)
    table["routes"][0]["upstream"] = ["http://user:secret-word@127.0.0.1:3000", "http://127.0.0.1:3001"]
    table["routes"][1]["upstream"] = "http:\\/\\/user:secret-word\\u0040127.0.0.1"
    text = json.dumps(table).replace("\\\\", "\\").encode()
    assert (await control.put(text, 0)).status_code == 201
    await control.put(route_table(), 1)
    for path in ("/v1/config/revisions/1", "/v1/config/diff?from=0&to=1", "/v1/config"):
        answer = await control.send("GET", path)
        assert answer.status_code == 200
        assert "secret-word" not in answer.text
        await control.send("POST", "/v1/config/rollback", {"revision": 1}, headers={"if-match": '"2"'})
    stored = await control.state.read_revision(3)
    assert stored is not None
    assert b"secret-word" in stored[1]
    shown = (await control.send("GET", "/v1/config")).content
    assert error_of(await control.put(shown, 3)) == (400, "invalid_config")


async def test_production_refuses_the_wide_ranges_that_a_gateway_there_refuses() -> None:
    strong = json.dumps({"0123456789abcdef" * 4: {"operator": "a", "scope": "config"}})
    settings = control_settings(ENV="production", CONTROL_TOKENS=strong, CONTROL_STATE_URL="redis://127.0.0.1")
    control = Control(settings)
    table = route_table(trustedProxies=["10.0.0.0/8"])
    answer = await control.put(table, 0, token="0123456789abcdef" * 4)
    assert error_of(answer) == (400, "invalid_config")
    assert "trustedProxies[0]" in problems_of(answer)
