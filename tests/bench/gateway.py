"""Wicketgate as `gateway run` serves it, and what stands around it: provider, Access service, a logged-in caller."""

from __future__ import annotations

import json
import re
import secrets
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx

from common.identity.signature import IdentitySigner, new_private_key_pem
from dataplane.dev.accounts import MEMBER
from dataplane.dev.table import access_policy
from tests.bench.machine import BenchError
from tests.bench.stage import PREFIX, Stage, Started
from tests.support.ports import free_port

CLIENT_ID = "gateway-bench"
AUDIENCE = "gateway-bench-api"
SECRET_VARIABLE = "BENCH_CLIENT_SECRET"

PATIENCE_S = 120.0
"""With a gateway whose core others have too."""

LIMITS = ("DEPLOYMENT", "CLIENT", "ROUTE", "PRINCIPAL")
NEVER_REACHED = "1000000000"

_MODES = {
    "bare": "none",
    "bare-h11": "none",
    "full": "session",
    "full-h11": "session",
    "new": "session",
    "limits": "session",
    "token": "jwt-only",
}


@dataclass
class Deployment:
    """The services that gateways of one run share, on the core of everything else. The gateways' ports are drawn first:
    the provider must know where they are called back."""

    stage: Stage
    program: tuple[str, ...] = ("dataplane.cli", "run")
    ports: dict[str, int] = field(default_factory=lambda: {kind: free_port() for kind in _MODES})
    signing_key: str = field(default_factory=new_private_key_pem, repr=False)
    _client_secret: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)
    metrics_token: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)
    _access_token: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)

    def __post_init__(self) -> None:
        self.provider, self.access = self._start_provider(), self._start_access()

    @property
    def public_key(self) -> str:
        """What an upstream verifies identities with."""
        return IdentitySigner(self.signing_key).public_key_pem

    def gateway(self, kind: str) -> Started:
        """A gateway of one kind, and the credential its requests carry."""
        port, origin = self.ports[kind], f"http://127.0.0.1:{self.ports[kind]}"
        folder = self.stage.folder / f"gateway-{kind}"
        folder.mkdir()
        (folder / "routes.json").write_text(json.dumps(self.table(kind)))
        # Not beside the table, whose folder is watched: each batch of lines would have the table read again.
        log = self.stage.folder / f"gateway-{kind}.log"
        child = self.stage.start(
            f"gateway ({kind})",
            [sys.executable, "-m", *self.program],
            self.stage.contender_core,
            port=port,
            env=self.environment(kind, folder, origin),
            output=log,
        )
        headers: tuple[str, ...] = ()
        if _MODES[kind] == "session":
            headers = (f"cookie: theme=dark; gateway_session={log_in(origin)}",)
        elif kind == "token":
            headers = (f"authorization: Bearer {self.bearer_token()}",)
        return Started(child, origin, headers, log)

    def cached_share(self, it: Started) -> float:
        """Which part of the decisions that a gateway needed so far came from its cache."""
        found = re.findall(r'^gateway_access_cache_total\{result="(\w+)"\} (\S+)$', self.metrics(it), re.MULTILINE)
        counts = dict(found)
        return float(counts["hit"]) / sum(map(float, counts.values()))

    def metrics(self, it: Started) -> str:
        """What a gateway says of itself; the connection that asks is one of those it counts."""
        shown = {"authorization": f"Bearer {self.metrics_token}"}
        answer = httpx.get(f"{it.origin}/metrics", headers=shown, trust_env=False, timeout=PATIENCE_S)
        return answer.raise_for_status().text

    def table(self, kind: str) -> dict[str, Any]:
        route: dict[str, Any] = {"id": "app", "upstream": self.stage.upstream.origin, "auth": {"mode": _MODES[kind]}}
        if _MODES[kind] == "none":
            return {"version": 2, "routes": [{**route, "match": {"path": "/"}}]}
        path = PREFIX.rpartition("/")[0] + "/{workspaceId}/"
        auth = {**route["auth"], "workspace": {"param": "workspaceId", "requireUuid": True}}
        return {"version": 2, "routes": [{**route, "match": {"path": path}, "auth": auth}]}

    def environment(self, kind: str, folder: Path, origin: str) -> dict[str, str]:
        limit = NEVER_REACHED if kind == "limits" else "0"
        environment = {
            "GATEWAY_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(self.ports[kind]),
            "GATEWAY_CONFIG": str(folder / "routes.json"),
            "GATEWAY_PUBLIC_URL": origin,
            "GATEWAY_OIDC_ISSUER": self.provider,
            "GATEWAY_OIDC_CLIENT_ID": CLIENT_ID,
            "GATEWAY_OIDC_CLIENT_SECRET": self._client_secret,
            "GATEWAY_OIDC_AUDIENCE": AUDIENCE,
            "GATEWAY_SESSION_SECRET": secrets.token_hex(32),
            "GATEWAY_IDENTITY_SIGNING_KEY": self.signing_key,
            "GATEWAY_METRICS_TOKEN": self.metrics_token,
            "GATEWAY_ACCESS_URL": self.access,
            "GATEWAY_ACCESS_TOKEN": self._access_token,
            "GATEWAY_HTTP_FAST_LANE": "off" if kind.endswith("-h11") else "on",
        }
        return environment | {f"GATEWAY_RATE_LIMIT_{scope}_MAX": limit for scope in LIMITS}

    def _start_provider(self) -> str:
        port = free_port()
        callbacks = [f"http://127.0.0.1:{each}/auth/callback" for each in self.ports.values()]
        self.stage.start(
            "provider",
            [sys.executable, "-m", "tests.bench.peers.provider", str(port), *callbacks],
            self.stage.other_core,
            port=port,
            env={SECRET_VARIABLE: self._client_secret},
        )
        return f"http://127.0.0.1:{port}"

    def _start_access(self) -> str:
        port = free_port()
        policy = self.stage.folder / "policy.json"
        policy.write_text(json.dumps(access_policy()))
        self.stage.start(
            "Access service",
            [sys.executable, "-c", "from dataplane.accessservice.cli import main; main()", policy],
            self.stage.other_core,
            port=port,
            env={"ACCESS_TOKEN": self._access_token, "ACCESS_HOST": "127.0.0.1", "ACCESS_PORT": str(port)},
        )
        return f"http://127.0.0.1:{port}"

    def bearer_token(self) -> str:
        answer = httpx.post(f"{self.provider}/dev/token", data={"account": MEMBER.name}, trust_env=False)
        return answer.raise_for_status().text.strip()


def log_in(origin: str) -> str:
    """The session cookie that a browser gets by going through the login at the development provider."""
    with httpx.Client(trust_env=False, follow_redirects=True, timeout=10) as browser:
        page = browser.get(f"{origin}/auth/login?redirect=/auth/session")
        hidden = re.search(r'name="interaction" value="([^"]+)"', page.text)
        if hidden is None:
            raise BenchError(f"the login led to no sign-in page: {page.status_code} {page.text[:500]}")
        form = {"interaction": hidden[1], "account": MEMBER.name}
        seen = browser.post(urljoin(str(page.url), "/sign-in"), data=form)
        session = browser.cookies.get("gateway_session")
        if seen.status_code != 200 or session is None:
            raise BenchError(f"the login gave no session: {seen.status_code} {seen.text[:500]}")
        return session
