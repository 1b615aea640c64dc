"""The gateway with a way to ask what its process holds: `watched.py SOCKET`, the rest as `gateway run`.

A thread answers each connection to the Unix socket with one line of JSON and the memory blocks that Python has in use,
its objects by type, and threads. It is asked twice a minute, so it costs the gateway nothing that counts.
With `BENCH_TRACE=1`, the lines of the program that hold the most memory come with it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import socket
import sys
import threading
import tracemalloc
from asyncio import Task
from collections import Counter
from pathlib import Path
from typing import Any

from dataplane.cli import main

MOST = 60


def held() -> dict[str, Any]:
    """What this process holds now, garbage collected before."""
    gc.collect()
    blocks = sys.getallocatedblocks()
    objects = gc.get_objects()
    kinds = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in objects)
    tasks = [each for each in objects if isinstance(each, Task) and not each.done()]
    told: dict[str, Any] = {
        "blocks": blocks,
        "kinds": dict(kinds.most_common(MOST)),
        "tasks": len(tasks),
        "waiting": Counter(map(where, tasks)),
        "objects": sum(kinds.values()),
        **malloc(),
        "threads": threading.active_count(),
    }
    if tracemalloc.is_tracing():
        lines = tracemalloc.take_snapshot().statistics("lineno")[:MOST]
        told["lines"] = {f"{each.traceback[0].filename}:{each.traceback[0].lineno}": each.size for each in lines}
    return told


class _Mallinfo(ctypes.Structure):
    """`struct mallinfo2` of glibc (mallinfo(3))."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "ford", "keep")
    )


def malloc() -> dict[str, int]:
    """Bytes that the C library holds, and that are in use: Python's arenas, OpenSSL, uvloop. Nothing without glibc."""
    try:
        mallinfo = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError):
        return {}
    mallinfo.restype = _Mallinfo
    told = mallinfo()
    return {"malloc_held": told.arena + told.hblkhd, "malloc_used": told.uordblks + told.hblkhd}


def where(task: Task[Any]) -> str:
    """Where a task waits, from the outermost call inwards."""
    return " > ".join(f"{Path(at.f_code.co_filename).name}:{at.f_lineno}" for at in task.get_stack())


def answer(listener: socket.socket) -> None:
    while True:
        asked, _ = listener.accept()
        with asked:
            asked.sendall(json.dumps(held()).encode())


if __name__ == "__main__":
    watch = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    watch.bind(sys.argv.pop(1))
    watch.listen()
    if os.environ.get("BENCH_TRACE"):
        tracemalloc.start()
    threading.Thread(target=answer, args=(watch,), daemon=True).start()
    sys.argv = ["gateway", "run"]
    main()
