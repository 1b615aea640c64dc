"""The masters of a Redis cluster: a link to each, and which of them holds a slot."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Any

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import AskError, ClusterDownError, MovedError, ReadOnlyError, TryAgainError

from common.state.ports import StateMisconfigured, StateUnavailable
from common.state.redis.address import Address, RedisUrl, ask, open_connection
from common.state.redis.keys import SLOTS, slot_of
from common.state.redis.link import Link, Reply, as_failure
from common.state.redis.servers import DIAL_TIMEOUT_S
from common.state.watch import StateWatch

_LOOK_AGAIN_S = 0.25
"""How often the cluster is asked who holds what while a slot has no server that answers: a failover takes seconds."""
_LOOK_S = 30.0
"""And while all is well: a server that says MOVED tells of a change sooner."""


class Cluster:
    """Implements `Servers` for a cluster. It is up while every slot has a master that is connected."""

    spread = True

    def __init__(self, url: RedisUrl, *, probe: str, timeout_s: float, watch: StateWatch) -> None:
        self._url = url
        self._probe = probe
        self._timeout_s = timeout_s
        self._watch = watch
        self._links: dict[Address, Link] = {}
        self._slots: list[Address | None] = [None] * SLOTS
        self._look = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._told_up: bool | None = None
        self._failure: Exception = StateUnavailable("not connected yet")

    @property
    def up(self) -> bool:
        return bool(self._links) and None not in self._slots and all(link.ready for link in self._links.values())

    async def start(self) -> None:
        """See `State.start`."""
        if self._keeper is None:
            await self._refresh()
            self._keeper = asyncio.create_task(self._keep(), name="state cluster")
        if not self.up and isinstance(self._failure, StateMisconfigured):
            raise self._failure

    async def close(self) -> None:
        """See `Servers.close`."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        await asyncio.gather(*(link.close() for link in self._links.values()))

    async def ask(self, key: bytes, *command: bytes | str | int) -> Reply:
        """See `Servers.ask`. Follows one MOVED or ASK: the command has not run where it was refused."""
        slot = slot_of(key)
        reply = await self._link(self._slots[slot]).execute(*command)
        if not isinstance(reply, AskError):
            return reply
        address = self._named(reply)
        if isinstance(reply, MovedError):
            self._slots[slot] = address
            self._look.set()
            return await self._link(address).execute(*command)
        link = self._link(address)
        _, asked = await asyncio.gather(link.execute("ASKING"), link.execute(*command))
        return asked

    def masters(self) -> Sequence[Link]:
        """See `Servers.masters`."""
        if not self.up:
            raise StateUnavailable(f"not every master of the cluster is connected: {self._failure}")
        return tuple(self._links.values())

    def refused(self, error: Exception) -> None:
        """A server that holds the slot no longer, or not yet: who does is asked anew."""
        if isinstance(error, (ClusterDownError, ReadOnlyError, TryAgainError)):
            self._look.set()

    def _link(self, address: Address | None) -> Link:
        link = None if address is None else self._links.get(address)
        if link is None:
            self._look.set()
            raise StateUnavailable(f"no master of the cluster is known for this key: {self._failure}")
        return link

    async def dial(self) -> AbstractConnection:
        """See `Servers.dial`. To the first that takes one, those first that are known to be of the cluster now."""
        addresses = list(dict.fromkeys((*self._links, *self._url.addresses)))
        for address in addresses[:-1]:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(DIAL_TIMEOUT_S / len(addresses)):
                    return await open_connection(address, self._url.options)
        return await open_connection(addresses[-1], self._url.options)

    def _named(self, error: AskError) -> Address:
        host, port = error.node_addr
        return str(host) or self._url.addresses[0][0], int(port)

    async def _keep(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S if self.up else _LOOK_AGAIN_S):
                    await self._look.wait()
                    # Many commands meet one change.
                    await asyncio.sleep(_LOOK_AGAIN_S / 5)
            self._look.clear()
            await self._refresh()

    async def _refresh(self) -> None:
        """Learn who holds which slots, and link to whoever holds one."""
        told = None
        for address in dict.fromkeys((*self._links, *self._url.addresses)):
            try:
                async with asyncio.timeout(self._timeout_s):
                    told = masters_of(await self._ask_slots(address), address[0])
                break
            except Exception as error:  # noqa: BLE001 (the next one may answer)
                self._failure = as_failure(error)
        if told is None:
            self._tell()
            return
        slots: list[Address | None] = [None] * SLOTS
        for first, last, address in told:
            slots[first : last + 1] = [address] * (last - first + 1)
        wanted = {address for _, _, address in told}
        gone = [self._links.pop(address) for address in set(self._links) - wanted]
        fresh = [self._new_link(address) for address in wanted - set(self._links)]
        self._slots = slots
        await asyncio.gather(*(link.close() for link in gone))
        for failure in await asyncio.gather(*(link.start() for link in fresh), return_exceptions=True):
            if isinstance(failure, Exception):
                self._failure = failure
        self._tell()

    async def _ask_slots(self, address: Address) -> Any:
        link = self._links.get(address)
        if link is not None and link.ready:
            reply = await link.execute("CLUSTER", "SLOTS")
            if isinstance(reply, Exception):
                raise reply
            return reply
        connection = await open_connection(address, self._url.options)
        try:
            return await ask(connection, "CLUSTER", "SLOTS")
        finally:
            await connection.disconnect(nowait=True)

    def _new_link(self, address: Address) -> Link:
        link = self._links[address] = Link(
            partial(open_connection, address, self._url.options, probe=self._probe),
            timeout_s=self._timeout_s,
            dial_timeout_s=DIAL_TIMEOUT_S,
            hear=self._heard,
        )
        return link

    def _heard(self, failure: Exception | None) -> None:
        if failure is not None:
            self._failure = failure
            self._look.set()
        self._tell()

    def _tell(self) -> None:
        up = self.up
        if up != self._told_up:
            self._told_up = up
            if up:
                self._watch.came_back()
            else:
                self._watch.went_down(str(self._failure))


def masters_of(reply: Any, asked_host: str) -> list[tuple[int, int, Address]]:
    """First slot, last slot and master of each range in an answer to CLUSTER SLOTS.

    A server that does not know its own name gives none: it is the one that was asked.
    """
    return [
        (int(first), int(last), (master[0].decode() if master[0] else asked_host, int(master[1])))
        for first, last, master, *_ in reply
    ]
