"""A real ACME authority on loopback: pebble, which forgets all it did when it is restarted, and a DNS for its looks."""

from __future__ import annotations

import json
import secrets
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import trustme

from tests.support.counterparts import require_program
from tests.support.ports import free_port
from tests.support.processes import Child, Children

EAB_KID = "kid-of-the-tests"
EAB_HMAC = secrets.token_urlsafe(48)


@dataclass
class Zone:
    """A DNS server in which every name is this machine, and whose TXT records a test sets."""

    port: int
    management: str
    child: Child

    async def set_txt(self, host: str, value: str) -> None:
        """Add a value to a name's TXT record."""
        await self._post("set-txt", {"host": f"{host}.", "value": value})

    async def clear_txt(self, host: str) -> None:
        """Take all values of a name away."""
        await self._post("clear-txt", {"host": f"{host}."})

    async def _post(self, what: str, body: Mapping[str, str]) -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            (await client.post(f"{self.management}/{what}", json=body)).raise_for_status()


def start_zone(children: Children) -> Zone:
    port, management = free_port(), free_port()
    child = children.start(
        [
            require_program("pebble-challtestsrv"), "-dns01", f"127.0.0.1:{port}", "-defaultIPv6", "",
            "-http01", "", "-https01", "", "-tlsalpn01", "", "-management", f"127.0.0.1:{management}",
        ],
        name="challtestsrv",
    )  # fmt: skip
    child.wait_for_port(management)
    return Zone(port, f"http://127.0.0.1:{management}", child)


@dataclass
class Pebble:
    """A running authority. `ca` is the PEM file of whoever certified its own address."""

    children: Children
    folder: Path
    zone: Zone
    http_port: int
    """Where it looks for `http-01`, whatever the name."""
    port: int
    management_port: int
    options: Mapping[str, Any]
    env: Mapping[str, str]
    child: Child = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    @property
    def directory(self) -> str:
        return f"https://127.0.0.1:{self.port}/dir"

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    def start(self) -> None:
        """Start it, or start it again after `child` ended."""
        program = require_program("pebble")
        authority = trustme.CA()
        own = authority.issue_cert("127.0.0.1", "localhost")
        authority.cert_pem.write_to_path(str(self.ca))
        own.cert_chain_pems[0].write_to_path(str(self.folder / "cert.pem"))
        own.private_key_pem.write_to_path(str(self.folder / "key.pem"))
        configuration = {
            "listenAddress": f"127.0.0.1:{self.port}",
            "managementListenAddress": f"127.0.0.1:{self.management_port}",
            "certificate": str(self.folder / "cert.pem"),
            "privateKey": str(self.folder / "key.pem"),
            "httpPort": self.http_port,
            "tlsPort": 1,
            "ocspResponderURL": "",
            "externalAccountBindingRequired": False,
            **self.options,
        }
        (self.folder / "pebble.json").write_text(json.dumps({"pebble": configuration}))
        self.child = self.children.start(
            [program, "-config", str(self.folder / "pebble.json"), "-dnsserver", f"127.0.0.1:{self.zone.port}"],
            name="pebble",
            env={"PATH": "/usr/bin:/bin", "PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0",
                 "PEBBLE_AUTHZREUSE": "0", **self.env},
        )  # fmt: skip
        self.child.wait_for_port(self.port)
        self.child.wait_for_port(self.management_port)

    @property
    def orders(self) -> int:
        """How many orders it was asked for, since it was started."""
        return self.count("/order-plz")

    def count(self, path: str) -> int:
        """How many requests for a path it was sent, since it was started."""
        return sum(f"POST {path}" in line for line in self.child.lines)

    async def root(self) -> str:
        """The certificate, PEM, that issued certificates lead to."""
        return (await self._managed("roots/0")).text

    async def status(self, serial: str) -> dict[str, Any]:
        """What it knows of a certificate by its serial, hexadecimal."""
        told: dict[str, Any] = (await self._managed(f"cert-status-by-serial/{serial}")).json()
        return told

    async def _managed(self, path: str) -> httpx.Response:
        context = ssl.create_default_context(cafile=self.ca)
        async with httpx.AsyncClient(trust_env=False, verify=context) as client:
            answer = await client.get(f"https://127.0.0.1:{self.management_port}/{path}")
        answer.raise_for_status()
        return answer


def start_pebble(
    children: Children, folder: Path, http_port: int, *, env: Mapping[str, str] | None = None, **options: Any
) -> Pebble:
    """Start it. `options` are of its configuration, `env` of its environment (`PEBBLE_…`)."""
    folder.mkdir(parents=True, exist_ok=True)
    return Pebble(children, folder, start_zone(children), http_port, free_port(), free_port(), options, env or {})
