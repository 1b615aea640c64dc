"""One running demo for the tests of a module; each test brings people of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.chromium import chromium_program
from tests.support.demo import RunningDemo, start_demo
from tests.support.processes import Children


@pytest.fixture(scope="module")
def demo() -> Iterator[RunningDemo]:
    chromium_program()
    with Children() as children:
        yield start_demo(children)
