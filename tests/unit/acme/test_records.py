"""What is stored reads back as it was; what is of no known form is never guessed at; keys show nowhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.tls.acme.authority import make_key
from dataplane.tls.acme.records import Account, Advice, Issued, Progress, UnknownRecord
from tests.support.certificates import issue

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
NUMBER = st.integers(0, 2**53)


@given(
    st.builds(Progress, NUMBER, NUMBER, NUMBER, NUMBER, TEXT, TEXT, st.none() | st.builds(Advice, TEXT, NUMBER, NUMBER))
)
def test_progress_reads_back_as_it_was(progress: Progress) -> None:
    assert Progress.from_bytes(progress.to_bytes()) == progress


def test_an_account_reads_back_as_it_was() -> None:
    account = Account(make_key(), "https://ca.test/acct/1", "ops@example.com")

    assert Account.from_bytes(account.to_bytes()) == account


@pytest.mark.parametrize("record", [Account, Issued, Progress])
@pytest.mark.parametrize(
    "data",
    [
        b"", b"\xff", b"null", b"[]", b"7", b"{}", b'{"form": 2}', b'{"form": 1}', b'{"form": 1, "key": 1, "url": 2}',
        b'{"form": 1, "key": "k", "chain": "c"}', b'{"form": 1, "refused": "x", "advice": null}',
        b'{"form": 1, "refused": 1, "unreachable": 1, "retryAtMs": 1, "failedAtMs": 1, "lastError": "", '
        b'"renewNow": "", "advice": 7}',
    ],
)  # fmt: skip
def test_what_is_of_no_known_form_is_refused(record: type[Account | Issued | Progress], data: bytes) -> None:
    with pytest.raises(UnknownRecord):
        record.from_bytes(data)


def test_a_key_shows_in_no_representation_and_no_error() -> None:
    key = make_key()
    marks = [line for line in key.decode().splitlines() if not line.startswith("-----")]
    broken = b'{"form": 1, "key": "' + key.replace(b"\n", b"\\n") + b'", "chain": "not one"}'
    with pytest.raises(UnknownRecord) as refused:
        Issued.from_bytes(broken)

    shown = repr(Account(key, "u", "e")) + repr(Issued(key, b"", "f", "s", 0, 0)) + str(refused.value)
    assert not any(mark in shown for mark in marks)
    assert refused.value.__cause__ is None


def test_a_certificate_reads_back_as_it_was_with_its_dates() -> None:
    made = issue("app.test")
    issued = Issued.of(made.key, made.chain)

    assert Issued.from_bytes(issued.to_bytes()) == issued
    assert issued.not_after_ms == made.leaf.not_valid_after_utc.timestamp() * 1000
    assert int(issued.serial, 16) == made.leaf.serial_number
