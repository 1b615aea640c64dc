"""Many callers at once, each with one habit after the other: `callers.py COUNT`, the `World` as JSON on the first line
of standard input; every further line is the world anew. Prints how often each habit came to its end, at the end."""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import sys
from collections import Counter

import uvloop

from tests.bench.soak.habits import HABITS, PATIENCE_S, Line, World

WITH_TLS = 0.25
PAUSE_S = 0.1


async def call(world: World, told: Counter[str], ended: asyncio.Event) -> None:
    habits, weights = zip(*HABITS, strict=True)
    context = ssl._create_unverified_context()
    while not ended.is_set():
        (habit,) = random.choices(habits, weights)
        secure = random.random() < WITH_TLS
        line = None
        try:
            async with asyncio.timeout(PATIENCE_S):
                opened = await asyncio.open_connection(
                    "127.0.0.1", world.tls_port if secure else world.port, ssl=context if secure else None
                )
                line = Line(*opened)
                await habit(world, line)
            told[habit.__name__] += 1
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, ValueError) as end:
            # Most of these are what the habit asks for; the gateway's side is what is looked at.
            told[f"{habit.__name__}: {type(end).__name__}"] += 1
        finally:
            if line is not None:
                line.end()
        await asyncio.sleep(PAUSE_S * random.random())


async def main(count: int) -> None:
    loop, told, ended = asyncio.get_running_loop(), Counter[str](), asyncio.Event()
    world = World(**json.loads(await loop.run_in_executor(None, sys.stdin.readline)))
    callers = [asyncio.create_task(call(world, told, ended)) for _ in range(count)]
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        vars(world).update(json.loads(line))
    ended.set()
    await asyncio.gather(*callers)
    print(json.dumps(told))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(int(sys.argv[1])))
