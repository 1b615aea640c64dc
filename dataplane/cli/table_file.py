"""The file that `check` and `explain` are given."""

from __future__ import annotations

import sys
from pathlib import Path


class Unreadable(Exception):
    """The file cannot be read. The message says why."""


def read_table_file(file: str) -> bytes:
    """The content of a file, or of standard input for `-`. Raises `Unreadable`."""
    from common.routetable.document import MAX_TABLE_BYTES
    from dataplane.reload.attempt import read_file

    if file == "-":
        return sys.stdin.buffer.read(MAX_TABLE_BYTES + 1)
    try:
        return read_file(Path(file))
    except OSError as error:
        raise Unreadable(f"{file} cannot be read: {error.strerror or error}") from None
