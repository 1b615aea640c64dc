"""What the commands have in common: the control plane they call, how they end, and how they ask."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from common.programs import give_up_stdout
from common.telemetry.redact import escape_controls
from controlplane.ctl.screen import Screen

if TYPE_CHECKING:
    from controlplane.ctl.client import Api

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, and failures as JSON on standard error.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Limit = Annotated[int, typer.Option("--limit", min=0, help="The most that is listed; 0: everything.")]


@dataclass(frozen=True, slots=True)
class Command:
    """A command that runs."""

    api: Api
    screen: Screen

    def confirm(self, question: str) -> None:
        """Return when a person agrees; raises `NotConfirmed`.

        The question goes to standard error, so that standard output holds the result alone.
        """
        from controlplane.ctl.failures import NotConfirmed, WrongUsage

        if self.screen.as_json:
            raise WrongUsage("With --json nobody is asked: add --yes.")
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise NotConfirmed("There is no terminal to ask at. Nothing was changed: look at it, and add --yes.")
        if not typer.confirm(escape_controls(question), err=True):
            raise NotConfirmed("Nothing was changed.")


@contextmanager
def running(context: typer.Context, *, as_json: bool) -> Generator[Command]:
    """Run a command: its failures are printed, and become its exit code."""
    from common.settings.ctl import load_ctl_settings
    from common.settings.errors import SettingsInvalid
    from controlplane.ctl.client import Api
    from controlplane.ctl.failures import CtlError, WrongSettings

    screen = Screen(as_json=as_json)
    try:
        try:
            settings = load_ctl_settings(os.environ, allow_http=bool(context.obj))
        except SettingsInvalid as invalid:
            raise WrongSettings(invalid.problems) from None
        api = Api(settings)
        try:
            yield Command(api, screen)
        finally:
            api.close()
    except CtlError as error:
        screen.failure(error)
        raise typer.Exit(error.exit_code) from None
    except OSError as error:
        # Only the output is left to fail. A reader that went away wants to hear nothing.
        if error.errno == errno.EPIPE:
            raise
        give_up_stdout()
        screen.failure(CtlError(f"The output cannot be written: {error.strerror or error}."))
        raise typer.Exit(CtlError.exit_code) from None
