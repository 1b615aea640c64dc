"""Access services for the conformance program: a second right one, and one for each mistake that it must find.

`Service` is written against `openapi/access.yaml` alone, and shares no code with the reference. Each mistake overrides
one step of it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

TOKEN = "token-of-conformance-0123456789abcdef"
WORKSPACE = "11111111-1111-4111-8111-111111111111"
MEMBER = "user-1"
STRANGER = "user-2"
ROLE = "dev"

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Reply = tuple[int, Any]

BAD = (400, {"error": "bad_request"})


class Service:
    """Lets `MEMBER`, and whoever holds `ROLE`, use `WORKSPACE`."""

    media_type = "application/json"

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        status, value = await self.reply(scope["method"], scope["path"], headers, body)
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        sent = [(b"content-type", self.media_type.encode())] if self.media_type else []
        await send({"type": "http.response.start", "status": status, "headers": sent + self.more_headers(status)})
        await send({"type": "http.response.body", "body": content})

    def more_headers(self, status: int) -> list[tuple[bytes, bytes]]:
        return []

    async def reply(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        if not self.knows(path):
            return 404, {}
        if not self.takes(method):
            return 405, {}
        if not self.trusts(headers.get("authorization", "")):
            return 401, {}
        if self.too_large(body):
            return 413, {}
        if not self.reads(headers.get("content-type", "")):
            return 415, {}
        try:
            asked = self.parse(body)
        except ValueError:
            return self.refuse()
        if not self.well_formed(asked):
            return self.refuse()
        return await self.decide(asked)

    def knows(self, path: str) -> bool:
        return path == "/v1/decisions"

    def takes(self, method: str) -> bool:
        return method == "POST"

    def trusts(self, authorization: str) -> bool:
        return authorization == f"Bearer {TOKEN}"

    def too_large(self, body: bytes) -> bool:
        return len(body) > 1_000_000

    def reads(self, media_type: str) -> bool:
        return media_type == "application/json"

    def parse(self, body: bytes) -> Any:
        def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            if len({name for name, _ in pairs}) != len(pairs):
                raise ValueError
            return dict(pairs)

        return json.loads(body.decode(), object_pairs_hook=unique)

    def refuse(self) -> Reply:
        return BAD

    def well_formed(self, asked: Any) -> bool:
        return (
            isinstance(asked, dict)
            and self.good_subject(asked)
            and self.good_route(asked)
            and self.good_workspace(asked)
            and self.good_roles(asked)
        )

    def good_subject(self, asked: dict[str, Any]) -> bool:
        return isinstance(asked.get("subject"), str) and bool(asked["subject"])

    def good_route(self, asked: dict[str, Any]) -> bool:
        return isinstance(asked.get("routeId"), str)

    def good_workspace(self, asked: dict[str, Any]) -> bool:
        return "workspaceId" not in asked or (isinstance(asked["workspaceId"], str) and bool(asked["workspaceId"]))

    def good_roles(self, asked: dict[str, Any]) -> bool:
        roles = asked.get("roles")
        return isinstance(roles, list) and all(isinstance(role, str) for role in roles)

    async def decide(self, asked: dict[str, Any]) -> Reply:
        allowed = asked.get("workspaceId") == WORKSPACE and (asked["subject"] == MEMBER or ROLE in asked["roles"])
        return self.allow() if allowed else self.deny()

    def allow(self) -> Reply:
        return 200, {"allow": True}

    def deny(self) -> Reply:
        return 200, {"allow": False, "reason": "no", "reasonCode": "missing_role"}


def mistaken(**steps: Any) -> Service:
    """A `Service` with some of its steps replaced."""
    return type("Mistaken", (Service,), steps)()


def _always(value: Any) -> Callable[..., Any]:
    return lambda self, *_: value


class CrossedAnswers(Service):
    """Keeps the question in one place for all requests: at once, one gets the answer of another."""

    async def decide(self, asked: dict[str, Any]) -> Reply:
        self.asked = asked
        await asyncio.sleep(0.02)
        return await super().decide(self.asked)


class BreaksAfterGarbage(Service):
    """A body that it cannot read leaves it broken for good."""

    broken = False

    def refuse(self) -> Reply:
        self.broken = True
        return BAD

    async def decide(self, asked: dict[str, Any]) -> Reply:
        return (500, {}) if self.broken else await super().decide(asked)


class Hangs(Service):
    """Never answers a question without a workspace."""

    async def decide(self, asked: dict[str, Any]) -> Reply:
        if "workspaceId" not in asked:
            await asyncio.Event().wait()
        return await super().decide(asked)


def _lenient_parse(self: Service, body: bytes) -> Any:
    return json.loads(body.decode())


def _any_encoding(self: Service, body: bytes) -> Any:
    return Service.parse(self, body.decode("latin-1").encode())


def _known_fields_only(self: Service, asked: Any) -> bool:
    return Service.well_formed(self, asked) and set(asked) <= {"subject", "workspaceId", "routeId", "roles"}


async def _workspace_required(self: Service, asked: dict[str, Any]) -> Reply:
    return BAD if "workspaceId" not in asked else await Service.decide(self, asked)


async def _allows_all(self: Service, asked: dict[str, Any]) -> Reply:
    return self.allow()


async def _denies_all(self: Service, asked: dict[str, Any]) -> Reply:
    return self.deny()


async def _denies_the_listed_alone(self: Service, asked: dict[str, Any]) -> Reply:
    return self.deny() if asked["subject"] == STRANGER else self.allow()


async def _ascii_subjects(self: Service, asked: dict[str, Any]) -> Reply:
    return await Service.decide(self, asked) if asked["subject"].isascii() else (500, {})


async def _few_roles(self: Service, asked: dict[str, Any]) -> Reply:
    return await Service.decide(self, asked) if len(asked["roles"]) < 100 else (500, {})


def _reads_by_pattern(self: Service, body: bytes) -> Any:
    asked = Service.parse(self, body)
    if isinstance(asked, dict) and asked.get("subject") == MEMBER and MEMBER.encode() not in body:
        asked["subject"] = "not-found"
    return asked


async def _gets(self: Service, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
    return self.allow() if method == "GET" else await Service.reply(self, method, path, headers, body)


RIGHT = Service()

# What breaks with each kind of answer.
ALLOWS = {"allow", "still-allow", "burst", "extra-fields", "json-spelling", "many-roles"}
DENIALS = {"deny", "still-deny", "burst", "no-workspace", "unknown-subject", "unusual-subject", "reason-code-expected"}
SUBJECTS = {"no-subject", "bad-subject", "empty-subject"}
ROUTES = {"no-route", "bad-route"}
WORKSPACES = {"bad-workspace", "null-workspace", "empty-workspace"}
ROLES = {"no-roles", "bad-roles", "bad-role"}
REFUSALS = {"bad-json", "bad-empty", "bad-array", "bad-utf8", "bad-twice"} | SUBJECTS | ROUTES | WORKSPACES | ROLES
TOKENS = {"no-token", "wrong-token", "cut-token", "long-token", "token-case", "no-scheme"}


def allows(status: int, value: Any, **steps: Any) -> Service:
    return mistaken(allow=_always((status, value)), **steps)


def denies(status: int, value: Any) -> Service:
    return mistaken(deny=_always((status, value)))


def trusts(rule: Callable[[str], bool]) -> Service:
    return mistaken(trusts=lambda _, sent: rule(sent))


WHOLE = f"Bearer {TOKEN}"

# What is wrong -> the service, and exactly the checks that must not pass.
MISTAKES: dict[str, tuple[Service, set[str]]] = {
    "denies with 403": (denies(403, {"allow": False}), DENIALS),
    "denies with 404": (denies(404, {}), DENIALS),
    "denies as text": (denies(200, {"allow": "false"}), DENIALS),
    "denies with 0": (denies(200, {"allow": 0}), DENIALS),
    "allows as text": (allows(200, {"allow": "true"}), ALLOWS),
    "allows with 1": (allows(200, {"allow": 1}), ALLOWS),
    "allows with 201": (allows(201, {"allow": True}), ALLOWS),
    "allows with 204": (allows(204, b""), ALLOWS),
    "answers a bare true": (allows(200, True), ALLOWS),
    "answers allow twice": (allows(200, b'{"allow": false, "allow": true}'), ALLOWS),
    "answers over 64 KiB": (allows(200, {"allow": True, "log": "x" * 70_000}), ALLOWS),
    "redirects": (allows(307, b"", more_headers=lambda *_: [(b"location", b"/v1/ok")]), ALLOWS),
    "answers a page": (allows(200, b"<html>"), ALLOWS),
    "fails": (allows(500, {}), ALLOWS),
    "allows everyone": (
        mistaken(decide=_allows_all),
        {"deny", "still-deny", "burst", "unknown-subject", "reason-code-expected"},
    ),
    "denies everyone": (mistaken(decide=_denies_all), ALLOWS),
    "denies only whom it lists": (mistaken(decide=_denies_the_listed_alone), {"unknown-subject"}),
    "says no media type": (mistaken(media_type=""), {"answer-json"}),
    "sends no reason code": (denies(200, {"allow": False}), {"reason-code", "reason-code-expected"}),
    "sends its own reason code": (
        denies(200, {"allow": False, "reasonCode": "E17"}),
        {"reason-code", "reason-code-expected"},
    ),
    "sends another reason code": (
        denies(200, {"allow": False, "reasonCode": "access_denied"}),
        {"reason-code-expected"},
    ),
    "sends a list of reasons": (
        denies(200, {"allow": False, "reason": ["x"], "reasonCode": "missing_role"}),
        {"reason-text"},
    ),
    "requires a workspace": (mistaken(decide=_workspace_required), {"no-workspace"}),
    "hangs without a workspace": (Hangs(), {"no-workspace"}),
    "knows ASCII alone": (mistaken(decide=_ascii_subjects), {"unusual-subject"}),
    "takes few roles": (mistaken(decide=_few_roles), {"many-roles"}),
    "refuses unknown fields": (mistaken(well_formed=_known_fields_only), {"extra-fields"}),
    "reads JSON by pattern": (mistaken(parse=_reads_by_pattern), {"json-spelling"}),
    "mixes answers up": (CrossedAnswers(), {"burst"}),
    "refuses with 422": (mistaken(refuse=_always((422, {}))), REFUSALS),
    "refuses with 500": (mistaken(refuse=_always((500, {}))), REFUSALS),
    "denies what it cannot read": (mistaken(refuse=lambda self: self.deny()), REFUSALS),
    "allows what it cannot read": (mistaken(refuse=lambda self: self.allow()), REFUSALS),
    "takes any bytes": (mistaken(parse=_any_encoding), {"bad-utf8"}),
    "takes a name twice": (mistaken(parse=_lenient_parse), {"bad-twice"}),
    "needs no subject": (
        mistaken(
            good_subject=_always(True),
            decide=lambda self, asked: Service.decide(self, {"subject": "", **asked}),
        ),
        SUBJECTS,
    ),
    "needs no route": (mistaken(good_route=_always(True)), ROUTES),
    "takes any workspace": (mistaken(good_workspace=_always(True)), WORKSPACES),
    "needs no roles": (
        mistaken(
            good_roles=_always(True),
            decide=lambda self, asked: Service.decide(self, {**asked, "roles": []}),
        ),
        ROLES,
    ),
    "takes any token": (trusts(lambda _: True), TOKENS),
    "takes no token": (trusts(lambda sent: sent in ("", WHOLE)), {"no-token"}),
    "compares the beginning": (trusts(lambda sent: sent.startswith(WHOLE)), {"long-token"}),
    "compares as far as sent": (trusts(lambda sent: len(sent) > 10 and WHOLE.startswith(sent)), {"cut-token"}),
    "ignores case": (trusts(lambda sent: sent.lower() == WHOLE.lower()), {"token-case"}),
    "ignores the scheme": (trusts(lambda sent: sent.split(" ")[-1] == TOKEN), {"no-scheme"}),
    "answers on every path": (mistaken(knows=_always(True)), {"wrong-path"}),
    "answers below its path": (mistaken(knows=lambda _, path: path.startswith("/v1/decisions")), {"wrong-path"}),
    "allows GET": (mistaken(reply=_gets), {"wrong-method"}),
    "reads any media type": (mistaken(reads=_always(True)), {"media-type"}),
    "bounds no body": (mistaken(too_large=_always(False)), {"oversized"}),
    "breaks after garbage": (BreaksAfterGarbage(), {"still-allow", "still-deny"}),
}
