"""The environment of the control plane (§4.4), read once and validated as a whole."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from common.settings.control_tokens import ControlToken
from common.settings.control_variables import CONTROL, SHARED
from common.settings.errors import SettingsInvalid
from common.settings.gateway import GatewaySettings
from common.settings.known import KNOWN
from common.settings.read import ReadFile, name_problems, read_small_file, read_variables
from common.settings.relations import rate_window_problems
from common.settings.runtime import runtime_problem
from common.settings.secret import Secret
from common.settings.strength import weakness
from common.settings.variables import VARIABLES


@dataclass(frozen=True, slots=True)
class ControlStore:
    """Where the control plane finds the shared state."""

    state_url: Secret
    key_prefix: str = "gateway"


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """Every setting of `gateway-control`."""

    store: ControlStore
    tokens: tuple[ControlToken, ...]
    host: str = "127.0.0.1"
    port: int = 8081
    """0: any free port, which the log names."""
    metrics_token: Secret | None = None
    protected_routes: frozenset[str] = frozenset()
    gateways: GatewaySettings = field(default_factory=GatewaySettings)
    """What this environment says of the gateways that run the tables: a table's defaults, what its warnings depend on.
    What a control plane has no business with is left at its default. Log level, drain and the state's budgets are this
    process's own too."""

    @property
    def production(self) -> bool:
        return self.gateways.production


def load_control_store(environ: Mapping[str, str], *, read_file: ReadFile = read_small_file) -> ControlStore:
    """As much of the environment as `gateway-control migrate` needs; `SettingsInvalid` holds every problem at once."""
    _check_runtime()
    problems: list[str] = []
    names = ("GATEWAY_CONTROL_STATE_URL", "GATEWAY_CONTROL_KEY_PREFIX", "GATEWAY_CONTROL_SHARED_STATE_KEY_PREFIX")
    wanted = [variable for variable in CONTROL.variables if variable.name in names]
    values, _ = read_variables(wanted, environ, read_file, problems)
    problems += _prefix_problems(values)
    if problems:
        raise SettingsInvalid(tuple(problems))
    return _store(values)


def load_control_settings(environ: Mapping[str, str], *, read_file: ReadFile = read_small_file) -> ControlSettings:
    """The settings of `gateway-control`; `SettingsInvalid` holds every problem at once, and never a token."""
    _check_runtime()
    problems = name_problems(environ, KNOWN)
    values, _ = read_variables(CONTROL.variables, environ, read_file, problems)
    shared, given = read_variables(SHARED, environ, read_file, problems)
    problems += _prefix_problems(values)
    problems += rate_window_problems(shared)
    problems += _state_problems(values, given)
    problems += _reuse_problems(values, environ)
    if shared.get("GATEWAY_ENV") == "production":
        problems += _production_problems(values)
    if problems:
        raise SettingsInvalid(tuple(dict.fromkeys(problems)))
    return ControlSettings(
        store=_store(values),
        tokens=cast(tuple[ControlToken, ...], values["GATEWAY_CONTROL_TOKENS"]),
        host=cast(str, values["GATEWAY_CONTROL_HOST"]),
        port=cast(int, values["GATEWAY_CONTROL_PORT"]),
        metrics_token=cast(Secret | None, values["GATEWAY_CONTROL_METRICS_TOKEN"]),
        protected_routes=cast(frozenset[str], values["GATEWAY_PROTECTED_ROUTES"] or frozenset()),
        gateways=_gateways(shared),
    )


def _check_runtime() -> None:
    refusal = runtime_problem(sys.implementation.name, sys.version_info[:2])
    if refusal is not None:
        raise SettingsInvalid((refusal,))


def _store(values: Mapping[str, object]) -> ControlStore:
    return ControlStore(
        state_url=cast(Secret, values["GATEWAY_CONTROL_STATE_URL"]),
        key_prefix=cast(str, values["GATEWAY_CONTROL_KEY_PREFIX"]),
    )


