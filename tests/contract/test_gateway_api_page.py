"""docs/gateway-api.md and docs/metrics.md show what a running gateway answers and logs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from common.settings.secret import Secret
from tests.support.gateway import Running, running, table

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "gateway-api.md").read_text()
SESSION, READINESS = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))


def names(value: Any) -> Any:
    """The names of a JSON object, and of the objects in it."""
    return {name: names(inner) for name, inner in value.items()} if isinstance(value, dict) else None


async def answers(gateway: Running) -> dict[str, int]:
    """The status of each endpoint that needs neither provider nor session."""
    paths = ("/healthz", "/readyz", "/metrics", "/auth/session", "/auth/callback", "/.well-known/acme-challenge/x")
    return {path: (await gateway.get(path)).status for path in paths}


async def test_bodies_have_the_fields_that_the_page_shows(tmp_path: Path) -> None:
    async with running(tmp_path, table()) as gateway:
        assert names((await gateway.get("/readyz")).json) == names(READINESS)
        cookie = await gateway.session("user-1", "ada@example.com", ("dev",))
        assert names((await gateway.get("/auth/session", cookie)).json) == names(SESSION)
        assert (await gateway.get("/healthz")).body.decode() in PAGE


async def test_statuses_are_those_of_the_page(tmp_path: Path) -> None:
    async with running(tmp_path, table()) as gateway:
        assert await answers(gateway) == {
            "/healthz": 200,
            "/readyz": 200,
            "/metrics": 404,
            "/auth/session": 401,
            "/auth/callback": 400,
            "/.well-known/acme-challenge/x": 404,
        }
        assert (await gateway.get("/healthz", method="POST")).json["error"] == "not_found"
        head = await gateway.get("/readyz", method="HEAD")
        assert (head.status, head.body) == (200, b"")
    token = Secret("metrics-token-of-a-test-0123456789")
    (tmp_path / "routes.json").unlink()
    async with running(tmp_path, None, metrics_token=token) as gateway:
        assert (await answers(gateway))["/metrics"] == 401
        assert (await gateway.get("/metrics", f"authorization: Bearer {token.reveal()}")).status == 200
        assert (await gateway.get("/readyz")).status == 503


async def test_the_log_line_has_the_fields_that_the_page_lists(tmp_path: Path) -> None:
    page = (DOCS / "metrics.md").read_text().partition("## The log line of a request")[2]
    listed = {name for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    async with running(tmp_path, table()) as gateway:
        await gateway.get("/healthz")
        line = await gateway.request_line()
    assert set(line) - {"time", "level", "msg"} == listed
