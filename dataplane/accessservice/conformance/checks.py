"""The checks, in the order in which they run."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from dataplane.access.protocol import ALLOW, DECISIONS_PATH, AccessDecision, parse_decision
from dataplane.access.strict_json import strict_json
from dataplane.accessservice.conformance.judge import (
    Finding,
    judge_decision,
    judge_media_type,
    judge_refusal,
    judge_unauthorized,
    shown,
)
from dataplane.accessservice.conformance.probe import Pair, Probe, Target, Unanswered, Unreachable

Level = Literal["must", "should"]

_OVERSIZED_BYTES = 2 * 1_048_576
_MANY_ROLES = 500
_BURST = 8


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that is asked of the service. `run` answers with what is wrong, or None."""

    id: str
    title: str
    level: Level
    run: Callable[[Probe], Awaitable[Finding | None]]
    applies: Callable[[Target], bool] = lambda _: True
    """Whether the check asks anything, for what is known of the service."""


async def _allow(probe: Probe) -> Finding | None:
    return judge_decision(await probe.ask(probe.question(probe.target.allow)), True)


async def _deny(probe: Probe) -> Finding | None:
    return judge_decision(await probe.ask(probe.question(probe.target.deny)), False)


async def _answers_are_json(probe: Probe) -> Finding | None:
    return judge_media_type(await probe.ask(probe.question(probe.target.allow)))


async def _denial(probe: Probe) -> dict[str, Any]:
    """The denial as an object; empty where it is none, which another check reports."""
    answer = await probe.ask(probe.question(probe.target.deny))
    outcome = parse_decision(answer.status, answer.body)
    denied = isinstance(outcome, AccessDecision) and not outcome.allow
    body = strict_json(answer.body) if denied else {}
    return body if isinstance(body, dict) else {}


async def _reason_code(probe: Probe) -> Finding | None:
    denial = await _denial(probe)
    code = denial.get("reasonCode")
    if not denial or code in ("missing_role", "access_denied"):
        return None
    if "reasonCode" not in denial:
        return Finding(
            "no reasonCode", "send missing_role or access_denied: without one the gateway guesses from reason"
        )
    return Finding(f"reasonCode: {_short(code)}", "send missing_role or access_denied: others count as access_denied")


async def _expected_reason_code(probe: Probe) -> Finding | None:
    expected = probe.target.reason_code
    code = (await _denial(probe)).get("reasonCode")
    return None if code == expected else Finding(f"reasonCode: {_short(code)}", f"deny with reasonCode {expected}")


async def _reason_text(probe: Probe) -> Finding | None:
    reason = (await _denial(probe)).get("reason", "")
    if isinstance(reason, str):
        return None
    return Finding(f"reason: {_short(reason)}", "send reason as a string, or not at all")


async def _no_workspace(probe: Probe) -> Finding | None:
    for subject in (probe.target.allow.subject, probe.target.deny.subject):
        finding = judge_decision(await probe.ask(probe.question(Pair(subject, None))), None)
        if finding is not None:
            advice = f"decide on subject, route and roles where no workspaceId is sent; {finding.advice}"
            return Finding(finding.found, advice)
    return None


async def _unknown_subject(probe: Probe) -> Finding | None:
    stranger = Pair(f"nobody-{secrets.token_hex(8)}", probe.target.allow.workspace_id)
    answer = await probe.ask(probe.question(stranger))
    if parse_decision(answer.status, answer.body) != ALLOW:
        return judge_decision(answer, False)
    return Finding(shown(answer), "a made-up subject got in: is this workspace open to all, or is subject not read?")


async def _unusual_subject(probe: Probe) -> Finding | None:
    for subject in ("auth0|münchen-東京-🦊", "x" * 512, 'a"b\\c', "urn:x:y/z?q#f"):
        pair = Pair(subject, probe.target.allow.workspace_id)
        finding = judge_decision(await probe.ask(probe.question(pair)), None)
        if finding is not None:
            return finding
    return None


async def _many_roles(probe: Probe) -> Finding | None:
    roles = (*probe.target.roles, *(f"role-{number:03d}" for number in range(_MANY_ROLES)))
    return judge_decision(await probe.ask(probe.question(probe.target.allow, roles)), True)


