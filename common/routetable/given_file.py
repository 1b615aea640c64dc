"""The route table that a person names on a command line."""

from __future__ import annotations

import sys
from pathlib import Path

from common.routetable.document import MAX_TABLE_BYTES
from common.telemetry.redact import escape_controls


class Unreadable(Exception):
    """The file cannot be read. The message says why."""


def read_given_file(file: str) -> bytes:
    """The content of a file, or of standard input for `-`, cut behind the largest table. Raises `Unreadable`.

    A pipe is read too, as a shell makes one of `<(command)`.
    """
    try:
        if file == "-":
            return sys.stdin.buffer.read(MAX_TABLE_BYTES + 1)
        with Path(file).open("rb") as stream:
            return stream.read(MAX_TABLE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise Unreadable(f"{escape_controls(file)} cannot be read: {reason or error}") from None
