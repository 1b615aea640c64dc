"""The Access protocol as values: the question that is sent, and what an answer means (§6.1, CONTRACT §6).

`openapi/access.yaml` publishes the same. Nothing here does I/O.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import orjson

from dataplane.access.strict_json import strict_json

DECISIONS_PATH = "/v1/decisions"
ANSWER_MAX_BYTES = 65_536
"""An answer is one short object; a longer one is not Access (CONTRACT §6)."""

DenialReason = Literal["missing_role", "access_denied"]
TransportFailureKind = Literal["connect", "timeout", "tls", "reset", "malformed", "too_large"]
FailureKind = Literal[
    "connect", "timeout", "tls", "reset", "malformed", "too_large", "status", "rejected", "breaker_open"
]


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """An explicit decision. `reason` is `""` for an allow; `stale` marks one served in the outage grace (§6.2)."""

    allow: bool
    reason: DenialReason | Literal[""] = ""
    stale: bool = False


@dataclass(frozen=True, slots=True)
class AccessFailure:
    """Access gave no decision. `detail` is for the log: it names the cause and never quotes the answer."""

    kind: FailureKind
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"

    @property
    def rejected(self) -> bool:
        """Access refused the question itself (400), which says nothing about the health of the service (§6.4)."""
        return self.kind == "rejected"


# The only decisions there are; sharing them keeps a cached one small.
ALLOW = AccessDecision(True)
STALE_ALLOW = AccessDecision(True, stale=True)
_DENIALS: dict[DenialReason, AccessDecision] = {
    "missing_role": AccessDecision(False, "missing_role"),
    "access_denied": AccessDecision(False, "access_denied"),
}

# The rule of 1.0 for a service that sends no code (§6.5): its text mentions a role. Whole words, so that a
# "controlled" workspace is not counted as one.
_MENTIONS_ROLE = re.compile(r"(?<![a-z])roles?(?![a-z])", re.IGNORECASE)

_STATUS_HINTS = {
    401: "it does not accept GATEWAY_ACCESS_TOKEN",
    403: "it does not accept GATEWAY_ACCESS_TOKEN; a denial is 200 with allow false",
    404: f"nothing is served at GATEWAY_ACCESS_URL{DECISIONS_PATH}",
}


def question(subject: str, workspace_id: str | None, route_id: str, roles: Sequence[str]) -> bytes:
    """The body of a request: every input of the decision, and nothing else.

    Two different questions never give the same bytes. Raises `ValueError` for text that is not Unicode (a lone
    surrogate): it could not be asked about.
    """
    asked: dict[str, object] = {"subject": subject}
    if workspace_id is not None:
        asked["workspaceId"] = workspace_id
    asked["routeId"] = route_id
    asked["roles"] = roles
    try:
        # A copy, as it is kept: what orjson makes holds on to the block that it was written in, 4 KiB and more.
        return b"%b" % orjson.dumps(asked)
    except TypeError as error:
        raise ValueError(f"the question cannot be written: {error}") from None


def parse_decision(status: int, body: bytes) -> AccessDecision | AccessFailure:
    """What an answer means, row by row of the table in CONTRACT §6.

    Only a 200 with a boolean `allow` decides. Never raises, whatever the bytes.
    """
    if status == 400:
        return AccessFailure("rejected", "Access answered 400: it does not understand the question")
    if status != 200:
        return AccessFailure("status", _status_detail(status))
    if len(body) > ANSWER_MAX_BYTES:
        return AccessFailure("too_large", f"Access answered more than {ANSWER_MAX_BYTES} bytes")
    try:
        answer = strict_json(body)
    except ValueError as error:
        return AccessFailure("malformed", f"Access answered what is not JSON: {error}")
    if not isinstance(answer, dict):
        return AccessFailure("malformed", "Access answered JSON that is not an object")
    allow = answer.get("allow")
    if allow is True:
        return ALLOW
    if allow is False:
        return _DENIALS[denial_reason(answer)]
    problem = "is not a boolean" if "allow" in answer else "is missing"
    return AccessFailure("malformed", f"Access answered an object whose allow {problem}")


def kept_decision(allow: object, reason: object) -> AccessDecision:
    """A decision as it was kept outside this process. Only `True` allows, and a denial has one of the known reasons."""
    if allow is True:
        return ALLOW
    return _DENIALS["missing_role" if reason == "missing_role" else "access_denied"]


def denial_reason(answer: dict[str, object]) -> DenialReason:
    """What a denial counts as (§6.5): its `reasonCode`, or without one the 1.0 rule on `reason`."""
    if "reasonCode" in answer:
        return "missing_role" if answer["reasonCode"] == "missing_role" else "access_denied"
    reason = answer.get("reason")
    if isinstance(reason, str) and _MENTIONS_ROLE.search(reason):
        return "missing_role"
    return "access_denied"


def _status_detail(status: int) -> str:
    hint = _STATUS_HINTS.get(status)
    if hint is None and 300 <= status < 400:
        hint = "redirects are not followed"
    return f"Access answered {status}" + (f": {hint}" if hint else "")
