"""Gateways as processes over one store: they order once, seal what they store, and end in order (§11.5)."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import ssl
from base64 import b64decode
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from common.settings.secret import Secret
from common.state.open import open_state
from dataplane.tls.acme.sealing import Sealer
from dataplane.tls.acme.vault import Vault
from tests.support.acme_front import Told, front
from tests.support.gateway import DEADLINE_S, route, table
from tests.support.pebble import Pebble, start_pebble
from tests.support.ports import free_port
from tests.support.postgres import Postgres, open_folder, start_postgres
from tests.support.processes import Child, Children
from tests.support.redis import Redis, start_redis

pytestmark = [pytest.mark.real, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
NAME = "app.example.com"


@dataclass
class Place:
    """A store, an authority, and the environment of gateways that use both."""

    server: Redis | Postgres
    folder: Path
    url: str
    pebble: Pebble
    port: int
    children: Children
    secret: str = field(default_factory=lambda: secrets.token_hex(32))

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
        return {
            **kept,
            "COLUMNS": "200",
            "GATEWAY_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(self.port),
            "GATEWAY_TLS_PORT": "0",
            "GATEWAY_CONFIG": str(self.folder / "routes.json"),
            "GATEWAY_STATE_URL": self.url,
            "GATEWAY_LOG_LEVEL": "debug",
            "GATEWAY_SHUTDOWN_TIMEOUT_MS": "1000",
            "GATEWAY_ACME_DIRECTORY": self.pebble.directory,
            "GATEWAY_ACME_NAMES": NAME,
            "GATEWAY_ACME_CA": str(self.pebble.ca),
            "GATEWAY_TLS_STORE_SECRET": self.secret,
            **more,
        }

    def gateway(self, **more: str) -> Child:
        return self.children.start_python("-m", "dataplane.cli", "run", env=self.environment(**more), cwd=ROOT)

    def certificates(self, *arguments: str, **more: str) -> Child:
        child = self.children.start_python(
            "-m", "dataplane.cli", "certificates", *arguments, env=self.environment(**more), cwd=ROOT
        )
        child.wait(within_s=60)
        return child

    async def keys(self, directory: str = "") -> list[bytes]:
        """The private keys that the store holds sealed, PEM."""
        state = open_state(self.url)
        await state.start()
        try:
            vault = Vault(
                state, Sealer(Secret(self.secret)), directory=directory or self.pebble.directory, names=[NAME]
            )
            account, _ = await vault.read_account()
            issued = (await vault.read()).issued
        finally:
            await state.close()
        assert account is not None
        assert issued is not None
        return [account.key_pem, issued.key_pem]

    async def content(self) -> bytes:
        """Every byte that the store's server keeps: its files after it wrote all of them."""
        if isinstance(self.server, Redis):
            assert self.server.cli("SAVE") == "OK"
        else:
            await self.server.run("CHECKPOINT")
        files = [path for path in self.server.folder.rglob("*") if path.is_file()]
        return b"".join(path.read_bytes() for path in files)


@pytest.fixture(params=["redis", "postgres"])
async def place(request: pytest.FixtureRequest, children: Children, tmp_path: Path) -> AsyncIterator[Place]:
    (tmp_path / "routes.json").write_text(json.dumps(table(route("http://127.0.0.1:1"))))
    with open_folder() as folder, Children() as servers:
        server: Redis | Postgres
        if request.param == "redis":
            server = start_redis(servers, folder / "redis", "--rdbcompression", "no")
            url = server.url
        else:
            server = start_postgres(servers, folder / "postgres")
            await server.migrate()
            url = server.data_url
        port = free_port()
        pebble = start_pebble(servers, tmp_path / "pebble", port, certificateValidityPeriod=90 * 86_400)
        yield Place(server, tmp_path, url, pebble, port, children)
        children.stop_all()


def tls_port(gateway: Child) -> int:
    return int(gateway.wait_for_line(r'"msg":"listening for TLS".*"port":(\d+)', within_s=60)[1])


def shown(port: int, root: str) -> str:
    """The serial of the certificate that a caller who trusts the root is shown."""
    context = ssl.create_default_context(cadata=root)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=15) as plain,
        context.wrap_socket(plain, server_hostname=NAME) as secured,
    ):
        certificate: Any = secured.getpeercert()
        return str(certificate["serialNumber"])


async def test_two_gateways_that_start_together_order_once_and_serve_the_same(place: Place) -> None:
    async with front(place.pebble, place.folder / "front") as before:
        both_listen = asyncio.Event()

        async def hold(method: str, path: str) -> Told | None:
            await both_listen.wait()
            return None

        before.rule = hold
        environment = {"GATEWAY_ACME_DIRECTORY": before.directory, "GATEWAY_ACME_CA": str(before.ca)}
        first, second = place.gateway(**environment), place.gateway(**environment, GATEWAY_PORT="0")
        for gateway in (first, second):
            await asyncio.to_thread(tls_port, gateway)
        both_listen.set()
        for gateway in (first, second):
            await asyncio.to_thread(gateway.wait_for_line, '"msg":"certificate served"', within_s=60)

    root = await place.pebble.root()
    assert shown(tls_port(first), root) == shown(tls_port(second), root)
    assert place.pebble.orders == 1
    for gateway in (first, second):
        gateway.send(signal.SIGTERM)
        assert gateway.wait() == 0

    # A gateway that starts later serves at once, also while the authority is away.
    third = place.gateway(**environment)
    third.wait_for_line('"msg":"certificate served"', within_s=60)
    assert shown(tls_port(third), root)


