"""Gateway, control plane, provider, Access and sample upstream, put together on loopback for one block."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path

import orjson

from common.identity.signature import IdentitySigner, new_private_key_pem
from common.settings.gateway import GatewaySettings
from common.settings.secret import Secret
from common.telemetry.log import Log
from dataplane.accessservice.app import access_app
from dataplane.accessservice.policy import read_policy
from dataplane.dev.authorization import Client
from dataplane.dev.provider import DevelopmentProvider
from dataplane.dev.servers import loopback_socket, origin_of, serving
from dataplane.dev.table import access_policy, route_table
from dataplane.dev.upstream import SampleUpstream
from dataplane.gateway import Gateway

USUAL_PORT = 8080
CLIENT_ID = "gateway-dev"
AUDIENCE = "gateway-dev-api"


class NotForProduction(Exception):
    """`GATEWAY_ENV` is set to something other than development."""


class PortTaken(Exception):
    """The port that was asked for is in use."""


@dataclass(frozen=True, slots=True)
class Demo:
    """Where everything is while it runs. Origins have no slash at the end."""

    gateway: str
    provider: str
    upstream: str
    access: str
    table: Path
    log: Path
    metrics_token: Secret
    control: str
    control_tokens: Mapping[str, Secret]
    """One for each scope of the control plane."""
    died: asyncio.Future[None]
    """Done when a part ended by itself; holds its error where it had one."""


def refuse_in_production(environment: Mapping[str, str]) -> None:
    """Raise `NotForProduction` unless `GATEWAY_ENV` is absent or says development.

    The development provider lets anyone in who can reach it, so a misspelt `production` is refused as well.
    """
    if environment.get("GATEWAY_ENV", "development") not in ("", "development"):
        raise NotForProduction


@contextlib.asynccontextmanager
async def demo(port: int | None, folder: Path, environment: Mapping[str, str]) -> AsyncIterator[Demo]:
    """Everything running, until the block is left.

    `port` is the gateway's; None takes 8080 or, where that is in use, any other. `folder` is an empty one of the
    caller's that takes the route table and the log. Raises `NotForProduction` and `PortTaken` before anything starts.
    """
    refuse_in_production(environment)
    gateway_port = choose_port(port)
    async with contextlib.AsyncExitStack() as running:
        sockets = [running.enter_context(contextlib.closing(loopback_socket())) for _ in range(3)]
        provider_origin, upstream_origin, access_origin = (origin_of(sock) for sock in sockets)
        made = _Secrets()
        settings = _settings(gateway_port, provider_origin, access_origin, folder, made)
        settings.config.write_bytes(orjson.dumps(route_table(upstream_origin), option=orjson.OPT_INDENT_2))
        upstream = SampleUpstream(IdentitySigner(made.signing_key.reveal()).public_key_pem, provider_origin)
        apps = (
            DevelopmentProvider(provider_origin, _client(settings.public_url, made.client), AUDIENCE).app,
            upstream.app,
            access_app(read_policy(orjson.dumps(access_policy())), made.access),
        )
        served = [
            await running.enter_async_context(serving(app, sock)) for app, sock in zip(apps, sockets, strict=True)
        ]
        log_path = folder / "gateway.log"
        log_file = running.enter_context(log_path.open("ab", buffering=0))
        log = Log(log_file.write)
        gateway = Gateway(settings, log)
        control_socket = running.enter_context(contextlib.closing(loopback_socket()))
        (found,) = entry_points(group="wicketgate.dev", name="control-plane")
        control = await running.enter_async_context(found.load()(gateway.state, settings, made.control, log))
        served.append(await running.enter_async_context(serving(control, control_socket)))
        try:
            await gateway.start()
        except OSError as error:
            raise PortTaken from error
        running.push_async_callback(gateway.stop)
        # Called before the gateway stops: a stream that is read would hold its drain up to the last moment.
        running.callback(upstream.close_streams)
        yield Demo(
            gateway=settings.public_url,
            provider=provider_origin,
            upstream=upstream_origin,
            access=access_origin,
            table=settings.config,
            log=log_path,
            metrics_token=made.metrics,
            control=origin_of(control_socket),
            control_tokens=made.control,
            died=_first_death(served),
        )


def choose_port(wanted: int | None) -> int:
    """`wanted` if it is free; for None the usual port or any free one. Raises `PortTaken`."""
    if wanted is not None:
        if not _is_free(wanted):
            raise PortTaken
        return wanted
    if _is_free(USUAL_PORT):
        return USUAL_PORT
    with contextlib.closing(loopback_socket()) as sock:
        port: int = sock.getsockname()[1]
        return port


def _is_free(port: int) -> bool:
    """Whether nothing listens on the port under any name of this machine's loopback.

    `localhost` may lead to `::1` first: a stranger there would be asked in the gateway's place.
    """
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.settimeout(1.0)
            if probe.connect_ex((address, port)) == 0:
                return False
    return True


def _random_secret() -> Secret:
    return Secret(secrets.token_urlsafe(32))


@dataclass(frozen=True, slots=True)
class _Secrets:
    """Made on the spot for one run, known to nobody else."""

    client: Secret = field(default_factory=_random_secret)
    session: Secret = field(default_factory=_random_secret)
    access: Secret = field(default_factory=_random_secret)
    metrics: Secret = field(default_factory=_random_secret)
    control: Mapping[str, Secret] = field(
        default_factory=lambda: {scope: _random_secret() for scope in ("read", "operate", "config")}
    )
    signing_key: Secret = field(default_factory=lambda: Secret(new_private_key_pem()))


def _settings(port: int, provider: str, access: str, folder: Path, made: _Secrets) -> GatewaySettings:
    """The gateway is `localhost` and the provider `127.0.0.1`: cookies do not tell ports apart, and under one name the
    provider would be sent the gateway's.
    """
    return GatewaySettings(
        host="127.0.0.1",
        port=port,
        public_url=f"http://localhost:{port}",
        config=folder / "routes.json",
        config_source="store",  # the file, until something is published
        metrics_token=made.metrics,
        shutdown_timeout_s=3.0,
        oidc_issuer=provider,
        oidc_client_id=CLIENT_ID,
        oidc_client_secret=made.client,
        oidc_audience=AUDIENCE,
        session_secret=made.session,
        access_url=access,
        access_token=made.access,
        identity_signing_key=made.signing_key,
        # Here everyone comes from one address, and a test run signs in more often than a person.
        rate_limit_login_max=600,
    )


def _client(gateway: str, secret: Secret) -> Client:
    return Client(CLIENT_ID, secret, (f"{gateway}/auth/callback",), (gateway, f"{gateway}/"))


def _first_death(tasks: list[asyncio.Task[None]]) -> asyncio.Future[None]:
    died: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def tell(task: asyncio.Task[None]) -> None:
        if died.done():
            return
        error = None if task.cancelled() else task.exception()
        if error is None:
            died.set_result(None)
        else:
            died.set_exception(error)

    for task in tasks:
        task.add_done_callback(tell)
    return died
