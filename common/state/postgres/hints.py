"""Hints from Postgres: a connection of its own, outside the pool, that listens on the channel of the schema."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg

from common.state.hints import Wake
from common.state.postgres.pool import DIAL_TIMEOUT_S

PING_S = 15.0
"""How often the server is asked whether it is still there: a connection that lost it may not notice otherwise."""


async def listen(dial: Callable[[], Awaitable[asyncpg.Connection]], channel: str, heard: Wake) -> None:
    """See `common.state.hints.Hints`."""
    async with asyncio.timeout(DIAL_TIMEOUT_S):
        connection = await dial()
    lost = asyncio.Event()
    connection.add_termination_listener(lambda _: lost.set())
    try:
        async with asyncio.timeout(DIAL_TIMEOUT_S):
            await connection.add_listener(channel, lambda *_: heard())
        heard()
        while not connection.is_closed():
            try:
                async with asyncio.timeout(PING_S):
                    await lost.wait()
            except TimeoutError:
                await connection.fetchval("SELECT 1", timeout=DIAL_TIMEOUT_S)
    finally:
        connection.terminate()