async def _extra_fields(probe: Probe) -> Finding | None:
    more: dict[str, Any] = {"requestedAt": 1, "context": {"method": "GET"}, "tags": ["a"]}
    finding = judge_decision(await probe.ask(probe.question(probe.target.allow, **more)), True)
    if finding is None:
        return None
    return Finding(finding.found, "ignore fields that are not known: the protocol is extended, never changed")


async def _escaped(probe: Probe) -> Finding | None:
    mark = secrets.token_hex(8)
    units = probe.target.allow.subject.encode("utf-16-be")
    escaped = "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
    body = json.dumps({**probe.question(probe.target.allow), "subject": mark}, indent=4).replace(mark, escaped)
    return judge_decision(await probe.ask(f"\n{body}\n".encode()), True)


async def _burst(probe: Probe) -> Finding | None:
    target = probe.target
    expected = [number % 2 == 0 for number in range(2 * _BURST)]
    answers = await asyncio.gather(
        *(probe.ask(probe.question(target.allow if allow else target.deny)) for allow in expected)
    )
    for answer, allow in zip(answers, expected, strict=True):
        finding = judge_decision(answer, allow)
        if finding is not None:
            return Finding(finding.found, f"{2 * _BURST} questions at once: each must get its own answer, in time")
    return None


def _malformed(make: Callable[[Probe], bytes]) -> Callable[[Probe], Awaitable[Finding | None]]:
    async def run(probe: Probe) -> Finding | None:
        return judge_refusal(await probe.ask(make(probe)))

    return run


def _changed(*drop: str, **change: Any) -> Callable[[Probe], bytes]:
    def make(probe: Probe) -> bytes:
        asked = {**probe.question(probe.target.allow), **change}
        return orjson.dumps({name: value for name, value in asked.items() if name not in drop})

    return make


def _twice(probe: Probe) -> bytes:
    asked = orjson.dumps(probe.question(probe.target.allow)).decode()
    return (f'{{"subject": {orjson.dumps(probe.target.deny.subject).decode()}, ' + asked[1:]).encode()


def _not_utf8(probe: Probe) -> bytes:
    asked = orjson.dumps({**probe.question(probe.target.allow), "subject": "SUBJECT"})
    return asked.replace(b"SUBJECT", b"\xff\xfe")


def _unauthorized(
    authorization: Callable[[str], str | None],
) -> Callable[[Probe], Awaitable[Finding | None]]:
    async def run(probe: Probe) -> Finding | None:
        sent = authorization(probe.target.token.reveal())
        asked = probe.question(probe.target.allow)
        return judge_unauthorized(await probe.ask(asked, authorization=sent))

    return run


def _other_case(token: str) -> str:
    changed = token.swapcase()
    return f"Bearer {changed if changed != token else token + 'x'}"


async def _wrong_path(probe: Probe) -> Finding | None:
    content = orjson.dumps(probe.question(probe.target.allow))
    for path in ("/v1/decision", "/v1/decisions/extra", "/v2/decisions"):
        answer = await probe.send("POST", path, content)
        if answer.status != 404:
            return Finding(f"{path}: {shown(answer)}", "answer 404 on every other path, so that a wrong URL is noticed")
    return None


async def _wrong_method(probe: Probe) -> Finding | None:
    answer = await probe.send("GET", DECISIONS_PATH)
    if 400 <= answer.status < 500:
        return None
    return Finding(shown(answer), "answer 405: a decision is asked for with POST")


async def _media_type(probe: Probe) -> Finding | None:
    answer = await probe.ask(probe.question(probe.target.allow), media_type="text/plain")
    if answer.status in (400, 415):
        return None
    return Finding(shown(answer), "answer 415 to a body that is not application/json")


async def _oversized(probe: Probe) -> Finding | None:
    try:
        answer = await probe.ask(probe.question(probe.target.allow, padding="x" * _OVERSIZED_BYTES))
    except Unreachable:
        raise
    except Unanswered:
        return None  # closed while the body was being sent, which bounds it too
    if 400 <= answer.status < 500:
        return None
    return Finding(shown(answer), f"bound the body, and answer 413: this one had {_OVERSIZED_BYTES} bytes")


