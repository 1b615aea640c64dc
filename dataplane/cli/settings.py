"""The gateway's environment, for the commands that need all of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from common.settings.gateway import GatewaySettings


def settings_of_environment() -> GatewaySettings:
    """The settings; a wrong environment ends the command with 1, every problem named."""
    from common.settings.errors import SettingsInvalid
    from common.settings.load import load_gateway_settings

    try:
        return load_gateway_settings(os.environ)
    except SettingsInvalid as invalid:
        for problem in invalid.problems:
            typer.echo(f"gateway: {problem}", err=True)
        raise typer.Exit(1) from None
