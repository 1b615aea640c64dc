"""Operations as the watch is told of them."""

from __future__ import annotations

from time import perf_counter

from common.state.ports import StateUnavailable
from common.state.watch import OperationResult, StateWatch


class Measured:
    """One operation, from its begin to its end. `found_foreign` says that a value on the way was not ours."""

    __slots__ = ("_name", "_result", "_started", "_watch")

    def __init__(self, watch: StateWatch, name: str) -> None:
        self._watch = watch
        self._name = name
        self._result: OperationResult = "ok"
        self._started = 0.0

    def found_foreign(self, count: object = 1) -> None:
        if count:
            self._result = "foreign"

    def __enter__(self) -> Measured:
        self._started = perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if kind is None or issubclass(kind, ValueError):
            self._watch.operation(self._name, self._result, perf_counter() - self._started)
        elif issubclass(kind, StateUnavailable):
            self._watch.operation(self._name, "unavailable", perf_counter() - self._started)
