"""From the environment to the texts and values of a table of variables; every problem is collected, none raised."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from common.settings.variable import Variable

ReadFile = Callable[[str], bytes]
"""The content of a file; raises `OSError`."""

FILE_MAX_BYTES = 1_048_576
"""A secret or a list of authorities is far smaller; a path such as /dev/zero is read no further."""

# What Kubernetes injects for each Service of the namespace: `<SERVICE>_SERVICE_HOST` and its like.
_KUBERNETES = re.compile(
    r"GATEWAY(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_KUBERNETES_PORT = re.compile(r"(tcp|udp|sctp)://")
KUBERNETES_PORT_PROBLEM = (
    "{name}: holds an address that Kubernetes injects for a Service of this name, not a setting; set "
    "enableServiceLinks: false in the pod's specification, or rename the Service"
)


def read_small_file(path: str) -> bytes:
    """A file of at most `FILE_MAX_BYTES`; `OSError` for a larger one too."""
    with Path(path).open("rb") as file:
        content = file.read(FILE_MAX_BYTES + 1)
    if len(content) > FILE_MAX_BYTES:
        raise OSError(f"it is larger than {FILE_MAX_BYTES} bytes")
    return content


def read_variables(
    variables: Iterable[Variable], environ: Mapping[str, str], read_file: ReadFile, problems: list[str]
) -> tuple[dict[str, object], set[str]]:
    """The value of each variable by its name (None for an absent one), and the names that the environment sets.

    A variable with a problem is set, and has no value. A variable that is set to nothing counts as absent.
    """
    values: dict[str, object] = {}
    given: set[str] = set()
    for variable in variables:
        name = variable.name
        try:
            text = _text(variable, environ, read_file)
            values[name] = _value(variable, text)
        except ValueError as error:
            given.add(name)
            problems.append(_problem(name, environ.get(name, ""), str(error)))
        else:
            if text:
                given.add(name)
    return values, given


def name_problems(environ: Mapping[str, str], known: Collection[str]) -> list[str]:
    """A problem for each `GATEWAY_…` name that no program knows."""
    problems = []
    for name in sorted(environ):
        if not name.startswith("GATEWAY_") or _KUBERNETES.fullmatch(name):
            continue
        if name.endswith("_PORT") and _KUBERNETES_PORT.match(environ[name]):
            # Of another program's variable too, which nothing else here looks at.
            problems.append(KUBERNETES_PORT_PROBLEM.format(name=_shown(name)))
        elif name not in known:
            problems.append(f"{_shown(name)}: is unknown; {_nearest(name, known)}")
    return problems


def _text(variable: Variable, environ: Mapping[str, str], read_file: ReadFile) -> str:
    text = environ.get(variable.name, "")
    file_name = environ.get(f"{variable.name}_FILE", "") if variable.secret else ""
    if not file_name:
        return text
    if text:
        raise ValueError(f"is set, and {variable.name}_FILE is too; keep one of them")
    try:
        content = read_file(file_name).decode("utf-8")
    except OSError as error:
        raise ValueError(f"cannot be read from the file that {variable.name}_FILE names: {_reason(error)}") from None
    except UnicodeDecodeError:
        raise ValueError(
            f"cannot be read from the file that {variable.name}_FILE names: it is not UTF-8 text"
        ) from None
    text = content.removesuffix("\n").removesuffix("\r")
    if not text:
        raise ValueError(f"is empty in the file that {variable.name}_FILE names; put the secret there")
    return text


def _value(variable: Variable, text: str) -> object:
    if not text and variable.required:
        raise ValueError(f"is not set; {variable.required}")
    text = text or variable.default
    return variable.parse(text) if text else None


def _problem(name: str, text: str, message: str) -> str:
    if name.endswith("_PORT") and _KUBERNETES_PORT.match(text):
        return KUBERNETES_PORT_PROBLEM.format(name=name)
    return f"{name}: {message}"


def _reason(error: OSError) -> str:
    """Without the path, which may be a secret that was put into the wrong variable."""
    return error.strerror or str(error)


def _nearest(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name[:128], known, n=1, cutoff=0.75)
    return f"did you mean {close[0]}?" if close else "remove it, or see the reference of the configuration"


def _shown(name: str) -> str:
    printable = "".join(char if "!" <= char <= "~" else "?" for char in name[:128])
    return printable if len(name) <= 128 else printable + "…"
