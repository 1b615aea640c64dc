"""Blocking calls beside the loop, each with a budget that holds whatever the call does."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(call: Callable[[], T], *, timeout_s: float, name: str) -> T:
    """What `call` returns or raises; `TimeoutError` after `timeout_s`.

    A thread cannot be ended: one that is over its budget, or whose caller was cancelled, is left behind and its result
    dropped. It is a daemon, so it does not hold up the end of the process as a worker of a pool would.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if result.done():
            return
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(value)  # type: ignore[arg-type] # T may be None itself

    def run() -> None:
        value: T | None = None
        failure: BaseException | None = None
        try:
            value = call()
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller, whatever it is
            failure = error
        # The loop may have ended meanwhile.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, value, failure)

    threading.Thread(target=run, name=name, daemon=True).start()
    async with asyncio.timeout(timeout_s):
        return await result
