"""Runs the demo until it is told to end, in one event loop."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import uvloop

from dataplane.dev.stack import Demo, demo


def run(port: int | None, environment: Mapping[str, str], announce: Callable[[Demo], None]) -> None:
    """Start everything, call `announce`, and return once SIGINT or SIGTERM came and all has ended.

    Raises what `demo` raises, and the error of a part that died.
    """
    with (
        tempfile.TemporaryDirectory(prefix="wicketgate-dev-") as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(_until_told(port, Path(folder), environment, announce))


async def _until_told(
    port: int | None, folder: Path, environment: Mapping[str, str], announce: Callable[[Demo], None]
) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    async with demo(port, folder, environment) as running:
        announce(running)
        waiting = asyncio.ensure_future(ended.wait())
        await asyncio.wait((waiting, running.died), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if running.died.done():
            running.died.result()
