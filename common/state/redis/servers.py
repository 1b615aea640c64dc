"""Which server holds a key: one server, the master that Sentinel names, or the masters of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ReadOnlyError

from common.state.ports import StateUnavailable
from common.state.redis.address import RedisUrl, ask, master_address, open_connection
from common.state.redis.link import Link, Reply
from common.state.watch import StateWatch

DIAL_TIMEOUT_S = 2.0
"""For a whole connection: name, TCP, TLS, login. Longer than an operation's budget, since nothing waits for it."""


class Servers(Protocol):
    """Where commands go."""

    @property
    def spread(self) -> bool:
        """Whether keys of different hash tags may lie on different servers."""
        ...

    @property
    def up(self) -> bool: ...

    async def start(self) -> None:
        """See `State.start`."""
        ...

    async def close(self) -> None: ...

    async def ask(self, key: bytes, *command: bytes | str | int) -> Reply:
        """Send a command to the server of `key`; its answer, with an error of the server's as a value."""
        ...

    async def dial(self) -> AbstractConnection:
        """A connection of its own to one of the servers, for what no other command may come between."""
        ...

    def masters(self) -> Sequence[Link]:
        """Every server that holds keys. Raises `StateUnavailable` while one of them is not known or not connected."""
        ...

    def refused(self, error: Exception) -> None:
        """A server answered with an error: it may not be the one to ask any more."""
        ...


class OneServer:
    """A server by its address, or by the name under which Sentinel knows it."""

    spread = False

    def __init__(self, url: RedisUrl, *, sentinel_master: str, probe: str, timeout_s: float, watch: StateWatch) -> None:
        self._url = url
        self._sentinel_master = sentinel_master
        self._probe = probe
        self._watch = watch
        self._link = Link(self.dial, timeout_s=timeout_s, dial_timeout_s=DIAL_TIMEOUT_S, hear=self._heard)

    @property
    def up(self) -> bool:
        return self._link.ready

    async def start(self) -> None:
        await self._link.start()

    async def close(self) -> None:
        await self._link.close()

    async def ask(self, key: bytes, *command: bytes | str | int) -> Reply:  # noqa: ARG002
        """See `Servers.ask`."""
        return await self._link.execute(*command)

    def masters(self) -> Sequence[Link]:
        """See `Servers.masters`."""
        return (self._link,)

    def refused(self, error: Exception) -> None:
        """A master that became a replica: another one is, or will be, behind the name."""
        if isinstance(error, ReadOnlyError):
            self._link.drop(StateUnavailable("the server has become a replica"))

    async def dial(self) -> AbstractConnection:
        """See `Servers.dial`. To the master, where Sentinel names it."""
        if not self._sentinel_master:
            return await open_connection(self._url.addresses[0], self._url.options, probe=self._probe)
        address = await master_address(self._url.addresses, self._sentinel_master, self._url.options)
        connection = await open_connection(address, self._url.options, probe=self._probe)
        # Sentinels learn of a failover one after the other: the old master may still be named.
        role = await ask(connection, "ROLE")
        if role[0] != b"master":
            await connection.disconnect(nowait=True)
            raise StateUnavailable("the server that Sentinel names is not a master (yet)")
        return connection

    def _heard(self, failure: Exception | None) -> None:
        if failure is None:
            self._watch.came_back()
        else:
            self._watch.went_down(str(failure))
