"""Which Redis a URL names, and a connection to one of its servers."""

from __future__ import annotations

from asyncio import timeout
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AskError, ClusterDownError, ResponseError

from common.state.redis.scripts import READ_VALUES

Address: TypeAlias = tuple[str, int]

DEFAULT_PORT = 6_379
SENTINEL_PORT = 26_379
SENTINEL_TIMEOUT_S = 0.5
"""For the answer of one sentinel: the next one is asked instead."""


@dataclass(frozen=True, slots=True)
class RedisUrl:
    """The hosts of a URL, and how each is spoken to. The text of it never shows the password."""

    addresses: tuple[Address, ...]
    options: dict[str, Any]

    def __repr__(self) -> str:
        return f"RedisUrl({', '.join(f'{host}:{port}' for host, port in self.addresses)})"


def parse_redis_url(url: str, *, default_port: int = DEFAULT_PORT) -> RedisUrl:
    """`redis[s]://[user[:password]@]host[:port][,host[:port]…][/database][?option=…]`; `ValueError` for anything else.

    Options are those of redis-py for one server, such as `ssl_ca_certs=/etc/ssl/redis-ca.pem`.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("redis", "rediss"):
        raise ValueError("must begin with redis:// or rediss://")
    credentials, at, hosts = parts.netloc.rpartition("@")
    addresses = []
    options: dict[str, Any] = {}
    for entry in hosts.split(","):
        single = parts._replace(netloc=f"{credentials}{at}{entry}").geturl()
        try:
            found = parse_url(single)
        except (ValueError, TypeError):
            raise ValueError("is not a URL of a Redis server: redis://user:password@host:port/database") from None
        options = dict(found)
        host = options.pop("host", "")
        if not host:
            raise ValueError("has an empty host; write redis://user:password@host:port")
        addresses.append((str(host), int(options.pop("port", default_port))))
    options.pop("connection_class", None)
    return RedisUrl(tuple(addresses), {**options, "tls": parts.scheme == "rediss"})


async def open_connection(address: Address, options: dict[str, Any], *, probe: str = "") -> AbstractConnection:
    """A connection that is logged in; `probe` is a key on which a script is tried, so that a user without the rights
    is told at once. Time is the caller's business; what is not finished is closed.
    """
    kind = SSLConnection if options.get("tls") else Connection
    named = {name: value for name, value in options.items() if name != "tls"}
    connection = kind(
        host=address[0],
        port=address[1],
        socket_timeout=None,
        socket_connect_timeout=None,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
        driver_info=None,
        **named,
    )
    try:
        await connection.connect()  # type: ignore[no-untyped-call]
        if probe:
            try:
                await ask(connection, READ_VALUES.by_text, READ_VALUES.text, 1, probe)
            except ResponseError as error:
                # Of a cluster, another server may have this key, or none yet.
                if not isinstance(error, AskError | ClusterDownError):
                    raise
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    return connection


async def ask(connection: AbstractConnection, *command: Any) -> Any:
    """One command on a connection that nobody else uses."""
    await connection.send_command(*command, check_health=False)
    return await connection.read_response(disable_decoding=True)


async def master_address(sentinels: Sequence[Address], name: str, options: dict[str, Any]) -> Address:
    """The master of this name, as the first sentinel that answers has it. `ConnectionError` when none does."""
    # A sentinel has users and databases of its own, or none.
    plain = {key: value for key, value in options.items() if key not in ("username", "password", "db")}
    causes = []
    for address in sentinels:
        try:
            async with timeout(SENTINEL_TIMEOUT_S):
                connection = await open_connection(address, plain)
                try:
                    found = await ask(connection, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)
                finally:
                    await connection.disconnect(nowait=True)
        except Exception as error:  # noqa: BLE001 (the next one may answer)
            causes.append(f"{address[0]}:{address[1]} {type(error).__name__}")
            continue
        if found:
            return found[0].decode(), int(found[1])
        causes.append(f"{address[0]}:{address[1]} knows no master {name!r}")
    raise ConnectionError("no sentinel names a master: " + "; ".join(causes))
