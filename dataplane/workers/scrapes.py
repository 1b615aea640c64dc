"""Whose numbers are waited for when somebody asks for the sum. Plain values; the supervisor does what it says."""

from __future__ import annotations

from dataclasses import dataclass, field

ROUND_S = 0.5
"""What a worker may take to say its numbers. One that stands still costs a scrape so much, and is told as silent."""


@dataclass(frozen=True, slots=True)
class Question:
    """`worker` was asked for the metrics, and calls this `number`."""

    worker: int
    number: int


@dataclass
class Scrapes:
    """One round at a time. What is asked during a round waits for the next: no answer is older than its question."""

    number: int = 0
    deadline: float = 0.0
    _asked: list[Question] = field(default_factory=list)
    _next: list[Question] = field(default_factory=list)
    _missing: set[int] = field(default_factory=set)

    @property
    def running(self) -> bool:
        return bool(self._asked)

    def ask(self, question: Question) -> bool:
        """Note a question; whether a round is to begin."""
        self._next.append(question)
        return not self.running

    def begin(self, workers: set[int], now: float) -> int:
        """Begin a round for everything asked so far, over these workers; its number."""
        self.number += 1
        self.deadline = now + ROUND_S
        self._asked, self._next = self._next, []
        self._missing = set(workers)
        return self.number

    def told(self, worker: int, number: int) -> None:
        """A worker has said its numbers for a round."""
        if number == self.number:
            self._missing.discard(worker)

    def left(self, worker: int) -> None:
        """A worker is gone."""
        self._missing.discard(worker)

    def is_over(self, now: float) -> bool:
        """Whether the round that runs is to be ended now."""
        return self.running and (not self._missing or now >= self.deadline)

    def end(self) -> tuple[list[Question], int]:
        """The questions to answer, and how many workers said nothing in time."""
        asked, silent = self._asked, len(self._missing)
        self._asked, self._missing = [], set()
        return asked, silent

    @property
    def waiting(self) -> bool:
        """Something was asked that no round is for yet."""
        return bool(self._next)
