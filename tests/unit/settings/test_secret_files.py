"""Each secret may come from a file (§4.1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.settings.read import FILE_MAX_BYTES, read_small_file
from common.settings.variables import VARIABLES
from tests.support.environments import MINIMAL, P256_PEM, files, load, problems


def test_the_secrets_are_the_credentials_and_keys() -> None:
    assert {variable.name for variable in VARIABLES if variable.secret} == {
        "GATEWAY_OIDC_CLIENT_SECRET",
        "GATEWAY_OIDC_CLIENT_KEY",
        "GATEWAY_SESSION_SECRET",
        "GATEWAY_ACCESS_TOKEN",
        "GATEWAY_METRICS_TOKEN",
        "GATEWAY_IDENTITY_SIGNING_KEY",
        "GATEWAY_STATE_URL",
        "GATEWAY_ACME_EAB_HMAC",
        "GATEWAY_ACME_DNS_WRITER_TOKEN",
        "GATEWAY_TLS_STORE_SECRET",
    }


@pytest.mark.parametrize(
    ("content", "secret"),
    [(b"abc", "abc"), (b"abc\n", "abc"), (b"abc\r\n", "abc"), (b" abc ", " abc "), ("pä\n".encode(), "pä")],
)
def test_one_trailing_line_feed_is_dropped_and_nothing_else(content: bytes, secret: str) -> None:
    assert load(MINIMAL, files(s=content), SESSION_SECRET_FILE="s").session_secret.reveal() == secret


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"abc\n\n", "control character"), (b"\n", "is empty"), (b"", "is empty"), (b"\xff\xfe", "not UTF-8")],
)
def test_a_file_that_holds_no_secret_is_refused(content: bytes, says: str) -> None:
    (problem,) = problems(MINIMAL, files(s=content), SESSION_SECRET_FILE="s")
    assert problem.startswith("GATEWAY_SESSION_SECRET: ")
    assert says in problem


def test_a_missing_file_is_named_by_its_variable() -> None:
    assert problems(MINIMAL, METRICS_TOKEN_FILE="/run/secrets/none") == (
        "GATEWAY_METRICS_TOKEN: cannot be read from the file that GATEWAY_METRICS_TOKEN_FILE names: "
        "No such file or directory",
    )


def test_both_forms_at_once_are_an_error() -> None:
    (problem,) = problems(MINIMAL, files(s=b"abc"), SESSION_SECRET="abc", SESSION_SECRET_FILE="s")
    assert problem == "GATEWAY_SESSION_SECRET: is set, and GATEWAY_SESSION_SECRET_FILE is too; keep one of them"
    assert load(MINIMAL, files(s=b"abc"), SESSION_SECRET="", SESSION_SECRET_FILE="s").session_secret.reveal() == "abc"


def test_a_secret_in_a_file_counts_as_given() -> None:
    load(MINIMAL, files(t=b"abc"), ACCESS_URL="http://access", ACCESS_TOKEN_FILE="t")


def test_keys_come_from_files_too() -> None:
    settings = load(MINIMAL, files(k=P256_PEM.encode()), IDENTITY_SIGNING_KEY_FILE="k")
    assert settings.identity_signing_key is not None
    assert settings.identity_signing_key.reveal() == P256_PEM


def test_a_file_is_read_no_further_than_a_secret_can_be_long(tmp_path: Path) -> None:
    (tmp_path / "fits").write_bytes(b"x" * FILE_MAX_BYTES)
    (tmp_path / "large").write_bytes(b"x" * (FILE_MAX_BYTES + 1))
    assert len(read_small_file(str(tmp_path / "fits"))) == FILE_MAX_BYTES
    for path in (str(tmp_path / "large"), "/dev/zero", str(tmp_path)):
        with pytest.raises(OSError, match=r"larger|directory"):
            read_small_file(path)
        assert problems(MINIMAL, read_small_file, SESSION_SECRET_FILE=path) != ()