async def test_no_private_key_is_in_clear_in_the_store_or_in_a_log(place: Place) -> None:
    gateway = place.gateway()
    gateway.wait_for_line('"msg":"certificate served"', within_s=60)

    content = await place.content()

    for pem in await place.keys():
        lines = pem.splitlines()[1:-1]
        key = load_pem_private_key(pem, None)
        assert isinstance(key, EllipticCurvePrivateKey)
        number = key.private_numbers().private_value.to_bytes(32, "big")
        for mark in (*lines, b64decode(b"".join(lines)), number, number.hex().encode()):
            assert mark not in content
            assert mark.decode("latin-1") not in gateway.output
    assert b"acme.certificate." in content, "the store was read where the values are"
    assert place.secret.encode() not in content
    assert place.secret not in gateway.output


async def test_an_operator_sees_the_certificate_and_has_it_renewed(place: Place) -> None:
    before = place.certificates()
    assert before.returncode == 0
    assert "certificate none yet" in before.output
    gateway = place.gateway()
    gateway.wait_for_line('"msg":"certificate served"', within_s=60)
    root = await place.pebble.root()
    old = shown(tls_port(gateway), root)

    told = json.loads(place.certificates("--json").output)
    assert told["names"] == [NAME]
    assert int(told["certificate"]["serial"], 16) == int(old, 16)
    assert told["lastFailure"] is None
    renewed = place.certificates("--renew")
    assert renewed.returncode == 0, renewed.output
    assert "asked for" in renewed.output
    gateway.send(signal.SIGHUP)
    gateway.wait_for_line(r'"why":"an operator asked for it"', within_s=60)

    async with asyncio.timeout(60):
        while shown(tls_port(gateway), root) == old:
            await asyncio.sleep(0.1)
    assert place.pebble.orders == 2


async def test_an_operator_hears_why_nothing_can_be_asked(place: Place) -> None:
    for environment, says in (
        ({"GATEWAY_ACME_DIRECTORY": "", "GATEWAY_ACME_NAMES": "", "GATEWAY_ACME_CA": "", "GATEWAY_TLS_PORT": "",
          "GATEWAY_TLS_STORE_SECRET": ""}, "there is no certificate from an authority"),
        ({"GATEWAY_STATE_URL": "memory://local"}, "lives inside the gateway's own process"),
        ({"GATEWAY_STATE_URL": "redis://127.0.0.1:1/0"}, "Is the server of GATEWAY_STATE_URL there?"),
        ({"GATEWAY_ACME_NAMES": "*.example.com"}, "needs GATEWAY_ACME_CHALLENGE=dns-01"),
    ):  # fmt: skip
        told = place.certificates("--renew", **environment)
        assert told.returncode == 1
        assert says in told.output
        assert "Traceback" not in told.output


async def test_a_gateway_that_ends_in_the_middle_leaves_nothing_behind(place: Place) -> None:
    async with front(place.pebble, place.folder / "front") as before:
        came = asyncio.Event()

        async def hold(method: str, path: str) -> Told | None:
            if path.startswith("/chalZ/"):
                came.set()
                await asyncio.Event().wait()
            return None

        before.rule = hold
        environment = {"GATEWAY_ACME_DIRECTORY": before.directory, "GATEWAY_ACME_CA": str(before.ca)}
        gateway = place.gateway(**environment)
        await asyncio.wait_for(came.wait(), 60)
        state = open_state(place.url)
        await state.start()
        try:
            assert await state.take_lease("certificates", "the test", 1) is None

            gateway.send(signal.SIGTERM)
            code = await asyncio.to_thread(gateway.wait, within_s=DEADLINE_S)

            assert code == 0, gateway.output
            assert await state.take_lease("certificates", "the test", 1) is not None
            assert "a challenge was not withdrawn" not in gateway.output
        finally:
            await state.close()


async def test_several_workers_share_one_port_of_tls_and_one_certificate(place: Place) -> None:
    gateway = place.gateway(GATEWAY_WORKERS="2", GATEWAY_LOG_LEVEL="info")

    async with asyncio.timeout(90):
        while gateway.output.count('"msg":"certificate served"') < 2:
            assert gateway.returncode is None, gateway.output
            await asyncio.sleep(0.1)

    ports = {json.loads(line)["port"] for line in gateway.lines if '"msg":"listening for TLS"' in line}
    assert len(ports) == 1
    root = await place.pebble.root()
    assert len({shown(port, root) for port in ports for _ in range(8)}) == 1
