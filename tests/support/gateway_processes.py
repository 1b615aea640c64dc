"""`gateway run` as processes of their own, two on one store."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.gateway import Answer, Caller
from tests.support.ports import free_port
from tests.support.processes import Child, Children, eventually
from tests.support.redis import speak

ROOT = Path(__file__).parents[2]
DEADLINE_S = 30.0
READY = b"GET /readyz HTTP/1.1\r\nhost: app.test\r\n\r\n"


@dataclass
class GatewayProcess:
    """One `gateway run`."""

    child: Child
    port: int

    async def get(self, target: str, *headers: str) -> Answer:
        """One request on a connection of its own."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        caller = Caller(reader, writer)
        try:
            lines = "".join(f"{line}\r\n" for line in ("host: app.test", *headers))
            return await caller.ask(f"GET {target} HTTP/1.1\r\n{lines}\r\n".encode())
        finally:
            caller.close()

    async def until(self, target: str, *headers: str, status: int) -> None:
        """Ask until it is answered so."""
        async with asyncio.timeout(DEADLINE_S):
            while (await self.get(target, *headers)).status != status:
                await asyncio.sleep(0.005)

    async def until_ready_says(self, words: bytes) -> None:
        """Ask for readiness until its body holds these words."""
        async with asyncio.timeout(DEADLINE_S):
            while words not in (await self.get("/readyz")).body:
                await asyncio.sleep(0.005)


def inherited() -> dict[str, str]:
    """This process's environment without settings of the gateway."""
    return {key: value for key, value in os.environ.items() if not key.startswith("GATEWAY_")}


def start_gateways(
    children: Children,
    folder: Path,
    state_url: str,
    document: dict[str, Any],
    *,
    only_b: Mapping[str, str] | None = None,
    **settings: str,
) -> list[GatewayProcess]:
    """Two gateways, `a` and `b`, over one state and one table, once each is ready. `only_b` holds settings that `a`
    does not have, as in the middle of a rollout.
    """
    pair = []
    for name in ("a", "b"):
        own = folder / name
        own.mkdir()
        (own / "routes.json").write_text(json.dumps(document))
        port = free_port()
        environment = {
            "GATEWAY_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(port),
            "GATEWAY_CONFIG": str(own / "routes.json"),
            "GATEWAY_PUBLIC_URL": "http://app.test",
            "GATEWAY_STATE_URL": state_url,
            "GATEWAY_STATE_TIMEOUT_MS": "5000",
            "GATEWAY_REPLICA_ID": name,
            "GATEWAY_SHUTDOWN_TIMEOUT_MS": "300",
            **settings,
            **((only_b or {}) if name == "b" else {}),
        }
        child = children.start_python(
            "-m", "dataplane.cli", "run", name=f"gateway {name}", env={**inherited(), **environment}, cwd=ROOT
        )
        pair.append(GatewayProcess(child, port))
    for each in pair:
        each.child.wait_for_port(each.port, within_s=DEADLINE_S)
        try:
            eventually(lambda port=each.port: speak(port, READY).startswith(b"HTTP/1.1 200"), within_s=DEADLINE_S)
        except AssertionError:
            raise AssertionError(f"not ready:\n{each.child.output}") from None
    return pair
