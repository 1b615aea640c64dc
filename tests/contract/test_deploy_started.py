"""The image's programs start as in a container: as nobody, on a read-only root, with the environment of the chart."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from common.state.open import StateOptions, open_state
from tests.contract.test_deploy_chart import CHART, FROM_A_SECRET, LEAST, WITH_A_RESPONDER
from tests.support.certificates import authority, client_context, issue
from tests.support.deployments import ROOT, secret_file, told
from tests.support.gateway import Caller
from tests.support.helm import render
from tests.support.image import build_image, environment_in, in_container
from tests.support.ports import free_port
from tests.support.postgres import open_folder
from tests.support.processes import Child, Children
from tests.support.redis import start_redis

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system read-only")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Nobody listens there.
FROM_AN_AUTHORITY = LEAST | {
    "tls": {"acme": {"directory": "https://127.0.0.1:1/directory", "names": ["app.example.com"]}},
    "gateway": {"workers": 2, "shutdownSeconds": 3},
}


@pytest.fixture(scope="module")
def image() -> Iterator[Path]:
    with open_folder() as folder:
        yield build_image(folder)


def test_nothing_in_it_could_install_or_build_anything(image: Path) -> None:
    (site,) = image.glob("lib/python3.*/site-packages")
    names = {path.name.partition("-")[0].lower() for path in site.glob("*.dist-info")}
    assert {"wicketgate", "h11", "uvloop"} <= names
    assert not names & {"pip", "setuptools", "hatchling", "pytest", "mypy"}


@pytest.mark.parametrize(
    "command",
    [
        *[[name, "--help"] for name in PROJECT["scripts"]],
        ["gateway", "--version"],
        ["gateway-control", "migrate", "--help"],
    ],
    ids=" ".join,
)
def test_each_program_runs_as_nobody_on_a_read_only_root(image: Path, command: list[str]) -> None:
    environment = [f"{name}={value}" for name, value in environment_in(image).items()]
    ran = told(*in_container(image, "env", "-i", *environment, *command))
    assert ran.returncode == 0, ran.stderr
    assert command[0] in ran.stdout or PROJECT["version"] in ran.stdout


def test_the_place_is_one_where_nothing_can_be_written(image: Path) -> None:
    """Otherwise the tests beside this one would prove nothing."""
    program = "import os; print(os.getuid(), [p for p in ('/', '/tmp', '/root') if os.access(p, os.W_OK)])"
    ran = told(*in_container(image, image / "bin/python", "-c", program))
    assert ran.stdout == "65532 []\n", ran.stderr
    hidden = told(*in_container(image, "ls", ROOT))
    assert hidden.stdout == ""


def chart_environment(values: dict[str, Any], folder: Path, part: str = "gateway") -> dict[str, str]:
    """What the chart gives a program, each file that it names laid into the folder."""
    found = [each for each in yaml.safe_load_all(render(CHART, values)[f"{part}.yaml"]) if each]
    mounted = next((each["data"] for each in found if each["kind"] == "ConfigMap"), {})
    (pod,) = [each["spec"]["template"]["spec"] for each in found if each["kind"] == "Deployment"]
    shown = issue("app.example.com")
    environment = {}
    for each in pod["containers"][0]["env"]:
        name, value = each["name"], each.get("value", "edge-gateway-1")
        if value.startswith("/"):
            own = folder / Path(value).name
            held = {
                **{key: text.encode() for key, text in mounted.items()},
                "tls.crt": shown.chain,
                "tls.key": shown.key,
            }
            own.write_bytes(held.get(own.name) or secret_file(value))
            own.chmod(0o444)
            value = str(own)
        environment[name] = value
    return environment


def place(image: Path, values: dict[str, Any], state_url: str, part: str = "gateway") -> dict[str, str]:
    """The environment of a program of the chart in the image, with a state that is there."""
    folder = image.parent / f"case-{free_port()}"
    folder.mkdir()
    environment = chart_environment(values, folder, part) | environment_in(image)
    (folder / "state-url").chmod(0o644)
    (folder / "state-url").write_text(state_url)
    return environment


def started(children: Children, image: Path, values: dict[str, Any], state_url: str) -> tuple[Child, int, int]:
    environment = place(image, values, state_url)
    port, tls_port = free_port(), free_port()
    environment |= {"GATEWAY_HOST": "127.0.0.1", "GATEWAY_PORT": str(port), "GATEWAY_TLS_PORT": str(tls_port)}
    child = children.start(in_container(image, image / "bin/gateway", "run"), name="gateway", env=environment)
    child.wait_for_port(port, within_s=60)
    return child, port, tls_port


async def asked(port: int, target: str, tls: ssl.SSLContext | None = None) -> tuple[int, dict[str, Any]]:
    options = {"ssl": tls, "server_hostname": "app.example.com"} if tls else {}
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **options)
    caller = Caller(reader, writer)
    try:
        answer = await caller.ask(f"GET {target} HTTP/1.1\r\nhost: app.example.com\r\n\r\n".encode())
    finally:
        caller.close()
    return answer.status, json.loads(answer.body)


@pytest.mark.timeout(150)
async def test_the_gateway_of_the_chart_ends_tls_with_several_workers(image: Path, tmp_path: Path) -> None:
    with Children() as children:
        redis = start_redis(children, tmp_path / "redis")
        child, port, tls_port = started(children, image, FROM_A_SECRET, redis.url)
        assert (await asked(port, "/healthz"))[0] == 200
        # The store holds no table yet, and the chart's own serves meanwhile.
        status, ready = await asked(tls_port, "/readyz", client_context(authority()))
        assert (status, ready["certificates"]["source"]) == (200, "files")
        child.send(signal.SIGTERM)
        assert child.wait(within_s=40) == 0


@pytest.mark.timeout(150)
async def test_the_gateway_of_the_chart_serves_on_while_its_authority_is_away(image: Path, tmp_path: Path) -> None:
    with Children() as children:
        redis = start_redis(children, tmp_path / "redis")
        child, port, _ = started(children, image, FROM_AN_AUTHORITY, redis.url)
        status, ready = await asked(port, "/readyz")
        assert (status, ready["certificates"]["source"]) == (200, "acme")
        child.send(signal.SIGTERM)
        assert child.wait(within_s=40) == 0


async def test_the_responder_of_the_chart_answers_a_challenge_that_a_gateway_published(
    image: Path, tmp_path: Path
) -> None:
    with Children() as children:
        redis = start_redis(children, tmp_path / "redis")
        port = free_port()
        environment = place(image, WITH_A_RESPONDER, redis.url, "challenges") | {
            "GATEWAY_CHALLENGES_HOST": "127.0.0.1",
            "GATEWAY_CHALLENGES_PORT": str(port),
        }
        child = children.start(in_container(image, image / "bin/gateway-challenges"), name="responder", env=environment)
        child.wait_for_port(port, within_s=60)
        state = open_state(redis.url, StateOptions(prefix=environment["GATEWAY_STATE_PREFIX"]))
        await state.start()
        await state.publish_challenge("a-token", "its-answer", 60_000)
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.get(f"http://127.0.0.1:{port}/.well-known/acme-challenge/a-token")
        await state.close()
        assert (answer.status_code, answer.text) == (200, "its-answer")
        child.send(signal.SIGTERM)
        assert child.wait(within_s=40) == 0
