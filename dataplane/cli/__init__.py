"""The command line of the data plane: one module a command, put together by `app`."""

from __future__ import annotations


def main() -> None:
    """The program `gateway`."""
    from common.programs import run_program
    from dataplane.cli.app import build

    run_program(build(), "gateway")
