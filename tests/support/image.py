"""What the image's last stage holds, and a place to run it as a container would: without Docker, and without a network.

The packages of `requirements.lock` come from the tests' own environment, which has them at the same versions; the wheel
is built anew. So a package that only the tests have, or a file that only the repository has, is missing there.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import venv
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

from tests.support.deployments import ROOT, told

NOBODY = "65532"
# A mount namespace of its own: no way to the repository, everything read-only, a user without any right.
_AS_A_CONTAINER = r"""
set -eu
base=$1 closed=$2 kept=$3 repository=$4
shift 4
mount --make-rprivate /
if [ -n "$closed" ]; then
    # The interpreter of whoever runs the tests, where nobody else may enter.
    mount --bind "$base" "$kept"
    mount -t tmpfs -o mode=755 tmpfs "$closed"
    mkdir -p "$base"
    mount --bind "$kept" "$base"
    mount -o remount,ro "$closed"
fi
[ ! -d "$repository" ] || mount -t tmpfs -o ro tmpfs "$repository"
cd /
for each in / /tmp /var/tmp; do
    ! mountpoint -q "$each" || mount -o remount,bind,ro "$each"
done
exec setpriv --reuid NOBODY --regid NOBODY --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all "$@"
""".replace("NOBODY", NOBODY)


def build_image(folder: Path) -> Path:
    """`/opt/wicketgate` of the image, in a folder that others may enter."""
    opt = folder / "opt"
    venv.create(opt, symlinks=True, with_pip=False)
    (site,) = opt.glob("lib/python3.*/site-packages")
    for line in (ROOT / "requirements.lock").read_text().splitlines():
        if re.match(r"[A-Za-z0-9]", line):
            _copy(Requirement(line.rstrip("\\ ")), site)
    wheels = folder / "dist"
    made = told(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", wheels)
    assert made.returncode == 0, made.stderr
    (wheel,) = wheels.glob("*.whl")
    pip = ("-m", "pip", "-q", "--disable-pip-version-check", "--python", opt / "bin/python")
    installed = told(sys.executable, *pip, "install", "--no-deps", "--no-index", wheel)
    assert installed.returncode == 0, installed.stderr
    return opt


def _copy(requirement: Requirement, site: Path) -> None:
    if requirement.marker is not None and not requirement.marker.evaluate():
        return
    try:
        found = distribution(requirement.name)
    except PackageNotFoundError:
        raise AssertionError(f"{requirement} is not installed here: deploy/run setup") from None
    for file in found.files or ():
        source = Path(str(found.locate_file(file)))
        if ".." not in file.parts and source.is_file():
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                target.hardlink_to(source)
            except OSError:
                # Another file system.
                shutil.copy2(source, target)


def in_container(opt: Path, *command: str | Path) -> list[str | Path]:
    """The command line that runs `command` as a container of the image would, with `opt/bin` before the system's."""
    base = Path(sys.base_prefix).resolve()
    closed = next((each for each in reversed(base.parents) if not each.stat().st_mode & 0o001), "")
    kept = opt.parent / "base"
    kept.mkdir(exist_ok=True)
    return ["unshare", "--mount", "sh", "-c", _AS_A_CONTAINER, "sh", base, closed, kept, ROOT, *command]


def environment_in(opt: Path) -> dict[str, str]:
    """What the Containerfile sets, and nothing of the tests'."""
    path = os.pathsep.join((str(opt / "bin"), "/usr/bin", "/bin"))
    return {"PATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "GATEWAY_ENV": "production"}
