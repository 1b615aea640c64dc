"""Values of one kind that are asked for together, read by one script."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from common.state.measured import Measured
from common.state.ports import StateUnavailable
from common.state.redis.asking import Asking
from common.state.redis.records import Foreign
from common.state.redis.scripts import READ_VALUES
from common.state.turn import Turn

K = TypeVar("K")
T = TypeVar("T")

MOST_READ = 128
"""Values read by one script: it runs for a fraction of a millisecond, and other clients wait for that."""


class Reads(Generic[K, T]):
    """Reads of one turn of the loop are one script, where all keys lie on one server.

    `key_of` gives the key of what is asked for. `parse` makes the result of that and the value, with the server's time;
    it raises `Foreign` for a value that is not ours, which counts as absent. `together` says that all keys share a hash
    tag.
    """

    def __init__(
        self,
        asking: Asking,
        operation: str,
        key_of: Callable[[K], bytes | str],
        parse: Callable[[K, bytes, int], T | None],
        *,
        together: bool,
    ) -> None:
        self._asking = asking
        self._operation = operation
        self._key_of = key_of
        self._parse = parse
        self._together = together
        self._turn: Turn[tuple[K, asyncio.Future[T | None]]] = Turn(
            lambda reads: asking.spawn(self._read(reads)), most=MOST_READ
        )

    def ask(self, wanted: K) -> asyncio.Future[T | None]:
        """What is stored, or None. It is on its way when this returns, awaited or not."""
        future: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()
        self._turn.add((wanted, future))
        return future

    async def _read(self, reads: list[tuple[K, asyncio.Future[T | None]]]) -> None:
        wanted = list(dict.fromkeys(each for each, _ in reads))
        try:
            with self._asking.measure(self._operation) as measured:
                if self._together or not self._asking.servers.spread:
                    found = await self._ask(wanted, measured)
                else:
                    # Each has a slot of its own; the commands of one turn leave together, to all servers at once.
                    parts = await asyncio.gather(*(self._ask([each], measured) for each in wanted))
                    found = {each: result for part in parts for each, result in part.items()}
        except Exception as error:  # noqa: BLE001 (every failure is one of the state, for each who asked)
            failure = error if isinstance(error, StateUnavailable) else StateUnavailable(f"no sense: {error!r}")
            for _, future in reads:
                if not future.done():
                    future.set_exception(failure)
                    future.exception()  # One that was asked for ahead may never be awaited.
            return
        for each, future in reads:
            if not future.done():
                future.set_result(found[each])

    async def _ask(self, wanted: Sequence[K], measured: Measured) -> dict[K, T | None]:
        now, *values = await self._asking.script(READ_VALUES, [self._key_of(each) for each in wanted])
        self._asking.clock.heard(now)
        return {each: self._result(each, value, now, measured) for each, value in zip(wanted, values, strict=True)}

    def _result(self, wanted: K, value: Any, now: int, measured: Measured) -> T | None:
        if isinstance(value, bytes):
            with contextlib.suppress(Foreign):
                return self._parse(wanted, value, now)
        if value is not None:
            measured.found_foreign()
        return None
