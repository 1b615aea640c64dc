"""The gateway of a soak: every guard on, short timeouts, upstreams that misbehave, and what changes meanwhile."""

from __future__ import annotations

import json
import random
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import httpx

from tests.bench.gateway import NEVER_REACHED, PATIENCE_S, Deployment, log_in
from tests.bench.machine import BenchError
from tests.bench.stage import Stage, Started
from tests.support.certificates import issue
from tests.support.ports import free_port

KIND = "full"
ROUTES = (3, 40, 400)
TOKEN_EVERY = 40
"""Changes of sessions between two new bearer tokens."""


class _Deployment(Deployment):
    odd: str
    echo: str
    more: dict[str, str]

    def table(self, kind: str) -> dict[str, Any]:
        table = super().table(kind)
        (app,) = table["routes"]
        app["auth"]["mode"] = "any"
        table["routes"] += [
            _route("odd", "/odd/", self.odd, maxBodyBytes=300_000, timeouts={"responseMs": 2_000, "uploadMs": 2_000}),
            _route("ws", "/ws/", self.echo, websocket=True),
        ]
        return table

    def environment(self, kind: str, folder: Path, origin: str) -> dict[str, str]:
        return super().environment(kind, folder, origin) | self.more


def _route(name: str, path: str, upstream: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "match": {"path": path}, "upstream": upstream, "auth": {"mode": "any"}, **more}


class Setting:
    """Everything around the gateway, and what is told of it."""

    def __init__(self, on: Stage, *, trace: bool) -> None:
        self.stage = on
        self.sessions: list[str] = []
        self.tokens: list[str] = []
        self._watch = on.folder / "watch"
        self._tls_port = free_port()
        self._changes = 0
        program = ("tests.bench.soak.watched", str(self._watch))
        self.deployment = _Deployment(on, program)
        self.deployment.odd = self._peer("tests.bench.soak.upstream")
        self.deployment.echo = self._peer("tests.bench.peers.websocket_echo")
        chain, key = issue("localhost").write(on.folder)
        self.deployment.more = {
            "GATEWAY_TLS_CERT": str(chain),
            "GATEWAY_TLS_KEY": str(key),
            "GATEWAY_TLS_PORT": str(self._tls_port),
            "GATEWAY_TRUSTED_PROXIES": "127.0.0.1/32",
            "GATEWAY_SESSION_MAX_PER_SUBJECT": "40",
            "GATEWAY_HEAD_TIMEOUT_MS": "5000",
            "GATEWAY_KEEPALIVE_TIMEOUT_MS": "5000",
            "GATEWAY_UPSTREAM_POOL_IDLE_MS": "5000",
            "GATEWAY_WS_IDLE_TIMEOUT_MS": "5000",
            "GATEWAY_WS_REVALIDATE_INTERVAL_MS": "1000",
            "GATEWAY_RATE_LIMIT_DEPLOYMENT_MAX": NEVER_REACHED,
            "GATEWAY_RATE_LIMIT_CLIENT_MAX": "100000",
            "GATEWAY_RATE_LIMIT_ROUTE_MAX": "3000",
            "GATEWAY_RATE_LIMIT_PRINCIPAL_MAX": NEVER_REACHED,
            "GATEWAY_RATE_LIMIT_LOGIN_MAX": "0",
            **({"BENCH_TRACE": "1"} if trace else {}),
        }

    def start(self) -> Started:
        """The gateway, with its first caller logged in and everything it opens at the first use opened."""
        it = self.deployment.gateway(KIND)
        self.sessions.append(it.headers[0].rpartition("=")[2])
        self.tokens.append(self.deployment.bearer_token())
        return it

    def world(self, it: Started) -> dict[str, Any]:
        """What callers are told."""
        return {
            "port": int(it.origin.rpartition(":")[2]),
            "tls_port": self._tls_port,
            "origin": it.origin,
            "sessions": self.sessions[-10:],
            "tokens": self.tokens[-2:],
            "metrics_token": self.deployment.metrics_token,
        }

    def change_sessions(self, it: Started) -> None:
        """Somebody logs in, and somebody out, or is forgotten for others of the same subject."""
        self._changes += 1
        try:
            self.sessions.append(log_in(it.origin))
            if self._changes % 2:
                cookie = {"cookie": f"gateway_session={self.sessions.pop(-5)}", "origin": it.origin}
                httpx.post(f"{it.origin}/auth/logout", headers=cookie, trust_env=False, timeout=10)
            if self._changes % TOKEN_EVERY == 0:
                self.tokens.append(self.deployment.bearer_token())
                del self.tokens[:-2]
        except (BenchError, httpx.HTTPError, IndexError):
            return  # A busy gateway may refuse it: the next one comes in a moment.
        del self.sessions[:-12]

    def change_table(self, it: Started) -> None:
        """Another number of routes, now and then a table that is none; by the file's change, or a signal beside it."""
        table = self.deployment.table(KIND)
        count = random.choice(ROUTES)
        table["routes"] += [_route(f"r-{n}", f"/other-{n}/", self.deployment.odd) for n in range(count)]
        file = self.stage.folder / f"gateway-{KIND}" / "routes.json"
        text = json.dumps(table)
        if random.random() < 0.2:
            text = text[: random.randrange(len(text))]
        fresh = file.with_name("routes.new")
        fresh.write_text(text)
        fresh.replace(file)
        if random.random() < 0.5:
            it.child.send(signal.SIGHUP)

    def ask(self) -> dict[str, Any]:
        """What the gateway's process holds."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
            asked.settimeout(PATIENCE_S)
            asked.connect(str(self._watch))
            told = b"".join(iter(lambda: asked.recv(65_536), b""))
        held: dict[str, Any] = json.loads(told)
        return held

    def _peer(self, module: str) -> str:
        port = free_port()
        argv = [sys.executable, "-m", module, str(port)]
        self.stage.start(module.rpartition(".")[2], argv, self.stage.other_core, port=port)
        return f"http://127.0.0.1:{port}"