def _gateways(shared: Mapping[str, object]) -> GatewaySettings:
    fields: dict[str, Any] = {
        variable.field: shared[variable.name]
        for variable in SHARED
        if variable.field and shared[variable.name] is not None
    }
    fields["production"] = shared["GATEWAY_ENV"] == "production"
    return GatewaySettings(**fields)


def _prefix_problems(values: Mapping[str, object]) -> list[str]:
    """A gateway keeps its table, sessions and decisions under one prefix: with two, what is written here is read by
    nobody, and a revocation and its audit entry could not be one operation.
    """
    own, shared = values.get("GATEWAY_CONTROL_KEY_PREFIX"), values.get("GATEWAY_CONTROL_SHARED_STATE_KEY_PREFIX")
    if own is None or shared is None or own == shared:
        return []
    return [
        "GATEWAY_CONTROL_SHARED_STATE_KEY_PREFIX: differs from GATEWAY_CONTROL_KEY_PREFIX; a gateway keeps everything "
        "under its one GATEWAY_STATE_PREFIX, so set both to that"
    ]


def _state_problems(values: Mapping[str, object], given: Set[str]) -> list[str]:
    url = values.get("GATEWAY_CONTROL_STATE_URL")
    if not isinstance(url, Secret):
        return []
    if "GATEWAY_REDIS_SENTINEL_MASTER" in given and not url.reveal().startswith("redis"):
        return ["GATEWAY_REDIS_SENTINEL_MASTER: has no effect without Redis in GATEWAY_CONTROL_STATE_URL; remove it"]
    return []


def _reuse_problems(values: Mapping[str, object], environ: Mapping[str, str]) -> list[str]:
    """A token that is also another secret: whoever learns the one has the other."""
    others = {
        variable.name: Secret(environ[variable.name])
        for variable in VARIABLES
        if variable.secret and environ.get(variable.name) and variable.name != "GATEWAY_STATE_URL"
    }
    metrics = values.get("GATEWAY_CONTROL_METRICS_TOKEN")
    if isinstance(metrics, Secret):
        others["GATEWAY_CONTROL_METRICS_TOKEN"] = metrics
    passwords = {
        name: _passwords(url.reveal() if isinstance(url, Secret) else str(url))
        for name, url in (
            ("GATEWAY_CONTROL_STATE_URL", values.get("GATEWAY_CONTROL_STATE_URL") or ""),
            ("GATEWAY_STATE_URL", environ.get("GATEWAY_STATE_URL", "")),
        )
    }
    problems = []
    for number, one in enumerate(_tokens(values), 1):
        names = [name for name, other in others.items() if one.token == other]
        names += [f"the password in {name}" for name, known in passwords.items() if one.token in known]
        problems += [
            f"GATEWAY_CONTROL_TOKENS: entry {number} has the token that is also {name}; give it its own"
            for name in names
        ]
    return problems


def _passwords(url: str) -> tuple[Secret, ...]:
    """The password of a URL, as written and as it is meant; none where the URL is nothing of ours."""
    try:
        password = urlsplit(url).password
    except ValueError:
        return ()
    return () if password is None else (Secret(password), Secret(unquote(password)))


def _tokens(values: Mapping[str, object]) -> tuple[ControlToken, ...]:
    return cast(tuple[ControlToken, ...], values.get("GATEWAY_CONTROL_TOKENS") or ())


def _production_problems(values: Mapping[str, object]) -> list[str]:
    problems = []
    url = values.get("GATEWAY_CONTROL_STATE_URL")
    if isinstance(url, Secret) and url.reveal() == "memory://local":
        problems.append(
            "GATEWAY_CONTROL_STATE_URL: memory://local is shared with no gateway; name the Redis or Postgres of the "
            "gateways"
        )
    for number, one in enumerate(_tokens(values), 1):
        fault = weakness(one.token.reveal())
        problems += [f"GATEWAY_CONTROL_TOKENS: entry {number} has a token that {fault}"] if fault else []
    metrics = values.get("GATEWAY_CONTROL_METRICS_TOKEN")
    fault = weakness(metrics.reveal()) if isinstance(metrics, Secret) else None
    return problems + ([f"GATEWAY_CONTROL_METRICS_TOKEN: {fault}"] if fault else [])
