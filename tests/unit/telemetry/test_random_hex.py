"""Ids that are drawn many at a time."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from common.telemetry.random_hex import DRAWN_BYTES, Drawn, hex_ids

DIGITS = frozenset("0123456789abcdef")


@pytest.mark.parametrize("digits", [16, 32, 30])
def test_no_id_comes_twice_across_many_draws(digits: int) -> None:
    draw = Drawn(lambda: hex_ids(digits)).draw
    ids = [draw() for _ in range(3 * DRAWN_BYTES)]
    assert len(set(ids)) == len(ids)
    assert all(len(each) == digits and DIGITS.issuperset(each) for each in ids)


def test_threads_that_draw_at_once_get_different_ids() -> None:
    draw = Drawn(lambda: hex_ids(32)).draw
    drawn: list[list[str]] = [[] for _ in range(4)]
    threads = [threading.Thread(target=lambda own=own: own.extend(draw() for _ in range(5_000))) for own in drawn]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = [each for own in drawn for each in own]
    assert len(set(ids)) == 20_000


FORK = r"""
import os
from common.telemetry.random_hex import Drawn, hex_ids

draw = Drawn(lambda: hex_ids(32)).draw
draw()
child = os.fork()
os.write(1, f"{draw()}\n".encode())
if child:
    os.waitpid(child, 0)
"""


def test_a_forked_process_draws_others_than_its_parent() -> None:
    """A worker that went on with its parent's digits would give two requests one id."""
    printed = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True).stdout.split()
    assert len(set(printed)) == 2
