"""The chart as Helm itself sees it: its library, in a process of its own, so that no Go runtime stays in the tests'.

`python -m tests.support.helm lint|render CHART < VALUES` prints what Helm found or rendered, or fails with its words.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.counterparts import missing
from tests.support.deployments import ROOT, told


def ask_helm(command: str, chart: Path, values: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """What Helm says; 0 and JSON on its standard output, or 1 and its reason on the other."""
    if importlib.util.find_spec("helm_python") is None:
        missing("helm", "its library is in the dependency group `test`, for Linux on x86-64")
    return told(sys.executable, "-m", __name__, command, chart, cwd=ROOT, given=json.dumps(values))


def render(chart: Path, values: dict[str, Any]) -> dict[str, str]:
    """The text of each template, by its file's name; for the release `edge`."""
    return _rendered(chart, json.dumps(values))


@functools.cache
def _rendered(chart: Path, values: str) -> dict[str, str]:
    answer = ask_helm("render", chart, json.loads(values))
    assert answer.returncode == 0, answer.stderr
    files: dict[str, str] = json.loads(answer.stdout)
    return {Path(name).name: text for name, text in files.items()}


def _main(command: str, place: str) -> None:
    import helm_python  # where it is missing, the tests say so

    values = json.load(sys.stdin)
    try:
        if command == "lint":
            found = helm_python.lint(place, values)
        else:
            with helm_python.Chart.load(place) as chart:
                found = chart.render(values, name="edge", namespace="default")
    except helm_python.HelmError as error:
        sys.exit(str(error))
    print(json.dumps(found))


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2])