CHECKS: tuple[Check, ...] = (
    Check("allow", "the allowed subject is allowed", "must", _allow),
    Check("deny", "the denied subject is denied, with 200", "must", _deny),
    Check("answer-json", "a decision says that it is JSON", "should", _answers_are_json),
    Check("reason-code", "a denial carries a reasonCode that is counted", "should", _reason_code),
    Check(
        "reason-code-expected",
        "the denial carries the code of --reason-code",
        "must",
        _expected_reason_code,
        applies=lambda target: bool(target.reason_code),
    ),
    Check("reason-text", "a denial's reason is text", "should", _reason_text),
    Check("no-workspace", "a question without a workspace is decided", "must", _no_workspace),
    Check("unknown-subject", "a subject that nobody knows is denied", "should", _unknown_subject),
    Check("unusual-subject", "subjects of any characters are decided", "must", _unusual_subject),
    Check("many-roles", f"{_MANY_ROLES} roles are read", "must", _many_roles),
    Check("extra-fields", "unknown fields are ignored", "must", _extra_fields),
    Check("json-spelling", "escapes and white space change nothing", "must", _escaped),
    Check("burst", "questions at once are answered each on its own", "must", _burst),
    Check("bad-json", "a body that is not JSON is 400", "must", _malformed(lambda _: b'{"subject": ')),
    Check("bad-empty", "an empty body is 400", "must", _malformed(lambda _: b"")),
    Check("bad-array", "a body that is no object is 400", "must", _malformed(lambda _: b"[]")),
    Check("bad-utf8", "a body that is not UTF-8 is 400", "should", _malformed(_not_utf8)),
    Check("bad-twice", "a name that stands twice is 400", "should", _malformed(_twice)),
    Check("no-subject", "a question without subject is 400", "must", _malformed(_changed("subject"))),
    Check("bad-subject", "a subject that is no string is 400", "must", _malformed(_changed(subject=1))),
    Check("empty-subject", "an empty subject is 400", "should", _malformed(_changed(subject=""))),
    Check("no-route", "a question without routeId is 400", "must", _malformed(_changed("routeId"))),
    Check("bad-route", "a routeId that is no string is 400", "must", _malformed(_changed(routeId=["a"]))),
    Check("bad-workspace", "a workspaceId that is no string is 400", "must", _malformed(_changed(workspaceId=1))),
    Check("null-workspace", "a workspaceId of null is 400", "should", _malformed(_changed(workspaceId=None))),
    Check("empty-workspace", "an empty workspaceId is 400", "should", _malformed(_changed(workspaceId=""))),
    Check("no-roles", "a question without roles is 400", "must", _malformed(_changed("roles"))),
    Check("bad-roles", "roles that are no list are 400", "must", _malformed(_changed(roles="admin"))),
    Check("bad-role", "a role that is no string is 400", "must", _malformed(_changed(roles=["a", 1]))),
    Check("no-token", "a caller without a token is refused", "must", _unauthorized(lambda _: None)),
    Check(
        "wrong-token", "another token is refused", "must", _unauthorized(lambda _: f"Bearer {secrets.token_hex(32)}")
    ),
    Check("cut-token", "the beginning of the token is refused", "must", _unauthorized(lambda t: f"Bearer {t[:-1]}")),
    Check("long-token", "the token with more behind it is refused", "must", _unauthorized(lambda t: f"Bearer {t}x")),
    Check("token-case", "the token in other case is refused", "must", _unauthorized(_other_case)),
    Check("no-scheme", "the token without its scheme is refused", "should", _unauthorized(lambda t: t)),
    Check("wrong-path", "another path is 404", "must", _wrong_path),
    Check("wrong-method", "GET is refused", "must", _wrong_method),
    Check("media-type", "a body of another media type is refused", "should", _media_type),
    Check("oversized", "a body of 2 MiB is refused", "should", _oversized),
    Check("still-allow", "after all this the allowed subject is allowed", "must", _allow),
    Check("still-deny", "after all this the denied subject is denied", "must", _deny),
)


def _short(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else text[:60] + "…"
