"""What a whole request costs in things that can be counted: bytecode instructions, calls, and memory that stays.

Times depend on the machine and on who else uses it; these figures are the same in every run, so a test may fail on
them. They say nothing about what one instruction costs: a regular expression is one, and so is an addition.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import uvloop

from tests.bench.pipeline import Callers, gateway

COUNTED = 64
WARMED = 2560


@dataclass
class Cost:
    """Of one request, on average. `kept` are memory blocks that the interpreter had more of after it than before."""

    instructions: float
    calls: float
    kept: float


def cost_of_a_request(*, full: bool, others: int = 0) -> Cost:
    """Through the whole pipeline without sockets, with everything that can be remembered remembered; the table has so
    many `others` beside the route that is asked for.
    """
    with (
        TemporaryDirectory(prefix="wicketgate-bench-") as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        return runner.run(_cost(Path(folder), full=full, others=others))


async def _cost(folder: Path, *, full: bool, others: int) -> Cost:
    counted = {"opcode": 0, "call": 0}

    def traced(frame: FrameType, event: str, _: object) -> Any:
        if event in counted:
            counted[event] += 1
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return traced

    async with gateway(folder, full=full, others=others) as it:
        callers = Callers()
        await callers.run(it, WARMED)
        gc.collect()
        before = sys.getallocatedblocks()
        await callers.run(it, WARMED)
        gc.collect()
        kept = sys.getallocatedblocks() - before
        sys.settrace(traced)
        try:
            await callers.run(it, COUNTED)
        finally:
            sys.settrace(None)
    return Cost(counted["opcode"] / COUNTED, counted["call"] / COUNTED, kept / WARMED)
