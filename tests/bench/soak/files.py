"""The open files of a process by kind, looked at from outside, so that the look opens none in it."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from pathlib import Path

LISTENS = "0A"


def open_files(pid: int) -> dict[str, int]:
    """How many there are of each kind; of connections, whether they were accepted or where they lead."""
    connections = _connections(pid)
    kinds: Counter[str] = Counter()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            name = str(each.readlink())
            kinds[connections.get(name) or re.sub(r":\[\d+\]$", "", name)] += 1
    return dict(kinds)


def _connections(pid: int) -> dict[str, str]:
    """What each TCP socket is, by its name as an open file."""
    tables = [Path(f"/proc/{pid}/net/{family}").read_text() for family in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table.splitlines()[1:]]
    listening = {_port(row[1]) for row in rows if row[3] == LISTENS}
    told = {}
    for _, local, peer, state, *more in rows:
        kind = "accepted connection" if _port(local) in listening else f"connection to port {_port(peer)}"
        told[f"socket:[{more[5]}]"] = "listener" if state == LISTENS else kind
    return told


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)
