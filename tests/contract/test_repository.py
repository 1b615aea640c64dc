"""The repository keeps its promises: commands exist, links lead somewhere, locks are whole and name no address."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.counterparts import require_package

ROOT = Path(__file__).parents[2]
LOCKS = (
    "requirements.lock",
    "requirements-otel.lock",
    "requirements-test.lock",
    "requirements-build.lock",
    "requirements-node.lock",
    "requirements-audit.lock",
)
SCRIPTS = [ROOT / name for name in ("deploy/run", ".ci/run", "deploy/compose/make-secrets", "deploy/compose/users.sh")]
LARGEST_FILE_BYTES = 1_048_576

# Hosts that serve packages; a file that names one breaks behind a mirror.
REGISTRIES = re.compile(
    r"pypi\.org|pythonhosted\.org|npmjs\.(org|com)|npmmirror|deb\.debian\.org|nodesource|ghcr\.io|docker\.io",
    re.IGNORECASE,
)


def _tracked() -> list[Path]:
    """The repository's files; the folder's own where there is no git."""
    told = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, timeout=20, check=False)
    if told.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in told.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def _documents() -> list[Path]:
    return [path for path in _tracked() if path.suffix == ".md"]


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def _pins(lock: str) -> dict[str, str]:
    lines = (ROOT / lock).read_text().splitlines()
    pins = [match for line in lines if (match := re.match(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)", line))]
    return {canonicalize_name(match[1]): match[2] for match in pins}


def _shell_blocks(document: Path) -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", document.read_text(), re.DOTALL)
    return [
        line.strip() for block in blocks for line in block.splitlines() if line.strip() and not line.startswith("#")
    ]


def test_the_readme_has_the_two_commands_each_on_one_line() -> None:
    assert _shell_blocks(ROOT / "README.md") == ["deploy/run dev", "deploy/run test"]


def test_every_target_and_command_of_the_script_that_a_document_shows_exists() -> None:
    script, makefile = (ROOT / "deploy/run").read_text(), (ROOT / "Makefile").read_text()
    for document in _documents():
        for line in _shell_blocks(document):
            words = [word for word in line.split() if "=" not in word.partition("/")[0]]
            if words and words[0] == "deploy/run":
                assert re.search(rf"^{words[1]}\)$", script, re.MULTILINE), f"{document.name}: {line}"
            elif words and words[0] == "make":
                assert f"\n{words[1]}:" in makefile, f"{document.name}: {line}"


def test_every_link_of_a_document_leads_to_a_file() -> None:
    broken = [
        f"{document.relative_to(ROOT)}: {target}"
        for document in _documents()
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text())
        if "://" not in target and not (document.parent / target).exists()
    ]
    assert broken == []


def test_the_index_lists_every_document() -> None:
    index = (ROOT / "docs/index.md").read_text()
    missing = [
        str(path.relative_to(ROOT / "docs"))
        for path in _documents()
        if path.is_relative_to(ROOT / "docs") and path.name not in {"index.md", "README.md"}
        if f"({path.relative_to(ROOT / 'docs')})" not in index
    ]
    assert missing == []


def test_decisions_are_numbered_without_a_gap() -> None:
    numbers = sorted(int(path.name[:4]) for path in (ROOT / "docs/decisions").glob("*.md"))
    assert numbers == list(range(1, len(numbers) + 1))


def test_no_file_names_a_package_registry() -> None:
    """A lock with an address breaks behind a mirror; `make lock` and npm's settings keep them out."""
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in _tracked()
        if path != Path(__file__)
        if (match := REGISTRIES.search(path.read_text(encoding="utf-8", errors="ignore"))) is not None
    ]
    assert found == []


@pytest.mark.parametrize("lock", LOCKS)
def test_each_pin_of_a_lock_has_a_hash_and_no_address(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert "://" not in text
    entries = re.split(r"\n(?=[A-Za-z0-9])", "\n".join(line for line in text.splitlines() if not line.startswith("#")))
    assert entries
    assert [entry for entry in entries if "==" not in entry or "--hash=sha256:" not in entry] == []


def test_the_locks_hold_every_declared_dependency_in_its_range() -> None:
    project = _project()
    groups = project["dependency-groups"]
    wanted = {
        "requirements.lock": project["project"]["dependencies"],
        "requirements-otel.lock": project["project"]["optional-dependencies"]["otel"],
        "requirements-test.lock": [*project["project"]["dependencies"], *groups["test"], *groups["bench"]],
        "requirements-build.lock": groups["build"],
        "requirements-node.lock": groups["node"],
        "requirements-audit.lock": groups["audit"],
    }
    for lock, requirements in wanted.items():
        pins = _pins(lock)
        for requirement in map(Requirement, requirements):
            pinned = pins.get(canonicalize_name(requirement.name))
            assert pinned is not None, f"{lock} lacks {requirement.name}: make lock"
            assert requirement.specifier.contains(pinned, prereleases=True), f"{lock} pins {requirement.name} {pinned}"


def test_tests_run_on_the_versions_that_are_deployed() -> None:
    tested = _pins("requirements-test.lock")
    for lock in ("requirements.lock", "requirements-otel.lock"):
        deployed = _pins(lock)
        assert {name: tested.get(name) for name in deployed} == deployed


def test_npm_locks_hold_hashes_and_no_address() -> None:
    for path in _tracked():
        if path.name != "package-lock.json":
            continue
        packages = json.loads(path.read_text())["packages"]
        assert [name for name, entry in packages.items() if "resolved" in entry] == []
        assert [name for name, entry in packages.items() if name and "integrity" not in entry] == []


def test_no_file_is_large() -> None:
    large = [str(path.relative_to(ROOT)) for path in _tracked() if path.stat().st_size > LARGEST_FILE_BYTES]
    assert large == []


def test_the_licence_is_the_one_that_is_declared() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert _project()["project"]["license"] == "Apache-2.0"


def test_scripts_can_be_executed_and_parsed() -> None:
    for script in SCRIPTS:
        assert script.stat().st_mode & 0o111
        subprocess.run(["sh", "-n", str(script)], timeout=10, check=True)


def test_a_linter_of_shell_scripts_finds_nothing() -> None:
    command = [require_package("shellcheck"), "--severity=style", *map(str, SCRIPTS)]
    linted = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert linted.returncode == 0, linted.stdout


def test_nothing_shadows_the_migrations_library() -> None:
    assert not (ROOT / "alembic/__init__.py").exists()
