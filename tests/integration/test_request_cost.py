"""A request does not grow dearer unnoticed. Counted, never timed: the same on a busy machine and on an idle one."""

from __future__ import annotations

import asyncio
import gc
import sys
from pathlib import Path

import pytest
import uvloop

from dataplane.workers.serve import spare_collector
from tests.bench.instructions import cost_of_a_request
from tests.bench.pipeline import Callers, gateway

# Three hundredths above what was counted with CPython 3.11; compilers of later versions emit other instructions.
BARE_INSTRUCTIONS, FULL_INSTRUCTIONS = 3_950, 4_330
OTHER_VERSIONS = 1.25
KEPT_BLOCKS = 0.5
PENDING = 1_000
"""Requests that a worker lets in at once, as GATEWAY_MAX_PENDING_REQUESTS is without a setting."""


@pytest.mark.parametrize(("full", "most"), [(False, BARE_INSTRUCTIONS), (True, FULL_INSTRUCTIONS)])
def test_a_request_takes_no_more_instructions_than_it_did(full: bool, most: int) -> None:
    """Raise a bound only together with the reason why the request is worth it."""
    cost = cost_of_a_request(full=full)
    assert cost.instructions <= most * (1 if sys.version_info[:2] == (3, 11) else OTHER_VERSIONS)


@pytest.mark.parametrize("full", [False, True])
def test_a_request_leaves_nothing_behind(full: bool) -> None:
    """One block a request kept for some seconds is memory that grows with the traffic."""
    assert cost_of_a_request(full=full).kept < KEPT_BLOCKS


def test_as_many_requests_at_once_as_are_let_in_start_no_garbage_collection(tmp_path: Path) -> None:
    """Each would walk through all that is under way: a sixth of what a request costs, and nothing found."""

    async def collections() -> int:
        async with gateway(tmp_path, full=True, rate_limit_route_max=0) as it:
            await Callers().run(it, PENDING)
            spare_collector()
            before = gc.get_stats()
            await Callers().run(it, 4 * PENDING, PENDING)
            return sum(
                now["collections"] - then["collections"] for now, then in zip(gc.get_stats(), before, strict=True)
            )

    thresholds = gc.get_threshold()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            assert runner.run(collections()) == 0
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
