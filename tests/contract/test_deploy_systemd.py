"""The systemd units: valid, tight, and with an environment that the programs start with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.counterparts import require_program
from tests.support.deployments import DEPLOY, problems_of, told

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
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
    "gateway-control": {},
    "gateway-control migrate": {},
}


def program_of(unit: Path) -> str:
    (command,) = re.findall(r"^ExecStart=/opt/wicketgate/bin/(.*)$", unit.read_text(), re.MULTILINE)
    return command.removesuffix(" run")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_takes_it_without_a_word(unit: Path, tmp_path: Path) -> None:
    verify = require_program("systemd-analyze")
    # The programs are not installed here, and their documentation is not either.
    text = re.sub(r"/opt/wicketgate/bin/\S+", "/bin/true", unit.read_text())
    text = "\n".join(line for line in text.splitlines() if not line.startswith(("Documentation=", "Before=")))
    (tmp_path / unit.name).write_text(text)
    verified = told(verify, "verify", tmp_path / unit.name)
    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_it_may_do_little(unit: Path) -> None:
    """systemd's own scale, from 0 to 10: below 2 is what it calls well protected."""
    analyze = require_program("systemd-analyze")
    judged = told(analyze, "security", "--offline=true", "--threshold=20", "--no-pager", unit)
    assert judged.returncode == 0, judged.stdout[-400:]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_its_program_starts_with_what_the_unit_hands_over(unit: Path) -> None:
    text, program = unit.read_text(), program_of(unit)
    environment = dict(re.findall(r"^Environment=(\w+)=(.*)$", text, re.MULTILINE))
    loaded = set(re.findall(r"^LoadCredential=(\w+):", text, re.MULTILINE))
    files = {value.removeprefix("%d/") for value in environment.values() if value.startswith("%d/")}
    assert files == loaded
    assert problems_of(program, environment | OF_THE_OPERATOR[program]) == []


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_no_secret_stands_in_a_unit(unit: Path) -> None:
    """A unit's text and environment can be read by everybody on the machine; credentials only by the unit."""
    names = [name for name, _ in re.findall(r"^Environment=(\w+)=(.*)$", unit.read_text(), re.MULTILINE)]
    assert all(name.endswith("_FILE") or name == "GATEWAY_ENV" for name in names)
