"""What every test may use: child processes that are always stopped, nginx, Chromium, and one Hypothesis profile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.support.chromium import chromium
from tests.support.counterparts import IN_CI, find_program
from tests.support.nginx import Nginx, start_nginx
from tests.support.node import find_node
from tests.support.processes import Children
from tests.support.shared_store import store  # noqa: F401
from tests.support.state_backends import backend  # noqa: F401

if TYPE_CHECKING:
    from playwright.async_api import Browser

_LONGEST_ID = 80

# A shared machine makes single examples slow, which says nothing about the code. In CI the examples are the same in
# each run; a developer's runs explore.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("ci", settings.get_profile("explore"), derandomize=True, database=None)
settings.load_profile("ci" if IN_CI else "explore")


def pytest_report_header() -> list[str]:
    """Say at the top which counterparts are here, so that a skip is no surprise at the bottom."""
    node = find_node()
    found = {
        "nginx": find_program("nginx"),
        "chromium": find_program("chromium"),
        "node": None if node is None else f"{node[0]} ({node[1]})",
        "wrk": find_program("wrk"),
        "pebble": find_program("pebble"),
    }
    listed = ", ".join(f"{name} {path or 'MISSING'}" for name, path in found.items())
    return [f"counterparts: {listed}", "a missing one fails its tests" if IN_CI else "a missing one skips its tests"]


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a long value by its parameter: a key made for the run would give each test process other names."""
    return argname if isinstance(val, str | bytes) and len(val) > _LONGEST_ID else None


@pytest.fixture
def children() -> Iterator[Children]:
    """Starts programs for one test and stops them when it ends."""
    with Children() as started:
        yield started


@pytest.fixture
def nginx(children: Children, tmp_path: Path) -> Callable[..., Nginx]:
    """`nginx(server="…", http="…")` starts one, in a folder of its own."""
    count = 0

    def start(*, server: str = "", http: str = "") -> Nginx:
        nonlocal count
        count += 1
        return start_nginx(children, tmp_path / f"nginx-{count}", server=server, http=http)

    return start


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """A headless Chromium for one test; each `new_context` is a person of its own."""
    async with chromium() as running:
        yield running
