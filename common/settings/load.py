"""The environment, read once and validated as a whole (§4.1): settings, or every problem at once.

    environ -> read: texts and files -> variables: values -> relations, production -> GatewaySettings | SettingsInvalid

Nothing here reads `os.environ`, opens a connection or looks at the clock: the caller hands the environment in, and a
provider or a state server that is away is no problem of the settings.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Set
from typing import Any

from common.settings import keys
from common.settings.acme import acme_problems
from common.settings.errors import SettingsInvalid
from common.settings.gateway import GatewaySettings
from common.settings.known import KNOWN
from common.settings.production import production_problems
from common.settings.read import ReadFile, name_problems, read_small_file, read_variables
from common.settings.relations import rate_window_problems
from common.settings.runtime import runtime_problem
from common.settings.secret import Secret
from common.settings.variables import VARIABLES


def load_gateway_settings(environ: Mapping[str, str], *, read_file: ReadFile = read_small_file) -> GatewaySettings:
    """The settings of `gateway run`.

    `SettingsInvalid` holds every problem of the environment, each naming its variable. The interpreter is looked at
    before the environment: on one that is too old nothing else is said.
    """
    refusal = runtime_problem(sys.implementation.name, sys.version_info[:2])
    if refusal is not None:
        raise SettingsInvalid((refusal,))
    problems = name_problems(environ, KNOWN)
    values, given = read_variables(VARIABLES, environ, read_file, problems)
    problems += relation_problems(values, given)
    problems += _authority_problems(values, read_file)
    if values.get("GATEWAY_ENV") == "production":
        problems += production_problems(values, given)
    if problems:
        raise SettingsInvalid(tuple(dict.fromkeys(problems)))
    return _settings(values)


def relation_problems(values: Mapping[str, object], given: Set[str]) -> list[str]:
    """Variables that are right alone and wrong together: a setting that looks active and is not is a hole."""
    problems = []
    for name in ("GATEWAY_OIDC_ISSUER", "GATEWAY_OIDC_CLIENT_ID"):
        others = {"GATEWAY_OIDC_ISSUER", "GATEWAY_OIDC_CLIENT_ID", "GATEWAY_OIDC_CLIENT_SECRET"} & given - {name}
        if others and name not in given and values.get("GATEWAY_ENV") != "production":
            problems.append(f"{name}: is not set, and {min(others)} is; set both, or neither")
    problems += _client_auth_problems(values, given)
    problems += state_problems(values, given)
    problems += acme_problems(values, given)
    pair = {"GATEWAY_ACCESS_URL", "GATEWAY_ACCESS_TOKEN"}
    if len(pair & given) == 1:
        (absent,) = pair - given
        (present,) = pair & given
        problems.append(f"{absent}: is not set, and {present} is; set both, or neither")
    problems += _tls_problems(values, given)
    return problems + rate_window_problems(values)


def _client_auth_problems(values: Mapping[str, object], given: Set[str]) -> list[str]:
    secret, key = "GATEWAY_OIDC_CLIENT_SECRET", "GATEWAY_OIDC_CLIENT_KEY"
    if values.get("GATEWAY_OIDC_CLIENT_AUTH") == "private_key_jwt":
        problems = []
        if key not in given:
            problems.append(f"{key}: private_key_jwt needs it; set the client's private key")
        if secret in given:
            problems.append(f"{secret}: has no effect with private_key_jwt; remove it")
        return problems
    problems = []
    if key in given:
        problems.append(
            f"{key}: has no effect without GATEWAY_OIDC_CLIENT_AUTH=private_key_jwt; set that, or remove it"
        )
    if "GATEWAY_OIDC_ISSUER" in given and secret not in given and values.get("GATEWAY_ENV") != "production":
        problems.append(f"{secret}: is not set, and GATEWAY_OIDC_ISSUER is; set the client's secret")
    return problems


def state_problems(values: Mapping[str, object], given: Set[str]) -> list[str]:
    """The same of the shared state alone."""
    url = values.get("GATEWAY_STATE_URL")
    if not isinstance(url, Secret):
        return []
    scheme = url.reveal().partition(":")[0]
    problems = []
    workers = values.get("GATEWAY_WORKERS")
    if isinstance(workers, int) and workers > 1 and scheme == "memory":
        problems.append(
            "GATEWAY_WORKERS: several workers need a shared state, or each has sessions and limits of its own; set "
            "GATEWAY_STATE_URL to Redis or Postgres, or GATEWAY_WORKERS to 1"
        )
    if values.get("GATEWAY_CONFIG_SOURCE") == "store" and scheme == "memory":
        problems.append("GATEWAY_CONFIG_SOURCE: store needs a shared state; set GATEWAY_STATE_URL to Redis or Postgres")
    if "GATEWAY_REDIS_SENTINEL_MASTER" in given and not scheme.startswith("redis"):
        problems.append("GATEWAY_REDIS_SENTINEL_MASTER: has no effect without Redis in GATEWAY_STATE_URL; remove it")
    problems += [
        f"{name}: has no effect without Postgres in GATEWAY_STATE_URL; remove it"
        for name in ("GATEWAY_POSTGRES_POOL_MAX", "GATEWAY_POSTGRES_SYNCHRONOUS_COMMIT")
        if name in given and not scheme.startswith("postgres")
    ]
    return problems


def _tls_problems(values: Mapping[str, object], given: Set[str]) -> list[str]:
    problems = []
    for pair in (("GATEWAY_TLS_CERT", "GATEWAY_TLS_KEY"), ("GATEWAY_UPSTREAM_TLS_CERT", "GATEWAY_UPSTREAM_TLS_KEY")):
        for absent, present in (pair, pair[::-1]):
            if present in given and absent not in given:
                problems.append(f"{absent}: is not set, and {present} is; set both, or neither")
    certificates, own_keys = values.get("GATEWAY_TLS_CERT"), values.get("GATEWAY_TLS_KEY")
    if isinstance(certificates, tuple) and isinstance(own_keys, tuple) and len(certificates) != len(own_keys):
        problems.append(
            f"GATEWAY_TLS_KEY: names {len(own_keys)} files, and GATEWAY_TLS_CERT {len(certificates)}; name one key for "
            "each certificate, in the same order"
        )
    if not {"GATEWAY_TLS_CERT", "GATEWAY_ACME_DIRECTORY"} & given:
        problems += [
            f"{name}: has no effect without GATEWAY_TLS_CERT or GATEWAY_ACME_DIRECTORY; set one of them, or remove it"
            for name in ("GATEWAY_TLS_MIN_VERSION", "GATEWAY_TLS_PORT")
            if name in given
        ]
    elif values.get("GATEWAY_TLS_PORT") and values.get("GATEWAY_TLS_PORT") == values.get("GATEWAY_PORT"):
        problems.append("GATEWAY_TLS_PORT: is GATEWAY_PORT too; TLS needs a port of its own")
    return problems


def _authority_problems(values: Mapping[str, object], read_file: ReadFile) -> list[str]:
    problems = []
    for name in ("GATEWAY_OIDC_CA", "GATEWAY_UPSTREAM_TLS_CA", "GATEWAY_ACME_CA"):
        path = values.get(name)
        try:
            if path is not None:
                keys.check_authorities(read_file(str(path)))
        except OSError as error:
            problems.append(f"{name}: its file cannot be read: {error.strerror or error}")
        except ValueError as error:
            problems.append(f"{name}: its file {error}")
    return problems


def _settings(values: dict[str, object]) -> GatewaySettings:
    fields: dict[str, Any] = {
        variable.field: values[variable.name]
        for variable in VARIABLES
        if variable.field and values[variable.name] is not None
    }
    fields["production"] = values["GATEWAY_ENV"] == "production"
    if "public_url" not in fields:
        fields["public_url"] = f"http://localhost:{fields['port'] or 8080}"
    return GatewaySettings(**fields)
