"""One connection to one Redis server, kept open in the background, shared by everything that asks this server."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import hiredis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError

from common.state.ports import StateMisconfigured, StateUnavailable

Command: TypeAlias = tuple[bytes | str | int, ...]
Reply: TypeAlias = Any
"""What a server answers: bytes, int, list, None, or a `ResponseError` as a value."""

MAX_WAITING = 10_000
"""Commands sent and not answered; one more fails at once. Far above what a server that answers leaves waiting."""
PROBE_S = 1.0
"""How often an open connection is asked whether it still answers, when nothing else asks."""
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0


class Link:
    """Commands go out in the order in which they are asked; those of one turn of the loop leave in one write.

    `dial` gives a connection that is ready for commands, or raises; `hear` is told `None` for a connection that is
    ready, and why when there is none any more.
    """

    def __init__(
        self,
        dial: Callable[[], Awaitable[AbstractConnection]],
        *,
        timeout_s: float,
        dial_timeout_s: float,
        hear: Callable[[Exception | None], None],
    ) -> None:
        self._dial = dial
        self._timeout_s = timeout_s
        self._dial_timeout_s = dial_timeout_s
        self._hear = hear
        self._connection: AbstractConnection | None = None
        self._outbox: list[Command] = []
        self._waiting: deque[tuple[asyncio.Future[Reply], float]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._broken = asyncio.Event()
        self._failure: Exception = StateUnavailable("not connected yet")
        self._tried = asyncio.Event()

    @property
    def ready(self) -> bool:
        return self._connection is not None

    async def start(self) -> None:
        """Begin to connect; returns when the first attempt has ended. Raises `StateMisconfigured` of that attempt."""
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep(), name="state connection")
        await self._tried.wait()
        if not self.ready and isinstance(self._failure, StateMisconfigured):
            raise self._failure

    async def close(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)

    def execute(self, *command: bytes | str | int) -> asyncio.Future[Reply]:
        """Send a command; its answer, with an error of the server as a value. Raises `StateUnavailable` when there is
        no connection; the future raises it when the answer does not come in time.
        """
        if self._connection is None:
            raise StateUnavailable(str(self._failure))
        if len(self._waiting) >= MAX_WAITING:
            raise StateUnavailable(f"{MAX_WAITING} commands wait for the server already")
        loop = asyncio.get_running_loop()
        if not self._outbox:
            loop.call_soon(self._flush)
        self._outbox.append(command)
        future: asyncio.Future[Reply] = loop.create_future()
        self._waiting.append((future, loop.time() + self._timeout_s))
        if self._timer is None:
            self._timer = loop.call_later(self._timeout_s, self._look_at_the_oldest)
        return future

    def drop(self, cause: Exception) -> None:
        """Give this connection up, and make another: what answers is not the server that is wanted."""
        self._break(cause)

    def _flush(self) -> None:
        connection, outbox = self._connection, self._outbox
        if connection is None or not outbox:
            return
        self._outbox = []
        packed = b"".join(map(hiredis.pack_command, outbox))  # type: ignore[arg-type]
        writer = connection._writer  # The library's own send awaits a drain for each command.
        if writer is None or writer.transport.is_closing():
            self._break(ConnectionError("the connection was closed"))
        else:
            writer.write(packed)

    def _look_at_the_oldest(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        loop = asyncio.get_running_loop()
        deadline = self._waiting[0][1]
        if deadline > loop.time():
            self._timer = loop.call_at(deadline, self._look_at_the_oldest)
        else:
            self._break(TimeoutError(f"no answer within {round(self._timeout_s * 1000)} ms"))

    def _break(self, cause: Exception) -> None:
        if self._connection is None:
            return
        self._connection = None
        self._failure = cause
        self._outbox = []
        failed, self._waiting = self._waiting, deque()
        for future, _ in failed:
            if not future.done():
                future.set_exception(StateUnavailable(describe(cause)))
                future.exception()  # Whoever was cancelled, or asked ahead of need, does not fetch it.
        self._broken.set()

    async def _keep(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            connection = await self._connect()
            if connection is None:
                await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 (spreads replicas, hides nothing)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                continue
            pause_s = _FIRST_PAUSE_S
            try:
                await self._serve(connection)
            finally:
                self._break(ConnectionError("closed"))
                with contextlib.suppress(Exception):
                    await connection.disconnect(nowait=True)
            self._hear(self._failure)

    async def _connect(self) -> AbstractConnection | None:
        try:
            async with asyncio.timeout(self._dial_timeout_s):
                connection = await self._dial()
        except Exception as error:  # noqa: BLE001 (whatever it is, the state is away and is tried again)
            self._failure = as_failure(error)
            self._hear(self._failure)
            connection = None
        else:
            self._connection = connection
            self._broken.clear()
            self._hear(None)
        self._tried.set()
        return connection

    async def _serve(self, connection: AbstractConnection) -> None:
        """Hand out answers until the connection breaks."""
        reader = asyncio.create_task(self._read(connection), name="state answers")
        broken = asyncio.create_task(self._broken.wait(), name="state connection broke")
        try:
            while not reader.done() and not broken.done():
                await asyncio.wait((reader, broken), timeout=PROBE_S, return_when=asyncio.FIRST_COMPLETED)
                if not self._waiting and self.ready:
                    with contextlib.suppress(StateUnavailable):
                        self.execute("PING")
        finally:
            for task in (reader, broken):
                task.cancel()
            await asyncio.gather(reader, broken, return_exceptions=True)

    async def _read(self, connection: AbstractConnection) -> None:
        try:
            while True:
                try:
                    reply = await connection.read_response(disable_decoding=True, timeout=None)
                except ResponseError as error:
                    reply = error
                future = self._waiting.popleft()[0]
                if not future.done():
                    future.set_result(reply)
        except IndexError:
            self._break(RedisError("the server answered what nobody asked"))
        except Exception as error:  # noqa: BLE001 (whatever it is, this connection is of no more use)
            self._break(error)


def describe(error: BaseException) -> str:
    """The cause of a failure without what was sent: an error of the server's repeats the command at most."""
    text = str(error)
    return text[:200] if text else type(error).__name__


def as_failure(error: Exception) -> Exception:
    """A failure to connect as the caller gets it: what waiting does not mend is `StateMisconfigured`."""
    if isinstance(error, StateUnavailable):
        return error
    text = str(error)
    if isinstance(error, NoPermissionError) or "NOPERM" in text:
        return StateMisconfigured(
            "Redis does not allow this user what the program needs; load deploy/redis/gateway.acl, and use its user "
            "in the URL of the state"
        )
    if isinstance(error, AuthenticationError) or text.startswith(("WRONGPASS", "NOAUTH")):
        return StateMisconfigured(
            "Redis refuses the user or password; correct them in the URL of the state (redis://user:password@host)"
        )
    return StateUnavailable(describe(error))
