"""Real programs that the tests talk to: found, or missed out loud.

In CI (`CI` set) a missing counterpart is a failure, because a run that silently left out its peers proves nothing. On a
developer's machine it is a skip whose reason names the program and how to get it.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

import pytest

IN_CI = os.environ.get("CI", "").lower() not in {"", "0", "false"}

_HOW = {
    "nginx": "apt-get install nginx-light",
    "chromium": "apt-get install chromium",
    "node": "`deploy/run test` brings a Node.js that is new enough",
    "curl": "apt-get install curl",
    "jq": "apt-get install jq",
    "openssl": "apt-get install openssl",
    "wrk": "apt-get install wrk",
    "haproxy": "apt-get install haproxy",
    "redis-server": "apt-get install redis-server",
    "redis-cli": "apt-get install redis-tools",
    "postgres": "apt-get install postgresql",
    "libfaketime": "apt-get install faketime",
    "go": "apt-get install golang-go",
    "helm": "`deploy/run test` on Linux, x86-64",
    "docker-compose": "`deploy/run test` on Linux",
    "hadolint": "`deploy/run test`",
    "shellcheck": "`deploy/run test`",
    "promtool": "apt-get install prometheus",
    "systemd-analyze": "apt-get install systemd",
    "pebble": "apt-get install pebble",
    "pebble-challtestsrv": "apt-get install pebble",
}


def find_program(name: str, *places: str) -> str | None:
    """The path of a program: on `PATH`, or in one of the places Debian keeps what only root usually starts."""
    return shutil.which(name) or shutil.which(name, path=":".join((*places, "/usr/sbin", "/usr/local/sbin")))


def missing(name: str, detail: str = "not found") -> NoReturn:
    """End the test for want of a counterpart: a failure in CI, a skip with its reason elsewhere."""
    reason = f"counterpart {name!r}: {detail}. To run this test: {_HOW.get(name, 'see README.md')}"
    if IN_CI:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def require_program(name: str, *places: str) -> str:
    """The path of a program that the test cannot do without."""
    found = find_program(name, *places)
    if found is None:
        missing(name)
    return found


def require_package(name: str) -> str:
    """The path of a program that a package of the dependency group `test` brings."""
    found = Path(sys.executable).with_name(name)
    if not found.exists():
        missing(name)
    return str(found)
