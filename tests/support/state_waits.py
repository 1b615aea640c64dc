"""Waiting for a state to lose its server, and to find it again: each one does so for itself."""

from __future__ import annotations

import asyncio

from common.state.ports import State

DEADLINE_S = 30.0


async def wait_down(state: State) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while state.up:
            await asyncio.sleep(0.01)


async def wait_up(state: State) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not state.up:
            await asyncio.sleep(0.01)
