"""A deployment that obtains its certificate: replicas over one state, and port 80 of its names."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import time as wall_s
from typing import Any

from common.settings.secret import Secret
from common.state.memory import MemoryState
from common.telemetry.log import Log
from dataplane.endpoints.challenges import challenge_reply
from dataplane.errors import GatewayError
from dataplane.tls.acme.attempt import Attempts, Wanted
from dataplane.tls.acme.authority import AuthoritySettings
from dataplane.tls.acme.challenges import SharedState, Showing
from dataplane.tls.acme.keeper import CertificateKeeper
from dataplane.tls.acme.plan import DAY_MS
from dataplane.tls.acme.records import Issued
from dataplane.tls.acme.sealing import Sealer
from dataplane.tls.acme.vault import Vault
from dataplane.tls.certificate import Certificate
from tests.support.auth_harness import Time

STORE_SECRET = Secret(secrets.token_hex(32))
NAMES = ("app.example.com", "www.example.com")
LEASE_MS = 2_000


@dataclass
class Replica:
    """One process of the deployment. Nothing runs by itself before `keeper.start`: a test lets it `round`."""

    keeper: CertificateKeeper
    vault: Vault
    served: list[Certificate] = field(default_factory=list)
    reports: list[str | None] = field(default_factory=list)
    lines: list[dict[str, Any]] = field(default_factory=list)

    def logged(self, msg: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["msg"].startswith(msg)]

    async def issued(self) -> Issued:
        found = (await self.vault.read()).issued
        assert found is not None
        return found


class Deployment:
    """Replicas over one state in memory, whose clock the test moves."""

    def __init__(self, time: Time | None = None) -> None:
        self.time = time or Time(float(int(wall_s())))
        self.state = MemoryState(self.time.now_ms)
        self.replicas: list[Replica] = []

    def replica(
        self,
        authority: AuthoritySettings,
        *,
        names: tuple[str, ...] = NAMES,
        secret: Secret = STORE_SECRET,
        showing: Showing | None = None,
        state: MemoryState | None = None,
        renew_before_days: int = 30,
    ) -> Replica:
        state = state or self.state
        vault = Vault(state, Sealer(secret), directory=authority.directory, names=names, account_of=authority.eab_kid)
        lines: list[dict[str, Any]] = []
        served: list[Certificate] = []
        reports: list[str | None] = []
        log = Log(lambda line: lines.append(json.loads(line)), level="debug")
        wanted = Wanted(names, authority, renew_before_days * DAY_MS)
        keeper = CertificateKeeper(
            wanted,
            state,
            vault,
            Attempts(wanted, state, vault, showing or SharedState(state), log, chance=lambda: 0.0),
            log,
            owner=f"replica-{len(self.replicas)}",
            install=served.append,
            report=reports.append,
            lease_ms=LEASE_MS,
        )
        self.replicas.append(Replica(keeper, vault, served, reports, lines))
        return self.replicas[-1]

    def pass_days(self, days: float) -> None:
        self.time.pass_s(days * 86_400)


@asynccontextmanager
async def port_80(state: MemoryState, port: int, answers: dict[str, bytes] | None = None) -> AsyncIterator[list[str]]:
    """Answer challenges on a port as the gateways do, or with `answers[""]` whatever is asked; the paths asked for."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ")[1].decode("ascii")
        asked.append(path)
        try:
            status, body = 200, (answers or {}).get("") or (await challenge_reply(state, path)).body
        except GatewayError as refused:
            status, body = refused.spec.status, b""
        writer.write(b"HTTP/1.1 %d X\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % (status, len(body)) + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", port):
        yield asked
