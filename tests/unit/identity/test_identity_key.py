"""`gateway identity-key` prints keys that the signer and its verifiers take."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import typer
from cryptography.hazmat.primitives import serialization
from typer.testing import CliRunner, Result

from common.identity.signature import IdentitySigner, new_private_key_pem
from dataplane.cli.identity_key import KEY_FILE_MAX_BYTES, register

VARIABLE = "GATEWAY_IDENTITY_SIGNING_KEY"
PEM = new_private_key_pem()
PUBLIC = IdentitySigner(PEM).public_key_pem


def run(*arguments: str, environment: Mapping[str, str] | None = None) -> Result:
    app = typer.Typer()

    @app.callback()
    def main() -> None:
        """A program with one command."""

    register(app, environment or {})
    return CliRunner().invoke(app, ["identity-key", *arguments])


def test_a_new_key_is_a_pkcs8_pem_that_the_signer_takes() -> None:
    result = run()
    assert result.exit_code == 0
    assert result.stdout.startswith("-----BEGIN PRIVATE KEY-----\n")
    assert result.stdout.endswith("-----END PRIVATE KEY-----\n")
    assert IdentitySigner(result.stdout).public_key_pem != PUBLIC
    assert run().stdout != result.stdout


def test_json_has_both_halves_of_one_new_pair() -> None:
    keys = json.loads(run("--json").stdout)
    assert set(keys) == {"privateKey", "publicKey"}
    assert IdentitySigner(keys["privateKey"]).public_key_pem == keys["publicKey"]


@pytest.mark.parametrize(
    "value", [PEM, PEM.rstrip("\n"), PEM.replace("\n", "\\n")], ids=["whole", "trimmed", "escaped"]
)
def test_public_prints_the_configured_keys_spki_pem(value: str) -> None:
    result = run("--public", environment={VARIABLE: value})
    assert (result.exit_code, result.stdout) == (0, PUBLIC)
    serialization.load_pem_public_key(result.stdout.encode())


def test_public_reads_the_key_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_text(PEM)
    result = run("--public", "--json", environment={f"{VARIABLE}_FILE": str(file)})
    assert json.loads(result.stdout) == {"publicKey": PUBLIC}


def test_an_error_says_what_to_do_on_standard_error_and_quotes_no_key(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(b"x" * (KEY_FILE_MAX_BYTES + 1))
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    cases: list[tuple[Mapping[str, str], str]] = [
        ({}, "gateway identity-key"),
        ({VARIABLE: "", f"{VARIABLE}_FILE": ""}, "is set"),
        ({VARIABLE: PEM, f"{VARIABLE}_FILE": "x"}, "both set"),
        ({VARIABLE: "c2VjcmV0"}, "cannot be used"),
        ({VARIABLE: PUBLIC}, "cannot be used"),
        ({f"{VARIABLE}_FILE": str(tmp_path / "missing")}, "No such file"),
        ({f"{VARIABLE}_FILE": str(tmp_path)}, "cannot be read"),
        ({f"{VARIABLE}_FILE": str(large)}, "too large"),
        ({f"{VARIABLE}_FILE": str(binary)}, "no text file"),
    ]
    for environment, said in cases:
        result = run("--public", environment=environment)
        assert result.exit_code == 1
        assert result.stdout == ""
        assert said in result.stderr
        assert "c2VjcmV0" not in result.stderr
        assert PEM.splitlines()[1] not in result.stderr
        assert "Traceback" not in result.output


def test_wrong_usage_is_exit_code_2_and_help_has_examples() -> None:
    assert run("--nothing").exit_code == 2
    result = run("--help")
    assert result.exit_code == 0
    assert "gateway identity-key --public" in result.stdout
