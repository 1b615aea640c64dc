"""The compose file: every program in it would start with what it is given, and may do no more than it must."""

from __future__ import annotations

import asyncio
import json
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
from tests.support.counterparts import require_package
from tests.support.deployments import DEPLOY, problems_of, told
from tests.support.postgres import Postgres, open_folder, start_postgres
from tests.support.processes import Children

SERVICES = sorted(yaml.safe_load((DEPLOY / "compose/compose.yaml").read_text())["services"])
ALONE, WITH_FILES, WITH_ACME = ("compose",), ("compose", "tls"), ("compose", "acme")
OURS = {
    "gateway": "gateway",
    "control": "gateway-control",
    "access": "gateway-access",
    "migrate": "gateway-control migrate",
}
ADDRESSES = ("https://app.example.com", "https://login.example.com")
ACME = (
    "ACME_DIRECTORY=https://ca.example.com/directory\nACME_NAMES=app.example.com\nACME_EMAIL=a@example.com\nWORKERS=2\n"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the folder, with its secrets made."""
    deploy = tmp_path_factory.mktemp("compose")
    folder = deploy / "compose"
    shutil.copytree(DEPLOY / "compose", folder, ignore=shutil.ignore_patterns("secrets", ".env"))
    shutil.copytree(DEPLOY / "examples", deploy / "examples")
    (folder / ".env").write_text(ACME)
    made = told(folder / "make-secrets", *ADDRESSES, cwd=folder)
    assert made.returncode == 0, made.stderr
    assert "oidc_client_secret" in made.stdout
    (folder / "secrets/oidc_client_secret").write_text("6c9b3a5e1f7d4c20a8b9e3d7f1c5a6042f6e8d9c0b1a3e57\n")
    return folder


def model(folder: Path, files: tuple[str, ...] = ALONE) -> dict[str, Any]:
    """What Docker Compose makes of the files, with the folder's `.env`."""
    options = [part for name in files for part in ("-f", folder / f"{name}.yaml")]
    shown = told(require_package("docker-compose"), *options, "config", "--format", "json")
    # A warning is something that Compose leaves out.
    assert (shown.returncode, shown.stderr) == (0, "")
    made: dict[str, Any] = json.loads(shown.stdout)
    return made


@pytest.mark.parametrize("files", [ALONE, WITH_FILES, WITH_ACME], ids="+".join)
@pytest.mark.parametrize(("service", "program"), OURS.items())
def test_a_program_starts_with_the_environment_and_secrets_of_its_service(
    folder: Path, service: str, program: str, files: tuple[str, ...]
) -> None:
    compose = model(folder, files)
    given = compose["services"][service]
    secrets = {each["target"]: Path(compose["secrets"][each["source"]]["file"]) for each in given["secrets"]}
    assert problems_of(program, given["environment"], lambda path: secrets[path].read_bytes()) == []
    assert given["command"][: len(program.split())] in (program.split(), [program, "run"], [program])


@pytest.mark.parametrize("service", SERVICES)
def test_whatever_a_service_names_is_there(folder: Path, service: str) -> None:
    """That it is declared, Compose sees to itself."""
    compose = model(folder)
    for kind in ("secrets", "configs"):
        for each in compose["services"][service].get(kind) or ():
            assert Path(compose[kind][each["source"]]["file"]).is_file()


@pytest.mark.parametrize("files", [WITH_FILES, WITH_ACME], ids="+".join)
def test_with_tls_callers_come_to_its_port_alone(folder: Path, files: tuple[str, ...]) -> None:
    """Port 8080 would be a way around the redirect, and around a firewall that knows 80 and 443."""
    given = model(folder, files)["services"]["gateway"]
    assert {each["published"]: each["target"] for each in given["ports"]} == {"80": 8080, "443": 8443}


def test_certificates_are_read_where_they_are_mounted(folder: Path) -> None:
    given = model(folder, WITH_FILES)["services"]["gateway"]
    (volume,) = given["volumes"]
    assert (volume["source"], volume["read_only"]) == (str(folder / "tls"), True)
    for name in ("GATEWAY_TLS_CERT", "GATEWAY_TLS_KEY"):
        assert Path(given["environment"][name]).parent == Path(volume["target"])


def test_an_authority_that_is_not_named_is_asked_for(folder: Path) -> None:
    named = (folder / ".env").read_text()
    (folder / ".env").write_text(named.replace("ACME_DIRECTORY", "ACME_NOTHING"))
    options = ["-f", folder / "compose.yaml", "-f", folder / "acme.yaml", "config", "-q"]
    refused = told(require_package("docker-compose"), *options)
    (folder / ".env").write_text(named)
    assert refused.returncode != 0
    assert "name the directory of your authority" in refused.stderr


@pytest.mark.parametrize("service", OURS)
def test_a_program_may_write_nothing_and_gain_nothing(folder: Path, service: str) -> None:
    given = model(folder)["services"][service]
    assert given["read_only"] is True
    assert given["cap_drop"] == ["ALL"]
    assert given["security_opt"] == ["no-new-privileges:true"]


def test_only_the_gateway_is_published_beyond_this_machine(folder: Path) -> None:
    services = model(folder)["services"]
    ports = [
        (name, each.get("host_ip"), each["published"]) for name in services for each in services[name].get("ports", ())
    ]
    assert sorted(ports, key=str) == [("control", "127.0.0.1", "8081"), ("gateway", None, "8080")]


def test_secrets_are_made_once_and_are_nobody_elses(folder: Path) -> None:
    secrets = folder / "secrets"
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700
    before = {path.name: path.read_bytes() for path in secrets.iterdir()}
    again = told(folder / "make-secrets", *ADDRESSES, cwd=folder)
    assert again.stdout == "made: nothing new\n"
    assert {path.name: path.read_bytes() for path in secrets.iterdir()} == before
    assert sorted((folder / ".env").read_text().splitlines()) == sorted(
        [*ACME.splitlines(), f"PUBLIC_URL={ADDRESSES[0]}", f"OIDC_ISSUER={ADDRESSES[1]}"]
    )
    assert len(set(before.values())) == len(before)


def test_a_secret_that_is_taken_away_is_made_anew_and_no_other(folder: Path) -> None:
    """How docs/secrets.md has one changed."""
    secrets = folder / "secrets"
    before = {path.name: path.read_bytes() for path in secrets.iterdir()}
    (secrets / "session_secret").unlink()
    again = told(folder / "make-secrets", *ADDRESSES, cwd=folder)
    assert again.stdout == "made: session_secret\n"
    after = {path.name: path.read_bytes() for path in secrets.iterdir()}
    assert {name for name in before if after[name] != before[name]} == {"session_secret"}


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
