"""Scripts run as operations: measured, with every failure as `StateUnavailable` and foreign values counted."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from redis.exceptions import ClusterCrossSlotError, NoScriptError, ResponseError

from common.state.clock import ServerClock
from common.state.measured import Measured
from common.state.ports import StateUnavailable
from common.state.redis.keys import Keys
from common.state.redis.link import Reply, describe
from common.state.redis.scripts import Script
from common.state.redis.servers import Servers
from common.state.watch import StateWatch

Part = bytes | str | int


class KeysApart(StateUnavailable):
    """A cluster refuses a script because its keys lie on different servers; nothing was done."""


class Asking:
    """What the parts of the state on Redis share."""

    def __init__(self, servers: Servers, keys: Keys, clock: ServerClock, watch: StateWatch) -> None:
        self.servers = servers
        self.keys = keys
        self.clock = clock
        self.watch = watch
        self._tasks: set[asyncio.Task[None]] = set()

    async def script(self, script: Script, keys: Sequence[bytes | str], *args: Part) -> Reply:
        """Run a script on the server of its first key. Raises `StateUnavailable`."""
        first = keys[0]
        key = first if isinstance(first, bytes) else first.encode("utf-8", "surrogatepass")
        reply = await self.servers.ask(key, script.by_digest, script.digest, len(keys), *keys, *args)
        if isinstance(reply, NoScriptError):
            # It has not run, so this is no second time; and from now on the server knows it.
            reply = await self.servers.ask(key, script.by_text, script.text, len(keys), *keys, *args)
        answer = self.answer(reply)
        if not script.is_answer(answer):
            raise StateUnavailable("the server's answer makes no sense; is it a Redis, and the one that is meant?")
        return answer

    async def command(self, key: bytes, *command: Part) -> Reply:
        """Send one command to the server of `key`. Raises `StateUnavailable`."""
        return self.answer(await self.servers.ask(key, *command))

    async def text(self, key: bytes, measured: Measured) -> bytes | None:
        """The value of a key; None without one, and for one of another type, which counts as foreign."""
        value: bytes | None = await self.typed(key, measured, "GET", key)
        return value

    async def typed(self, key: bytes, measured: Measured, *command: Part) -> Reply:
        """The answer to a command that reads a key; None for a key of another type, which counts as foreign."""
        reply = await self.servers.ask(key, *command)
        if isinstance(reply, ResponseError) and str(reply).startswith("WRONGTYPE"):
            measured.found_foreign()
            return None
        return self.answer(reply)

    def answer(self, reply: Reply) -> Reply:
        """A reply that is no error of the server's; else `StateUnavailable`."""
        if isinstance(reply, ResponseError):
            self.servers.refused(reply)
            if isinstance(reply, ClusterCrossSlotError):
                raise KeysApart("the keys of this operation lie on different servers of the cluster")
            raise StateUnavailable(f"the server refuses: {describe(reply)}")
        return reply

    def measure(self, name: str) -> Measured:
        """Around an operation: its duration and result are told to the watch."""
        return Measured(self.watch, name)

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a batch; it must handle its own failures."""
        task = asyncio.get_running_loop().create_task(coroutine, name="state batch")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
