"""The environment of the control plane's commands, as far as they act on the shared state (§4.4)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from common.settings import parsers
from common.settings.errors import SettingsInvalid
from common.settings.read import ReadFile, read_small_file, read_variables
from common.settings.runtime import runtime_problem
from common.settings.secret import Secret
from common.settings.variable import Section, Variable

CONTROL = Section(
    "The control plane",
    (
        Variable(
            "GATEWAY_CONTROL_STATE_URL",
            "state_url",
            "",
            parsers.CONTROL_STATE_URL,
            "The shared state, with the control plane's own user; for `gateway-control migrate`, with a user that may "
            "create tables and roles.",
            secret=True,
            required="name the server of the shared state, such as postgres://user:password@host/database",
        ),
        Variable(
            "GATEWAY_CONTROL_KEY_PREFIX",
            "key_prefix",
            "gateway",
            parsers.STATE_PREFIX,
            "The prefix of the route table and the audit trail; on Postgres, their schema.",
        ),
        Variable(
            "GATEWAY_CONTROL_SHARED_STATE_KEY_PREFIX",
            "shared_state_key_prefix",
            "gateway",
            parsers.STATE_PREFIX,
            "The prefix of sessions, decisions and heartbeats: the gateway's `GATEWAY_STATE_PREFIX`.",
        ),
    ),
    "`gateway-control` reads these, and nothing else of the gateway's environment.",
)


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """Where the control plane finds the shared state."""

    state_url: Secret
    key_prefix: str = "gateway"
    shared_state_key_prefix: str = "gateway"


def load_control_settings(environ: Mapping[str, str], *, read_file: ReadFile = read_small_file) -> ControlSettings:
    """The settings of `gateway-control`; `SettingsInvalid` holds every problem at once."""
    refusal = runtime_problem(sys.implementation.name, sys.version_info[:2])
    if refusal is not None:
        raise SettingsInvalid((refusal,))
    problems: list[str] = []
    values, _ = read_variables(CONTROL.variables, environ, read_file, problems)
    if problems:
        raise SettingsInvalid(tuple(problems))
    return ControlSettings(
        state_url=cast(Secret, values["GATEWAY_CONTROL_STATE_URL"]),
        key_prefix=cast(str, values["GATEWAY_CONTROL_KEY_PREFIX"]),
        shared_state_key_prefix=cast(str, values["GATEWAY_CONTROL_SHARED_STATE_KEY_PREFIX"]),
    )
