"""Connections to one Postgres server, and the jobs that they work through."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import asyncpg

from common.state.ports import StateMisconfigured, StateUnavailable
from common.state.postgres.failures import as_failure, is_leaving
from common.state.watch import StateWatch

Job: TypeAlias = Callable[[asyncpg.Connection], Awaitable[Any]]

MAX_WAITING = 10_000
"""Jobs, or items of a lane, that wait for a connection; one more fails at once."""
LATE = "no answer in time: the server is slow, or GATEWAY_POSTGRES_POOL_MAX is too low for what waits"
DIAL_TIMEOUT_S = 3.0
"""For a whole connection: name, TCP, TLS, login, check. Nothing waits for it but the start."""
PROBE_S = 1.0
"""How often a server that nobody asks is asked whether it still answers."""
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0


class Pool:
    """At most `most` connections, opened as they are needed and kept.

    `dial` gives one that is ready for jobs. The pool is up from a connection's readiness until one fails; meanwhile no
    job is taken, and one connection is tried in the background.
    """

    def __init__(
        self,
        dial: Callable[[], Awaitable[asyncpg.Connection]],
        *,
        most: int,
        timeout_s: float,
        watch: StateWatch,
    ) -> None:
        self._dial = dial
        self._most = most
        self._timeout_s = timeout_s
        self._watch = watch
        self._idle: list[asyncpg.Connection] = []
        self._open = 0
        self._waiting: deque[tuple[Job, asyncio.Future[Any]]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._keeper: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()
        self._tried = asyncio.Event()
        self._failure: Exception = StateUnavailable("not connected yet")
        self._generation = 0
        self.up = False

    async def start(self) -> None:
        """See `State.start`."""
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep(), name="state connections")
        await self._tried.wait()
        if not self.up and isinstance(self._failure, StateMisconfigured):
            raise self._failure

    async def close(self) -> None:
        """Give every connection up; what still waits fails."""
        if self._keeper is not None:
            self._keeper.cancel()
        self._fail(StateUnavailable("closed"))
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, *(() if self._keeper is None else (self._keeper,)), return_exceptions=True)

    def submit(self, job: Job) -> asyncio.Future[Any]:
        """Run a job on a connection; its result. Raises `StateUnavailable` when there is none to be had, and the
        future does when job and waiting take longer than the time of an operation.
        """
        self.refuse_while_down(len(self._waiting))
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        late = loop.call_later(self._timeout_s, _fail_one, future, StateUnavailable(LATE))
        future.add_done_callback(lambda _: late.cancel())
        self._waiting.append((job, future))
        self._hire()
        return future

    def refuse_while_down(self, waiting: int) -> None:
        """`StateUnavailable` while there is no connection, or when too many wait already."""
        if not self.up:
            raise StateUnavailable(str(self._failure))
        if waiting >= MAX_WAITING:
            raise StateUnavailable(f"{MAX_WAITING} operations wait for a connection already")

    def _hire(self) -> None:
        """Let another connection work, if there is work and one to be had."""
        if not self._waiting:
            return
        if self._idle:
            self._spawn(self._work(self._idle.pop()))
        elif self._open < self._most:
            self._open += 1
            self._spawn(self._work(None))

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work, name="state connection")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, connection: asyncpg.Connection | None) -> None:
        """Work until nothing waits. The connection goes back only when its last job ended as jobs do."""
        generation = self._generation
        kept = False
        try:
            if connection is None:
                connection = await self._connect()
            while self._waiting and generation == self._generation:
                job, future = self._waiting.popleft()
                # One that is done was too late, or its caller has left.
                if not future.done() and not await self._run(connection, job, future):
                    return
            kept = generation == self._generation
        except Exception as error:  # noqa: BLE001 (one that could not be opened: those that wait are told)
            self._fail(as_failure(error))
        finally:
            if kept and connection is not None:
                self._idle.append(connection)
                self._hire()
            else:
                self._open -= generation == self._generation
                if connection is not None:
                    connection.terminate()

    async def _run(self, connection: asyncpg.Connection, job: Job, future: asyncio.Future[Any]) -> bool:
        """Whether the connection is still good for another job."""
        try:
            # Longer than the server gives a statement: one that is there says so itself, and keeps its connection.
            async with asyncio.timeout(self._timeout_s * 1.25):
                result = await job(connection)
        except (asyncpg.QueryCanceledError, asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
            _fail_one(future, StateUnavailable(f"the server gave the operation up: {error}"))
            return True
        except (asyncpg.DataError, UnicodeEncodeError) as error:
            _fail_one(future, ValueError(f"the state cannot hold this value: {type(error).__name__}"))
            return True
        except asyncio.CancelledError:
            _fail_one(future, StateUnavailable("closed"))
            raise
        except Exception as error:  # noqa: BLE001 (whatever it is, it is the state's)
            failure = as_failure(error)
            _fail_one(future, failure)
            if isinstance(error, asyncpg.PostgresError) and not connection.is_closed() and not is_leaving(error):
                return True
            self._fail(failure)
            return False
        if not future.done():
            future.set_result(result)
        return True

    async def _connect(self) -> asyncpg.Connection:
        async with asyncio.timeout(DIAL_TIMEOUT_S):
            return await self._dial()

    def _fail(self, failure: Exception) -> None:
        """The server does not answer: give up every connection, tell everybody who waits, and try anew."""
        self._failure = failure
        self._generation += 1
        self._open = 0
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.terminate()
        waiting, self._waiting = self._waiting, deque()
        for _, future in waiting:
            _fail_one(future, StateUnavailable(str(failure)))
        was_up, self.up = self.up, False
        if was_up:
            self._watch.went_down(str(failure))
        self._lost.set()

    async def _keep(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                connection = await self._connect()
            except Exception as error:  # noqa: BLE001 (whatever it is, the state is away and is tried again)
                self._failure = as_failure(error)
                self._watch.went_down(str(self._failure))
                self._tried.set()
                await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 (spreads replicas, hides nothing)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                continue
            pause_s = _FIRST_PAUSE_S
            self._lost.clear()
            self._open += 1
            self._idle.append(connection)
            self.up = True
            self._watch.came_back()
            self._tried.set()
            await self._probe_until_lost()

    async def _probe_until_lost(self) -> None:
        while self.up:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PROBE_S):
                    await self._lost.wait()
            if self.up and len(self._idle) == self._open:
                with contextlib.suppress(StateUnavailable):
                    await self.submit(lambda connection: connection.fetchval("SELECT 1"))


def _fail_one(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # Whoever was cancelled does not fetch it.
