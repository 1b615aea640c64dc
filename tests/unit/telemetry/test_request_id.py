"""The request id is the caller's where it is harmless, else a UUID (§2.1)."""

from __future__ import annotations

import uuid

import pytest

from common.telemetry.request_id import new_request_id, request_id


@pytest.mark.parametrize(
    "sent", [b"a", b"x" * 64, b"req-1_2.3", b"AZaz09._-", b"-", b"550e8400-e29b-41d4-a716-446655440000"]
)
def test_a_usable_id_is_kept(sent: bytes) -> None:
    assert request_id([sent]) == sent.decode()


@pytest.mark.parametrize(
    "sent",
    [
        [],
        [b""],
        [b"x" * 65],
        [b"a b"],
        [b"a\n"],
        [b"a\r\nset-cookie: x"],
        [b'"a"'],
        [b"<script>"],
        [b"caf\xc3\xa9"],
        [b"a,b"],
        [b"a", b"a"],
        [b"a", b"b"],
    ],
)
def test_any_other_is_replaced_by_a_random_uuid(sent: list[bytes]) -> None:
    made = request_id(sent)
    parsed = uuid.UUID(made)
    assert (str(parsed), parsed.version, parsed.variant) == (made, 4, uuid.RFC_4122)


def test_no_two_are_alike_and_every_random_bit_varies() -> None:
    made = [uuid.UUID(new_request_id()).int for _ in range(2_000)]
    assert len(set(made)) == 2_000
    ever_one = ever_zero = 0
    for value in made:
        ever_one |= value
        ever_zero |= ~value
    fixed = (0xF << 76) | (0x3 << 62)
    everywhere = (1 << 128) - 1
    assert ever_one | fixed == everywhere
    assert (ever_zero & everywhere) | fixed == everywhere
