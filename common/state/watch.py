"""What a backend tells of itself while it works: for metrics and the log, which belong to whoever opened it."""

from __future__ import annotations

from typing import Literal, Protocol

OperationResult = Literal["ok", "unavailable", "foreign"]
"""`foreign`: it was answered, and a value on the way was not one that this software wrote; it counted as absent."""


class StateWatch(Protocol):
    """Called on the loop's thread; must neither block nor raise."""

    def operation(self, name: str, result: OperationResult, seconds: float) -> None:
        """An operation ended. `name` is that of the port's method."""
        ...

    def went_down(self, cause: str) -> None:
        """The server does not answer; said at every failure, the first of an outage or not. Holds no credential."""
        ...

    def came_back(self) -> None:
        """The server answers; said whenever a connection is ready."""
        ...


class Unwatched:
    """A watch that looks away."""

    def operation(self, name: str, result: OperationResult, seconds: float) -> None:
        """See `StateWatch`."""

    def went_down(self, cause: str) -> None:
        """See `StateWatch`."""

    def came_back(self) -> None:
        """See `StateWatch`."""
