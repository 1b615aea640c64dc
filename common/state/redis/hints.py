"""Hints from Redis: a connection of its own that is subscribed to the channel on which changes are published."""

from __future__ import annotations

import asyncio

from common.state.hints import Wake
from common.state.redis.servers import DIAL_TIMEOUT_S, Servers

PING_S = 15.0
"""After such a silence the server is asked whether it is still there; after a second one it is not."""


async def listen(servers: Servers, channel: str, heard: Wake) -> None:
    """See `common.state.hints.Hints`. In a cluster every server passes on what any of them publishes."""
    async with asyncio.timeout(DIAL_TIMEOUT_S):
        connection = await servers.dial()
    try:
        await connection.send_command("SUBSCRIBE", channel, check_health=False)
        asked = False
        while True:
            reply = await connection.read_response(disable_decoding=True, timeout=PING_S)
            if reply is None and asked:
                raise ConnectionError("the server is silent")
            if reply is None:
                await connection.send_command("PING", check_health=False)
            elif reply[0] in (b"subscribe", b"message"):
                heard()
            asked = reply is None
    finally:
        await connection.disconnect(nowait=True)
