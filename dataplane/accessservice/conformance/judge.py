"""What is wrong with an answer, and what the engineer of the service should do about it."""

from __future__ import annotations

from dataclasses import dataclass

from dataplane.access.protocol import AccessDecision, AccessFailure, parse_decision
from dataplane.accessservice.conformance.probe import JSON, Answer

_SHOWN_BYTES = 120


@dataclass(frozen=True, slots=True)
class Finding:
    """What was wrong (`found`) and what to do (`advice`). Never holds the token."""

    found: str
    advice: str


def judge_decision(answer: Answer, expected: bool | None) -> Finding | None:
    """Wrong unless it is an explicit decision, and the `expected` one where that is given."""
    outcome = parse_decision(answer.status, answer.body)
    if isinstance(outcome, AccessFailure):
        return Finding(shown(answer), _failure_advice(answer, outcome))
    return _judge_expected(answer, outcome, expected)


def _judge_expected(answer: Answer, outcome: AccessDecision, expected: bool | None) -> Finding | None:
    if expected is None or outcome.allow is expected:
        return None
    if expected:
        return Finding(shown(answer), "--allow must name what the policy allows, with --route and --role as it asks")
    return Finding(shown(answer), "--deny must name what the policy denies; if it does, callers get in who must not")


def _failure_advice(answer: Answer, outcome: AccessFailure) -> str:
    status = answer.status
    if status == 400:
        return "the question is well-formed (openapi/access.yaml): accept it; a 400 stands for a malformed one alone"
    if status == 403:
        return 'a denial is 200 with {"allow": false}: the gateway takes 403 for an outage and answers 503'
    if status == 401:
        return "the token was not accepted: give the service's own, and read it from `Authorization: Bearer <token>`"
    if status == 404:
        return "serve POST /v1/decisions below this URL; a workspace that is not known is a denial, 200"
    if 300 <= status < 400:
        return "answer at this very URL: redirects are not followed, the gateway takes one for an outage"
    if status >= 500:
        return "answer 200 with a decision: the gateway takes this for an outage"
    if status != 200:
        return "a decision is status 200, allow or deny: the gateway takes any other for an outage"
    if outcome.kind == "too_large":
        return "keep an answer below 64 KiB: it needs allow, and for a denial reason and reasonCode"
    return "answer one JSON object with allow as a boolean, each name once: the gateway takes this for an outage"


def judge_refusal(answer: Answer) -> Finding | None:
    """Wrong unless a malformed question is refused with 400."""
    if answer.status == 400:
        return None
    outcome = parse_decision(answer.status, answer.body)
    if isinstance(outcome, AccessDecision):
        danger = "a question that cannot be understood was answered"
        if outcome.allow:
            danger += ", and with an allow"
        return Finding(shown(answer), f"{danger}: validate the body before deciding, and answer 400")
    if 400 < answer.status < 500:
        return Finding(
            shown(answer),
            "answer 400: any other status counts as a failure of the service and opens the gateway's breaker",
        )
    return Finding(shown(answer), "validate the body before deciding, and answer 400")


def judge_unauthorized(answer: Answer) -> Finding | None:
    """Wrong unless a caller without the token is refused."""
    if answer.status in (401, 403):
        return None
    if 200 <= answer.status < 300:
        return Finding(shown(answer), "whoever reaches the service can ask it: compare the whole token, answer 401")
    return Finding(shown(answer), "answer 401 before anything else of the request is looked at")


def judge_media_type(answer: Answer) -> Finding | None:
    """Wrong unless a decision says that it is JSON."""
    if answer.media_type == JSON:
        return None
    sent = printable(answer.media_type) or "none"
    return Finding(f"content-type: {sent}", f"send content-type: {JSON}, so that no proxy guesses")


def shown(answer: Answer) -> str:
    """Status and beginning of an answer on one line."""
    body = printable(answer.body[: _SHOWN_BYTES + 1].decode("utf-8", "replace"))
    if len(body) > _SHOWN_BYTES:
        body = body[:_SHOWN_BYTES] + "…"
    return f"{answer.status}, {body}" if body else f"{answer.status}, no body"


def printable(text: str) -> str:
    """Text of a stranger for a terminal: control characters and line ends are shown, not obeyed."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text.strip())
