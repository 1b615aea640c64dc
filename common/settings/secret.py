"""A secret as a value that does not slip into a log, a traceback, a metric or a pickle."""

from __future__ import annotations

import hmac
from typing import Any, ClassVar, NoReturn, SupportsIndex

MASK = "[redacted]"


class Secret:
    """A text that only `reveal` shows.

    `repr`, `str` and `format` are masked, comparison with another `Secret` takes the same time wherever they differ,
    and pickling is refused. It is not hashable: a secret as a dictionary key or set member would be compared in
    variable time and kept where nobody looks for secrets.
    """

    __slots__ = ("_text",)

    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._bytes(), other._bytes())

    def _bytes(self) -> bytes:
        return self._text.encode("utf-8", "surrogatepass")

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return MASK

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a secret is not pickled")
