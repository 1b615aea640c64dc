"""The environment of `gateway-challenges`, the responder of `http-01` challenges (§11.5.2)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from common.settings.acme import CHALLENGES
from common.settings.errors import SettingsInvalid
from common.settings.gateway import LogLevel
from common.settings.known import KNOWN
from common.settings.load import state_problems
from common.settings.read import ReadFile, name_problems, read_small_file, read_variables
from common.settings.runtime import runtime_problem
from common.settings.secret import Secret
from common.settings.variables import PROCESS, STATE

_SHARED = (
    "GATEWAY_STATE_URL",
    "GATEWAY_STATE_PREFIX",
    "GATEWAY_STATE_TIMEOUT_MS",
    "GATEWAY_REDIS_SENTINEL_MASTER",
    "GATEWAY_LOG_LEVEL",
)
_VARIABLES = (
    *CHALLENGES.variables,
    *(variable for section in (STATE, PROCESS) for variable in section.variables if variable.name in _SHARED),
)


@dataclass(frozen=True, slots=True)
class ChallengesSettings:
    """Where `gateway-challenges` listens, and where the challenges are."""

    state_url: Secret
    challenges_host: str = "0.0.0.0"  # noqa: S104 - the authority comes from outside
    challenges_port: int = 8082
    """0: any free port, which the log names."""
    state_prefix: str = "gateway"
    state_timeout_s: float = 0.5
    redis_sentinel_master: str = ""
    log_level: LogLevel = "info"


def load_challenges_settings(
    environ: Mapping[str, str], *, read_file: ReadFile = read_small_file
) -> ChallengesSettings:
    """The settings of `gateway-challenges`; `SettingsInvalid` holds every problem at once."""
    refusal = runtime_problem(sys.implementation.name, sys.version_info[:2])
    if refusal is not None:
        raise SettingsInvalid((refusal,))
    problems = name_problems(environ, KNOWN)
    values, given = read_variables(_VARIABLES, environ, read_file, problems)
    problems += state_problems(values, given)
    url = values.get("GATEWAY_STATE_URL")
    if isinstance(url, Secret) and url.reveal() == "memory://local":
        problems.append(
            "GATEWAY_STATE_URL: names no shared state; challenges are published there: name the gateway's Redis or "
            "Postgres"
        )
    if problems:
        raise SettingsInvalid(tuple(problems))
    fields: dict[str, Any] = {
        variable.field: values[variable.name] for variable in _VARIABLES if values[variable.name] is not None
    }
    return ChallengesSettings(**fields)
