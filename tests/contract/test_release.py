"""A release: what is built installs and runs away from the repository, and says what it is made of."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = PROJECT["version"]
PROGRAMS = sorted(PROJECT["scripts"])


def built(source: Path, into: Path, *targets: str) -> None:
    """What `hatchling build` makes of a folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(into)]
    for target in targets:
        command += ["-t", target]
    made = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=100, check=False)
    assert made.returncode == 0, made.stderr


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    built(ROOT, folder, "wheel", "sdist")
    return folder


@pytest.fixture(scope="module")
def wheel(release: Path) -> Path:
    (found,) = release.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel alone in a folder; what it depends on is where the tests' own packages are."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run(installed: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python, somewhere else, with the installed package in place of the repository's."""
    packages = sysconfig.get_paths()["purelib"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GATEWAY", "PYTHON"))}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=installed.parent,
        env=environment | {"PYTHONPATH": f"{installed}{os.pathsep}{packages}", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_everything_that_is_not_python_too(wheel: Path) -> None:
    names = names_in(wheel)
    repository = {
        path.relative_to(ROOT).as_posix()
        for package in ("common", "controlplane", "dataplane")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    migrations = {
        f"controlplane/migrations/{path.relative_to(ROOT / 'alembic').as_posix()}"
        for path in (ROOT / "alembic").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert repository | migrations <= names
    assert {name for name in names if "dist-info" not in name} == repository | migrations


def test_the_source_release_makes_the_same_wheel(release: Path, wheel: Path, tmp_path: Path) -> None:
    (archive,) = release.glob("*.tar.gz")
    with tarfile.open(archive) as sources:
        sources.extractall(tmp_path, filter="data")
    built(tmp_path / f"wicketgate-{VERSION}", tmp_path / "again", "wheel")
    (again,) = (tmp_path / "again").glob("*.whl")
    assert names_in(again) == names_in(wheel)


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_program_runs_from_what_was_installed(installed: Path, program: str) -> None:
    module, _, function = PROJECT["scripts"][program].partition(":")
    code = (
        f"import sys; import {module} as found; sys.argv[0] = {program!r}\n"
        f"assert found.__file__.startswith({str(installed)!r}), found.__file__\n"
        f"found.{function}()"
    )
    told = run(installed, code, "--help")
    assert told.returncode == 0, told.stderr
    assert program in told.stdout


def test_the_installed_gateway_judges_a_table(installed: Path) -> None:
    table = str(ROOT / "deploy/examples/routes.json")
    told = run(installed, "from dataplane.cli import main; main()", "check", table)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "is valid" in told.stdout


def test_the_entry_points_are_those_of_the_project() -> None:
    ours = {each.name: each.value for each in entry_points(group="console_scripts") if each.name in PROGRAMS}
    assert ours == PROJECT["scripts"]


def test_one_version_everywhere() -> None:
    chart = yaml.safe_load((ROOT / "deploy/helm/wicketgate/Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)
    (newest, *_) = re.findall(r"^## (\S+?),? ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest == VERSION
    assert json.loads((ROOT / "openapi/control.json").read_text())["info"]["version"]


def test_the_bill_of_materials_names_each_locked_package_with_its_hashes(tmp_path: Path) -> None:
    """What a scanner of vulnerabilities reads, made by `make sbom`."""
    writer = Path(sys.executable).with_name("cyclonedx-py")
    target = tmp_path / "sbom.json"
    made = subprocess.run(
        [writer, "requirements", ROOT / "requirements.lock", "--output-reproducible", "--of", "JSON", "-o", target],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    found = {each["name"].lower(): each for each in json.loads(target.read_text())["components"]}
    locked = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert len(locked) > 20
    for name, version in locked:
        component = found[name.lower()]
        assert component["version"] == version
        assert [each for reference in component["externalReferences"] for each in reference.get("hashes", ())]
