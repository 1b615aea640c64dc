"""When a worker is replaced, and whose numbers an answer waits for."""

from __future__ import annotations

from dataplane.workers.restarts import Restarts
from dataplane.workers.scrapes import ROUND_S, Question, Scrapes


def test_a_worker_that_ran_a_while_is_replaced_at_once() -> None:
    restarts = Restarts()
    assert [restarts.pause_s(10.0), restarts.pause_s(3_600.0)] == [0.0, 0.0]


def test_one_crash_after_another_waits_twice_as_long_each_time_up_to_a_bound() -> None:
    restarts = Restarts()
    assert [restarts.pause_s(9.9) for _ in range(8)] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    for _ in range(10_000):
        assert restarts.pause_s(0.0) == 30.0


def test_a_steady_run_ends_the_doubling() -> None:
    restarts = Restarts()
    assert [restarts.pause_s(ran) for ran in (0.0, 0.0, 10.0, 0.0)] == [1.0, 2.0, 0.0, 1.0]


def test_a_round_is_over_when_everybody_has_said_its_numbers() -> None:
    scrapes = Scrapes()
    question = Question(1, 7)
    assert scrapes.ask(question)
    number = scrapes.begin({1, 2}, now=100.0)
    scrapes.told(1, number)
    assert not scrapes.is_over(100.1)
    scrapes.told(2, number)
    assert scrapes.is_over(100.1)
    assert scrapes.end() == ([question], 0)
    assert not scrapes.is_over(200.0)


def test_a_worker_that_says_nothing_costs_a_bounded_time_and_is_counted() -> None:
    scrapes = Scrapes()
    scrapes.ask(Question(1, 7))
    number = scrapes.begin({1, 2, 3}, now=100.0)
    scrapes.told(1, number)
    assert not scrapes.is_over(100.0 + ROUND_S - 0.001)
    assert scrapes.is_over(100.0 + ROUND_S)
    assert scrapes.end() == ([Question(1, 7)], 2)


def test_a_worker_that_is_gone_is_not_waited_for() -> None:
    scrapes = Scrapes()
    scrapes.ask(Question(1, 7))
    number = scrapes.begin({1, 2}, now=0.0)
    scrapes.told(1, number)
    scrapes.left(2)
    assert scrapes.is_over(0.0)


def test_numbers_of_an_earlier_round_do_not_end_a_later_one() -> None:
    scrapes = Scrapes()
    scrapes.ask(Question(1, 1))
    first = scrapes.begin({1}, now=0.0)
    scrapes.end()
    scrapes.ask(Question(1, 2))
    scrapes.begin({1}, now=1.0)
    scrapes.told(1, first)
    assert not scrapes.is_over(1.0)


def test_what_is_asked_during_a_round_waits_for_the_next() -> None:
    """An answer begun before its question could lack what was counted in between."""
    scrapes = Scrapes()
    assert scrapes.ask(Question(1, 1))
    scrapes.begin({1, 2}, now=0.0)
    assert not scrapes.ask(Question(2, 1))
    assert scrapes.end() == ([Question(1, 1)], 2)
    assert scrapes.waiting
    scrapes.begin({1, 2}, now=0.0)
    assert scrapes.end()[0] == [Question(2, 1)]
    assert not scrapes.waiting


def test_with_no_worker_left_an_answer_waits_for_nobody() -> None:
    scrapes = Scrapes()
    scrapes.ask(Question(1, 1))
    scrapes.begin(set(), now=0.0)
    assert scrapes.is_over(0.0)
