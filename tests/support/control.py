"""The control plane's API in the test's own loop, over a state in memory whose clock the test moves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx

from common.settings.control import ControlSettings, load_control_settings
from common.state.memory import MemoryState
from common.state.ports import ControlState
from common.telemetry.log import Log
from controlplane.app import ControlPlane, control_plane
from tests.support.auth_harness import Time

TOKENS = {
    "config": "config-token-0123456789abcdefghijkl",
    "operate": "operate-token-0123456789abcdefghijk",
    "read": "read-token-0123456789abcdefghijklmn",
}
"""By scope; the operator of each is `<scope>-operator`."""

JSON = {"content-type": "application/json"}


def token_map() -> str:
    """The map of `TOKENS`, as the environment holds it."""
    entries = {token: {"operator": f"{scope}-operator", "scope": scope} for scope, token in TOKENS.items()}
    return json.dumps(entries)


def control_settings(**environment: str) -> ControlSettings:
    """Settings from the names without `GATEWAY_`, over those that every control plane needs."""
    given = {f"GATEWAY_{name}": value for name, value in environment.items()}
    base = {"GATEWAY_CONTROL_TOKENS": token_map(), "GATEWAY_CONTROL_STATE_URL": "memory://local"}
    return load_control_settings({**base, **given})


def route_table(*ids: str, **more: Any) -> dict[str, Any]:
    """A valid table of one route for each id."""
    routes = [
        {"id": one, "match": {"path": f"/{one}/"}, "upstream": "http://127.0.0.1:3000", "auth": {"mode": "session"}}
        for one in ids or ("app",)
    ]
    return {"version": 2, "routes": routes, **more}


class Control:
    """A client of the API, and the lines of its log. `state` may be another one than memory."""

    def __init__(
        self,
        settings: ControlSettings | None = None,
        state: ControlState | None = None,
        *,
        client: tuple[str, int] = ("192.0.2.7", 4711),
    ) -> None:
        self.time = Time()
        self.lines: list[bytes] = []
        self.state: ControlState = state or MemoryState(self.time.now_ms, budget_clock=self.time.now_ms)
        self.plane: ControlPlane = control_plane(
            settings or control_settings(), self.state, Log(self.lines.append, level="debug")
        )
        self.client = client

    async def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = "config",
        headers: Mapping[str, str] | list[tuple[str, str]] | None = None,
        client: tuple[str, int] | None = None,
    ) -> httpx.Response:
        """A request with the token of a scope (None: without one; another text is a token itself). A body that is no
        bytes is sent as JSON.
        """
        sent = list(headers.items()) if isinstance(headers, Mapping) else list(headers or ())
        names = {name.lower() for name, _ in sent}
        if token is not None and "authorization" not in names:
            sent.append(("authorization", f"Bearer {TOKENS.get(token, token)}"))
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if body is not None and "content-type" not in names:
            sent.append(("content-type", "application/json"))
        transport = httpx.ASGITransport(app=self.plane.app, client=client or self.client)
        async with httpx.AsyncClient(transport=transport, base_url="http://control") as http:
            return await http.request(method, path, content=content, headers=sent)

    async def put(self, table: object, expected: int, **more: Any) -> httpx.Response:
        """`PUT /v1/config` with the revision that was read."""
        return await self.send("PUT", "/v1/config", table, headers={"if-match": f'"{expected}"'}, **more)

    def events(self) -> list[dict[str, Any]]:
        """The lines of the log."""
        return [json.loads(line) for line in self.lines]


def error_of(response: httpx.Response) -> tuple[int, str]:
    """Status and code of a refusal."""
    return response.status_code, response.json()["error"]


def problems_of(response: httpx.Response) -> dict[str, str]:
    """The problems of a 400 by their place."""
    return {one["path"]: one["message"] for one in response.json()["errors"]}
