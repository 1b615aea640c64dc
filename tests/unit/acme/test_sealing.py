"""What is sealed opens for the same secret under the same name, and for nobody else."""

from __future__ import annotations

import secrets
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.settings.secret import Secret
from dataplane.tls.acme.sealing import SealBroken, SealedElsewhere, Sealer

SECRET = Secret(secrets.token_hex(32))


@given(st.text(max_size=40), st.binary(max_size=300))
def test_a_value_opens_under_its_name_and_shows_nothing_of_itself(name: str, value: bytes) -> None:
    sealed = Sealer(SECRET).seal(name, value)

    assert Sealer(SECRET).open(name, sealed) == value
    assert len(value) < 8 or value not in sealed


def test_the_same_value_is_never_sealed_twice_alike() -> None:
    sealer = Sealer(SECRET)

    assert len({sealer.seal("a", b"key") for _ in range(1_000)}) == 1_000


def test_a_value_that_was_moved_to_another_name_does_not_open() -> None:
    sealer = Sealer(SECRET)

    with pytest.raises(SealBroken, match="moved it from another name"):
        sealer.open("acme.account.1", sealer.seal("acme.certificate.1", b"key"))


@given(st.data())
def test_a_value_with_any_bit_changed_does_not_open(data: st.DataObject) -> None:
    sealed = bytearray(Sealer(SECRET).seal("name", b"some value"))
    bit = data.draw(st.integers(0, len(sealed) * 8 - 1))
    sealed[bit // 8] ^= 1 << bit % 8

    with pytest.raises(SealBroken):
        Sealer(SECRET).open("name", bytes(sealed))


@given(st.integers(0, 60))
def test_a_value_that_was_cut_short_does_not_open(length: int) -> None:
    sealed = Sealer(SECRET).seal("name", b"some value of the store, long enough")

    with pytest.raises(SealBroken):
        Sealer(SECRET).open("name", sealed[:length])


def test_another_secret_is_told_apart_from_damage_and_says_what_to_do() -> None:
    sealed = Sealer(Secret(secrets.token_hex(32))).seal("name", b"value")

    with pytest.raises(SealedElsewhere, match="give every replica the same"):
        Sealer(SECRET).open("name", sealed)


def test_no_error_holds_the_value_or_the_secret() -> None:
    sealer = Sealer(SECRET)
    for broken in (b"", b"\x02" + sealer.seal("a", b"PRIVATE")[1:], sealer.seal("b", b"PRIVATE")):
        with pytest.raises(SealBroken) as refused:
            sealer.open("a", broken)
        assert "PRIVATE" not in str(refused.value)
        assert SECRET.reveal() not in str(refused.value)
        assert SECRET.reveal() not in repr(sealer)


def test_every_process_derives_the_same_key_from_a_secret() -> None:
    """Replicas share nothing but the secret: the key must not depend on the process, nor change with a release."""
    script = (
        "from common.settings.secret import Secret; from dataplane.tls.acme.sealing import Sealer; "
        "print(Sealer(Secret('a secret of 32 characters, or more')).seal('n', b'v').hex())"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    sealer = Sealer(Secret("a secret of 32 characters, or more"))

    assert sealer.open("n", bytes.fromhex(told.stdout)) == b"v"
    assert sealer.open("n", bytes.fromhex(_WRITTEN)) == b"value of an earlier release"


_WRITTEN = (
    "013f44761b37666c7da0b8c1649ba45cdac7bc5419d0c56d775ee235d9cbed46"
    "03427a038dc6837c738d21b3f5d806fa48ee48a7ac7818fb45b7ae0e7a3f34ec"
)
