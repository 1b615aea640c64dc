"""Which interpreters the programs run on (§4.2)."""

from __future__ import annotations

MIN_PYTHON = (3, 11)


def runtime_problem(implementation: str, version: tuple[int, int]) -> str | None:
    """Why this interpreter cannot run the gateway (§4.2); None when it can."""
    if implementation == "cpython" and version >= MIN_PYTHON:
        return None
    return (
        f"the interpreter is {implementation} {version[0]}.{version[1]}; run the gateway on CPython "
        f"{MIN_PYTHON[0]}.{MIN_PYTHON[1]} or later"
    )
