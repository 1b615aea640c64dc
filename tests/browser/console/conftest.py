"""One browser for the tests of a module; each test brings its own control plane, and people with profiles of theirs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest_asyncio

from tests.support.chromium import DEADLINE_MS, chromium

if TYPE_CHECKING:
    from playwright.async_api import Browser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as running:
        from playwright.async_api import expect

        # A busy machine takes longer than Playwright's own five seconds.
        expect.set_options(timeout=DEADLINE_MS)
        yield running
