"""What the data plane asks of a source of route tables, whichever it is (§3.4)."""

from __future__ import annotations

from typing import Protocol

from dataplane.snapshot import Snapshot


class TableSource(Protocol):
    """Loads tables and keeps the last valid one."""

    @property
    def current(self) -> Snapshot | None:
        """The running configuration; None until a table was loaded."""
        ...

    @property
    def last_error(self) -> str | None:
        """Why the newest table was not taken; None while the newest one runs."""
        ...

    @property
    def generation(self) -> int:
        """How many tables this process has served; 0 before the first."""
        ...

    async def start(self) -> None:
        """Try to load a table, then go on watching for changes. A table that cannot be loaded is no error here."""
        ...

    async def stop(self) -> None:
        """Stop watching. The running configuration stays."""
        ...

    async def reload_now(self) -> bool:
        """Read the table again; whether the newest one runs now."""
        ...
