"""The environment of `gateway-access`, the reference Access service: the same rules as the gateway's (§4.1, §4.3)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from common.settings import parsers
from common.settings.errors import SettingsInvalid
from common.settings.parsers import Choice, Integer
from common.settings.read import ReadFile, read_small_file, read_variables
from common.settings.runtime import runtime_problem
from common.settings.secret import Secret
from common.settings.strength import weakness
from common.settings.variable import Section, Variable

ACCESS_SERVICE = Section(
    "The Access service",
    (
        Variable("ACCESS_HOST", "host", "127.0.0.1", parsers.HOST, "Address to listen on."),
        Variable("ACCESS_PORT", "port", "8090", Integer(0, 65_535), "Port to listen on; 0 takes any free one."),
        Variable(
            "ACCESS_TOKEN",
            "token",
            "",
            parsers.SECRET_TOKEN,
            "Bearer token that a caller must show: the gateway's `GATEWAY_ACCESS_TOKEN`.",
            production="strong",
            secret=True,
            required="set the token that the gateway shows",
        ),
        Variable(
            "GATEWAY_ENV",
            "production",
            "development",
            Choice("development", "production"),
            "In `production` the token must be strong.",
        ),
    ),
    "`gateway-access` reads these, and nothing else of the gateway's environment.",
)


@dataclass(frozen=True, slots=True)
class AccessServiceSettings:
    """Where `gateway-access` listens, and the token it asks for."""

    token: Secret
    host: str = "127.0.0.1"
    port: int = 8090


def load_access_service_settings(
    environ: Mapping[str, str], *, read_file: ReadFile = read_small_file
) -> AccessServiceSettings:
    """The settings of `gateway-access`; `SettingsInvalid` holds every problem at once."""
    refusal = runtime_problem(sys.implementation.name, sys.version_info[:2])
    if refusal is not None:
        raise SettingsInvalid((refusal,))
    problems: list[str] = []
    values, _ = read_variables(ACCESS_SERVICE.variables, environ, read_file, problems)
    token = values.get("ACCESS_TOKEN")
    if values.get("GATEWAY_ENV") == "production" and isinstance(token, Secret):
        fault = weakness(token.reveal())
        problems += [f"ACCESS_TOKEN: {fault}"] if fault else []
    if problems:
        raise SettingsInvalid(tuple(problems))
    return AccessServiceSettings(
        token=cast(Secret, token), host=cast(str, values["ACCESS_HOST"]), port=cast(int, values["ACCESS_PORT"])
    )
