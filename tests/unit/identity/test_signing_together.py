"""Signatures that a turn of the loop wants are made one behind the other, and each caller has its own end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import pytest
import uvloop
from cryptography.hazmat.primitives.asymmetric import ec

from common import base64url
from common.identity.headers import SubjectUnwritable
from common.identity.principal import Principal
from common.identity.signature import (
    CACHED_MAX_BYTES,
    IdentitySigner,
    load_key,
    new_private_key_pem,
    verify_identity,
)

KEY = load_key(new_private_key_pem())


class Key:
    """The real key; it notes what it signs, and refuses what a test has it refuse."""

    def __init__(self, events: list[str]) -> None:
        self.events = events
        self.refused: set[str] = set()

    def sign(self, data: bytes, algorithm: ec.ECDSA) -> bytes:
        name = name_in(base64url.decode(data.partition(b".")[2]))
        self.events.append(f"sign {name}")
        if name in self.refused:
            raise ValueError(f"refuses {name}")
        return KEY.sign(data, algorithm)

    def public_key(self) -> ec.EllipticCurvePublicKey:
        return KEY.public_key()


def request(name: str) -> tuple[Principal, None, str, str, str, str]:
    """What is said of a request: the caller, and where it goes."""
    return Principal("s"), None, "GET", f"/{name}", "", ""


def name_in(data: bytes) -> str:
    return data.partition(b'"path":"/')[2].partition(b'"')[0].decode()


class Signing:
    """A signer with requests that want a signature, each a task of its own."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.key = Key(self.events)
        self.signer = IdentitySigner()
        self.signer._key = self.key  # type: ignore[assignment]

    async def request(self, name: str) -> bytes:
        self.events.append(f"want {name}")
        lines = self.signer.lines_soon(*request(name))
        if not isinstance(lines, bytes):
            lines = await lines
        self.events.append(f"send {name}")
        return lines

    def start(self, *names: str) -> list[asyncio.Task[bytes]]:
        return [asyncio.create_task(self.request(name)) for name in names]

    def verify(self, name: str, lines: bytes) -> None:
        headers = [(key, value) for key, _, value in (line.partition(b": ") for line in lines.split(b"\r\n")[:-1])]
        verify_identity(self.signer.public_key_pem, headers, method="GET", path=f"/{name}", query="")


async def test_those_of_one_turn_are_signed_in_a_row_and_sent_in_order() -> None:
    it = Signing()
    values = await asyncio.gather(*it.start("a", "b", "c"))
    assert it.events == [f"{what} {name}" for what in ("want", "sign", "send") for name in "abc"]
    for name, value in zip("abc", values, strict=True):
        it.verify(name, value)


def test_the_loop_that_serves_keeps_that_order() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test_those_of_one_turn_are_signed_in_a_row_and_sent_in_order())


async def test_who_comes_alone_waits_for_nothing_but_the_turn() -> None:
    it = Signing()
    (task,) = it.start("a")
    for _ in range(2):  # it wants a signature, it has one
        await asyncio.sleep(0)
    assert it.events == ["want a", "sign a", "send a"]
    it.verify("a", await task)


async def test_who_goes_on_before_the_loop_has_signed_signs_for_all() -> None:
    it = Signing()
    row = [it.signer.lines_soon(*request(name)) for name in "ab"]
    for lines in row:
        assert isinstance(lines, Coroutine)
        lines.send(None)  # by hand, so that nobody else has a turn: it wants a signature and gives way
    for name, lines in zip("ab", row, strict=True):
        assert isinstance(lines, Coroutine)
        with pytest.raises(StopIteration) as signed:
            lines.send(None)
        it.verify(name, signed.value.value)
    assert it.events == ["sign a", "sign b"]


async def test_one_that_was_made_before_is_not_waited_for() -> None:
    it = Signing()
    first = it.signer.lines(*request("a"))
    assert it.signer.lines_soon(*request("a")) == first
    (value,) = await asyncio.gather(*it.start("b"))
    assert it.signer.lines_soon(*request("b")) == it.signer.lines(*request("b")) == value


async def test_a_request_that_needs_none_passes_those_that_wait() -> None:
    it = Signing()
    it.signer.lines(*request("known"))
    it.events.clear()
    await asyncio.gather(*it.start("a", "known"))
    assert it.events == ["want a", "want known", "send known", "sign a", "send a"]


async def test_equal_requests_of_one_turn_share_a_signature() -> None:
    it = Signing()
    one, other = await asyncio.gather(*it.start("a", "a"))
    assert one == other
    assert it.events.count("sign a") == 1


async def test_a_long_payload_is_signed_with_the_others_and_not_remembered() -> None:
    it, long = Signing(), "x" * CACHED_MAX_BYTES
    await asyncio.gather(*it.start("a", long))
    await asyncio.gather(*it.start("a", long))
    assert it.events[2:4] == ["sign a", f"sign {long}"]
    assert [it.events.count(f"sign {name}") for name in ("a", long)] == [1, 2]


async def test_one_that_fails_fails_its_own_request_alone() -> None:
    it = Signing()
    it.key.refused.add("b")
    a, b, c = await asyncio.gather(*it.start("a", "b", "c"), return_exceptions=True)
    assert isinstance(b, ValueError)
    for name, value in (("a", a), ("c", c)):
        assert isinstance(value, bytes)
        it.verify(name, value)


async def test_a_failure_is_not_remembered() -> None:
    it = Signing()
    it.key.refused.add("a")
    with pytest.raises(ValueError, match="refuses a"):
        await it.request("a")
    with pytest.raises(ValueError, match="refuses a"):
        it.signer.lines(*request("a"))
    it.key.refused.clear()
    it.verify("a", await it.request("a"))


async def test_a_subject_that_no_header_carries_is_told_at_once() -> None:
    it = Signing()
    with pytest.raises(SubjectUnwritable):
        it.signer.lines_soon(Principal("a\nb"), None, "GET", "/", "", "")
    assert it.signer._wanted == {}


@pytest.mark.parametrize("leaver", [0, 1, 2])
async def test_a_caller_that_leaves_takes_nobody_along(leaver: int) -> None:
    it = Signing()
    tasks = it.start("a", "b", "c")
    await asyncio.sleep(0)
    tasks[leaver].cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    for name, end in zip("abc", ends, strict=True):
        if name == "abc"[leaver]:
            assert isinstance(end, asyncio.CancelledError)
        else:
            assert isinstance(end, bytes)
            it.verify(name, end)


async def test_callers_that_all_leave_leave_nothing_behind() -> None:
    """Whoever connects, asks and leaves again and again must not make what is wanted grow."""
    it = Signing()
    tasks = it.start("a", "b")
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert it.signer._wanted == {}
    it.verify("c", await it.request("c"))
