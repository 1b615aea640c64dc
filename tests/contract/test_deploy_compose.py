"""The compose file: every program in it would start with what it is given, and may do no more than it must."""

from __future__ import annotations

import asyncio
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import yaml

from controlplane.migrate import run_migrations
from tests.support.deployments import DEPLOY, problems_of, told
from tests.support.postgres import Postgres, open_folder, start_postgres
from tests.support.processes import Children

COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose/compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {
    "gateway": "gateway",
    "control": "gateway-control",
    "access": "gateway-access",
    "migrate": "gateway-control migrate",
}
ADDRESSES = {"PUBLIC_URL": "https://app.example.com", "OIDC_ISSUER": "https://login.example.com"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the folder, with its secrets made."""
    folder = tmp_path_factory.mktemp("compose") / "compose"
    shutil.copytree(DEPLOY / "compose", folder, ignore=shutil.ignore_patterns("secrets", ".env"))
    made = told(folder / "make-secrets", *ADDRESSES.values(), cwd=folder)
    assert made.returncode == 0, made.stderr
    assert "oidc_client_secret" in made.stdout
    (folder / "secrets/oidc_client_secret").write_text("6c9b3a5e1f7d4c20a8b9e3d7f1c5a6042f6e8d9c0b1a3e57\n")
    return folder


def environment_of(service: str) -> dict[str, str]:
    """As compose hands it over, the variables of `.env` put in."""
    environment = SERVICES[service]["environment"]
    return {
        name: re.sub(r"\$\{(\w+):\?[^}]*\}", lambda found: ADDRESSES[found[1]], value)
        for name, value in environment.items()
    }


@pytest.mark.parametrize(("service", "program"), OURS.items())
def test_a_program_starts_with_the_environment_and_secrets_of_its_service(
    folder: Path, service: str, program: str
) -> None:
    given = {each if isinstance(each, str) else each["source"] for each in SERVICES[service].get("secrets", ())}

    def read(path: str) -> bytes:
        name = path.removeprefix("/run/secrets/")
        assert name in given
        return (folder / COMPOSE["secrets"][name]["file"]).read_bytes()

    assert problems_of(program, environment_of(service), read) == []
    assert SERVICES[service]["command"][: len(program.split())] in (program.split(), [program, "run"], [program])


@pytest.mark.parametrize("service", SERVICES)
def test_whatever_a_service_names_is_declared_and_there(folder: Path, service: str) -> None:
    for kind in ("secrets", "configs"):
        for each in SERVICES[service].get(kind, ()):
            name = each if isinstance(each, str) else each["source"]
            declared = folder / COMPOSE[kind][name]["file"]
            there = DEPLOY / "compose" / COMPOSE[kind][name]["file"] if kind == "configs" else declared
            assert there.is_file()
    for other in SERVICES[service].get("depends_on", ()):
        assert other in SERVICES
    assert set(SERVICES[service]["networks"]) <= set(COMPOSE["networks"])


@pytest.mark.parametrize("service", OURS)
def test_a_program_may_write_nothing_and_gain_nothing(service: str) -> None:
    given = SERVICES[service]
    assert given["read_only"] is True
    assert given["cap_drop"] == ["ALL"]
    assert given["security_opt"] == ["no-new-privileges:true"]


def test_only_the_gateway_is_published_beyond_this_machine() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"gateway": ["8080:8080"], "control": ["127.0.0.1:8081:8081"]}


def test_secrets_are_made_once_and_are_nobody_elses(folder: Path) -> None:
    secrets = folder / "secrets"
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700
    before = {path.name: path.read_bytes() for path in secrets.iterdir()}
    again = told(folder / "make-secrets", *ADDRESSES.values(), cwd=folder)
    assert again.stdout == "made: nothing new\n"
    assert {path.name: path.read_bytes() for path in secrets.iterdir()} == before
    assert len(set(before.values())) == len(before)


def test_a_wrong_call_says_how_it_is_made(folder: Path) -> None:
    wrong = told(folder / "make-secrets", cwd=folder)
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("usage: ")


@pytest.fixture(scope="module")
def empty() -> Iterator[Postgres]:
    with Children() as children, open_folder() as place:
        yield start_postgres(children, place / "server")


@pytest.fixture
async def prepared(empty: Postgres, folder: Path) -> Postgres:
    """Postgres after the services `postgres`, `migrate` and `grant` did what they do."""
    script = (DEPLOY / "compose/users.sh").read_text()
    users = re.findall(r"^CREATE ROLE .*$", script, re.MULTILINE)
    for statement in users:
        name = re.findall(r":'(\w+)'", statement)[0]
        password = (folder / f"secrets/{name}_password").read_text().strip()
        await empty.run(statement.replace(f":'{name}'", f"'{password}'"))
    await asyncio.to_thread(run_migrations, empty.url, "gateway")
    grants = (DEPLOY / "compose/grant.sql").read_text()
    await empty.run(*[line for line in grants.splitlines() if line.startswith("GRANT")])
    return empty


async def test_each_program_reaches_the_state_with_its_own_rights(prepared: Postgres, folder: Path) -> None:
    def url(name: str) -> str:
        text = (folder / f"secrets/{name}").read_text().strip()
        return text.replace("@postgres/gateway", f"@127.0.0.1:{prepared.port}/postgres")

    data, control = url("state_url"), url("control_state_url")
    ((beat,), _) = await prepared.run(
        "SELECT gateway.now_ms() > 0 AS lives", "SELECT count(*) FROM gateway.sessions", url=data
    )
    assert beat["lives"]
    await prepared.run("SELECT count(*) FROM gateway.audit", url=control)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await prepared.run("SELECT count(*) FROM gateway.audit", url=data)
