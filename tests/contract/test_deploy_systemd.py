"""The systemd units: valid, tight, and with an environment that the programs start with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.counterparts import require_program
from tests.support.deployments import DEPLOY, problems_of, told

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
DROP_INS = sorted((DEPLOY / "systemd").glob("*.conf"))
# What the unit's EnvironmentFile holds: addresses, no secrets.
OF_THE_OPERATOR = {
    "gateway": {
        "GATEWAY_CONFIG": "/etc/wicketgate/routes.json",
        "GATEWAY_PUBLIC_URL": "https://app.example.com",
        "GATEWAY_OIDC_ISSUER": "https://login.example.com",
        "GATEWAY_OIDC_CLIENT_ID": "app",
        "GATEWAY_OIDC_AUDIENCE": "app",
        "GATEWAY_ACCESS_URL": "http://access:8090",
    },
    "gateway-access": {},
    "gateway-challenges": {},
    "gateway-control": {},
    "gateway-control migrate": {},
}


OF_THE_AUTHORITY = {
    "GATEWAY_ACME_DIRECTORY": "https://ca.example.com/directory",
    "GATEWAY_ACME_NAMES": "app.example.com",
    "GATEWAY_ACME_EMAIL": "operations@example.com",
}


def program_of(unit: Path) -> str:
    (command,) = re.findall(r"^ExecStart=/opt/wicketgate/bin/(.*)$", unit.read_text(), re.MULTILINE)
    # A file that it is given is no part of its name.
    return command.partition(" /")[0].removesuffix(" run")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_takes_it_without_a_word(unit: Path, tmp_path: Path) -> None:
    verify = require_program("systemd-analyze")
    # The programs are not installed here, and their documentation is not either.
    text = re.sub(r"/opt/wicketgate/bin/\S+", "/bin/true", unit.read_text())
    text = "\n".join(line for line in text.splitlines() if not line.startswith(("Documentation=", "Before=")))
    (tmp_path / unit.name).write_text(text)
    for drop_in in DROP_INS if unit.stem == "wicketgate-gateway" else ():
        place = tmp_path / f"{unit.name}.d"
        place.mkdir(exist_ok=True)
        (place / drop_in.name).write_text(drop_in.read_text())
        verified = told(verify, "verify", tmp_path / unit.name)
        assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")
        (place / drop_in.name).unlink()
    verified = told(verify, "verify", tmp_path / unit.name)
    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_it_may_do_little(unit: Path) -> None:
    """systemd's own scale, from 0 to 10: below 2 is what it calls well protected."""
    analyze = require_program("systemd-analyze")
    judged = told(analyze, "security", "--offline=true", "--threshold=20", "--no-pager", unit)
    assert judged.returncode == 0, judged.stdout[-400:]


def handed_over(text: str) -> dict[str, str]:
    """The variables of a unit or a drop-in, each credential that one names loaded."""
    environment = dict(re.findall(r"^Environment=(\w+)=(.*)$", text, re.MULTILINE))
    loaded = set(re.findall(r"^LoadCredential=(\w+):", text, re.MULTILINE))
    assert {value.removeprefix("%d/") for value in environment.values() if value.startswith("%d/")} == loaded
    return environment


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_its_program_starts_with_what_the_unit_hands_over(unit: Path) -> None:
    program = program_of(unit)
    assert problems_of(program, handed_over(unit.read_text()) | OF_THE_OPERATOR[program]) == []


@pytest.mark.parametrize("drop_in", DROP_INS, ids=lambda drop_in: drop_in.stem)
def test_the_gateway_starts_with_what_a_drop_in_adds(drop_in: Path) -> None:
    environment = handed_over((DEPLOY / "systemd/wicketgate-gateway.service").read_text())
    environment |= OF_THE_OPERATOR["gateway"] | handed_over(drop_in.read_text())
    assert problems_of("gateway", environment | (OF_THE_AUTHORITY if drop_in.stem == "acme" else {})) == []


@pytest.mark.parametrize("unit", [*UNITS, *DROP_INS], ids=lambda unit: unit.stem)
def test_no_secret_stands_in_a_unit(unit: Path) -> None:
    """A unit's text and environment can be read by everybody on the machine; credentials only by the unit."""
    for name, value in handed_over(unit.read_text()).items():
        assert value.startswith(("%d/", "/etc/wicketgate/")) or name in {
            "GATEWAY_ENV", "GATEWAY_PORT", "GATEWAY_TLS_PORT"
        }  # fmt: skip
