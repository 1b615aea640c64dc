"""The environment of `gatewayctl`, the operator's command line: where the control plane is, and who asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from common.settings import parsers
from common.settings.errors import SettingsInvalid
from common.settings.read import ReadFile, read_small_file, read_variables
from common.settings.secret import Secret
from common.settings.urls import is_private_host, parse_http_url
from common.settings.variable import Section, Variable

CTL = Section(
    "The operator's command line",
    (
        Variable(
            "GATEWAYCTL_URL",
            "url",
            "",
            parsers.SERVICE_URL,
            "The control plane. Over plain http only loopback and private hosts are called, unless `--allow-http` says "
            "otherwise.",
            required="set the address of the control plane, such as https://control.internal:8081",
        ),
        Variable(
            "GATEWAYCTL_TOKEN",
            "token",
            "",
            parsers.SECRET_TOKEN,
            "A token of `GATEWAY_CONTROL_TOKENS`.",
            secret=True,
            required="set your token of the control plane, or name its file in GATEWAYCTL_TOKEN_FILE",
        ),
        Variable(
            "GATEWAYCTL_CA",
            "ca",
            "",
            parsers.PATH,
            "Authorities that are trusted for the control plane in place of the system's: a file of PEM certificates.",
        ),
    ),
    "`gatewayctl` reads these, and nothing of the gateway's environment.",
)


@dataclass(frozen=True, slots=True)
class CtlSettings:
    """Whom `gatewayctl` asks. `url` ends without a slash."""

    url: str
    token: Secret
    ca: Path | None = None


def load_ctl_settings(
    environ: Mapping[str, str], *, allow_http: bool = False, read_file: ReadFile = read_small_file
) -> CtlSettings:
    """The settings of `gatewayctl`; `SettingsInvalid` holds every problem at once."""
    problems: list[str] = []
    values, _ = read_variables(CTL.variables, environ, read_file, problems)
    url = values.get("GATEWAYCTL_URL")
    if isinstance(url, str) and not allow_http and _exposes_token(url):
        problems.append(
            "GATEWAYCTL_URL: would send the token in clear to a host that is not private; use https, or "
            "`gatewayctl --allow-http …` where the way there is protected"
        )
    if problems:
        raise SettingsInvalid(tuple(problems))
    return CtlSettings(
        url=cast(str, url),
        token=cast(Secret, values["GATEWAYCTL_TOKEN"]),
        ca=cast("Path | None", values["GATEWAYCTL_CA"]),
    )


def _exposes_token(url: str) -> bool:
    parts = parse_http_url(url)
    return parts.scheme == "http" and not is_private_host(parts.host)
