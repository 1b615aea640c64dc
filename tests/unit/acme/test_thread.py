"""Blocking calls beside the loop: their result, their failure, or the end of their budget."""

from __future__ import annotations

import asyncio
import threading

import pytest

from dataplane.tls.acme.thread import in_thread


async def test_a_result_and_a_failure_come_back() -> None:
    def fails() -> None:
        raise KeyError("x")

    assert await in_thread(lambda: threading.current_thread().name, timeout_s=15, name="acme: x") == "acme: x"
    assert await in_thread(lambda: None, timeout_s=15, name="x") is None
    with pytest.raises(KeyError):
        await in_thread(fails, timeout_s=15, name="x")


async def test_the_loop_goes_on_meanwhile() -> None:
    go = threading.Event()
    call = asyncio.ensure_future(in_thread(lambda: go.wait(15), timeout_s=15, name="x"))
    await asyncio.sleep(0)
    go.set()

    assert await call is True


async def test_a_call_over_its_budget_is_left_behind_and_its_result_dropped() -> None:
    go, over = threading.Event(), threading.Event()

    def hangs() -> str:
        go.wait(15)
        over.set()
        return "late"

    with pytest.raises(TimeoutError):
        await in_thread(hangs, timeout_s=0.01, name="x")
    go.set()
    assert await asyncio.to_thread(over.wait, 15)
    await asyncio.sleep(0)


async def test_a_caller_that_is_cancelled_waits_for_nothing() -> None:
    go, begun = threading.Event(), threading.Event()

    def hangs() -> None:
        begun.set()
        go.wait(15)

    call = asyncio.ensure_future(in_thread(hangs, timeout_s=15, name="x"))
    assert await asyncio.to_thread(begun.wait, 15)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    go.set()


def test_a_loop_that_ended_meanwhile_is_no_failure() -> None:
    """The end of the process does not wait for an authority, and nothing is raised in the thread that is left."""
    go = threading.Event()
    failures: list[threading.ExceptHookArgs] = []
    hook, threading.excepthook = threading.excepthook, failures.append
    try:

        async def leave() -> None:
            with pytest.raises(TimeoutError):
                await in_thread(lambda: go.wait(15), timeout_s=0.01, name="left behind")

        asyncio.run(leave())
        left = next(thread for thread in threading.enumerate() if thread.name == "left behind")
        assert left.daemon
        go.set()
        left.join(15)
        assert not left.is_alive()
    finally:
        threading.excepthook = hook
    assert failures == []
