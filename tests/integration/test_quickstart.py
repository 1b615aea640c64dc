"""The quick start, done as it says: its commands are read from the page and run by a shell."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.support.counterparts import require_program
from tests.support.ports import free_port
from tests.support.processes import Children

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
DEMO, OWN, LOGIN = re.split(r"^## .*$", (ROOT / "docs/quickstart.md").read_text(), flags=re.MULTILINE)[1:]
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}


def lines_of(section: str) -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return [line for block in blocks for line in block.replace("\\\n", "").splitlines()]


def is_set_up(venv: Path) -> bool:
    """Whether `deploy/run` made this environment of the locks that are here: then it installs nothing."""
    wanted = {"test": ["requirements-test.lock"], "project": ["pyproject.toml", "requirements-build.lock"]}
    for name, files in wanted.items():
        made_of = f"{platform.python_version()}\n".encode() + b"".join((ROOT / file).read_bytes() for file in files)
        stamp = venv / f"stamp-{name}"
        if not stamp.exists() or stamp.read_text().strip() != hashlib.sha256(made_of).hexdigest():
            return False
    return True


def test_the_command_of_the_demo_starts_it(children: Children) -> None:
    if not is_set_up(Path(sys.prefix)):
        pytest.skip("the tests do not run in an environment that deploy/run made")
    (command,) = lines_of(DEMO)
    child = children.start(["sh", "-c", f"exec {command}"], env={**ENVIRONMENT, "VENV": sys.prefix}, cwd=ROOT)
    address = child.wait_for_line(r"Open +(http://\S+)", within_s=60)[1]
    child.wait_for_line("Ctrl-C ends it")
    # Each part of the page's table is told, and the first page is there.
    for part in ("member@example.test", "guest@example.test", "Routes ", "Console "):
        assert part in child.output
    assert "Wicketgate" in httpx.get(address, headers={"accept": "text/html"}).text
    child.interrupt()
    assert child.wait() == 0


def test_a_gateway_of_ones_own_starts_with_the_commands_of_the_page(children: Children, tmp_path: Path) -> None:
    (table,) = re.findall(r"```json\n(.*?)```", OWN, re.DOTALL)
    (tmp_path / "routes.json").write_text(table)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    *before, last = lines_of(OWN)
    assert len(before) >= 2
    for command in before:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=tmp_path,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        assert " explain " not in command or "everything" in done.stdout

    port = serve(children, tmp_path, command=last)
    require_program("curl")
    (question,) = re.findall(r"`(curl http://localhost:8080/[^`]*)`", OWN)
    told = subprocess.run(
        question.replace("8080", str(port)).split(), capture_output=True, text=True, timeout=30, check=True
    ).stdout
    assert json.loads(told)["config"]["loaded"] is True

    # Then with a login. The provider of the page is nobody's, and is not asked before somebody logs in.
    (tmp_path / "routes.json").write_text(table.replace('"none"', '"session"'))
    (tmp_path / "client-secret").write_text("of-the-client-0123456789")
    (command,) = lines_of(LOGIN)
    address = f"http://localhost:{serve(children, tmp_path, command=command)}/"
    answer = httpx.get(address, headers={"accept": "text/html"})
    assert (answer.status_code, answer.headers["location"]) == (302, "/auth/login?redirect=%2F")


def serve(children: Children, folder: Path, *, command: str) -> int:
    """Run a command that serves; the port, which is another than the page's."""
    port = free_port()
    environment = {**ENVIRONMENT, "GATEWAY_PORT": str(port)}
    gateway = children.start(["sh", "-c", f"exec env {command}"], env=environment, cwd=folder)
    gateway.wait_for_line('"msg":"listening"', within_s=30)
    return port
