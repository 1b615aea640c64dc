"""The image: what it is made of is there, and it runs as nobody."""

from __future__ import annotations

import re

import pytest

from tests.support.counterparts import require_package
from tests.support.deployments import DEPLOY, ROOT, told

CONTAINERFILE = DEPLOY / "container/Containerfile"
STAGES = re.split(r"^FROM ", CONTAINERFILE.read_text(), flags=re.MULTILINE)[1:]


def test_a_linter_of_container_files_finds_nothing() -> None:
    linted = told(require_package("hadolint"), CONTAINERFILE)
    assert (linted.returncode, linted.stdout) == (0, "")


def test_everything_that_is_copied_exists_and_reaches_the_builder() -> None:
    """A file that `.dockerignore` keeps back is missing from the image alone."""
    admitted = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", CONTAINERFILE.read_text(), re.MULTILINE)
    names = {name for line in copied for name in line.split()}
    assert {"requirements.lock", "pyproject.toml", "dataplane"} <= names == admitted
    assert all((ROOT / name).exists() for name in names)


def test_nothing_that_could_be_secret_reaches_the_builder() -> None:
    assert (ROOT / ".dockerignore").read_text().splitlines()[1] == "*"


def test_the_last_stage_runs_nothing_as_root_and_has_no_build_tool() -> None:
    last = STAGES[-1]
    assert not re.search(r"^(RUN|ADD)", last, re.MULTILINE)
    assert re.search(r"^USER (\d+):\d+$", last, re.MULTILINE)
    assert not re.search(r"^USER 0", last, re.MULTILINE)
    assert re.findall(r"^COPY (.*)$", last, re.MULTILINE) == ["--from=build /opt/wicketgate /opt/wicketgate"]
    assert re.search(r'^CMD \["gateway", "run"\]$', last, re.MULTILINE)


@pytest.mark.parametrize("stage", STAGES)
def test_what_is_installed_is_pinned_by_hash_and_never_compiled(stage: str) -> None:
    for command in re.findall(r"pip install[^&\\]*", stage):
        assert "--require-hashes" in command or "--no-index" in command
        assert "--only-binary :all:" in command or "--no-index" in command
