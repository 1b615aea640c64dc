"""What a deployment's files say an environment is, read as the programs would read it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from common.identity.signature import new_private_key_pem
from common.settings.access_service import load_access_service_settings
from common.settings.challenges import load_challenges_settings
from common.settings.control import load_control_settings, load_control_store
from common.settings.errors import SettingsInvalid
from common.settings.load import load_gateway_settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"

ReadFile = Callable[[str], bytes]

CONTROL_TOKEN = "e5f7092b4d6f8a0c2e49d2f4a6c8e0b1d3f5a7c9e1b3d5f70b2d4f6a8c0e1d3f"
SECRETS = {
    "oidc_client_secret": "6c9b3a5e1f7d4c20a8b9e3d7f1c5a6042f6e8d9c0b1a3e57",
    "session_secret": "9d2f4a6c8e0b1d3f5a7c9e1b3d5f7a9c0e2b4d6f8a1c3e5f7092b4d6f8a0c2e4",
    "metrics_token": "1b3d5f7a9c0e2b4d6f8a1c3e5f7092b4d6f8a0c2e49d2f4a6c8e0b1d3f5a7c9e",
    "access_token": "5a7c9e1b3d5f7a9c0e2b4d6f8a1c3e5f7092b4d6f8a0c2e49d2f4a6c8e0b1d3f",
    "tls_store_secret": "c0e2b4d6f8a1c3e5f7092b4d6f8a0c2e49d2f4a6c8e0b1d3f5a7c9e1b3d5f70b",
    "acme_eab_hmac": "8a1c3e5f7092b4d6f8a0c2e49d2f4a6c8e0b1d3f5a7",
    "dns_writer_token": "e0b1d3f5a7c9e1b3d5f70b2d4f6a8c0e1d3fc0e2b4d6f8a1c3e5f7092b4d6f8a",
    "control_tokens": f'{{"{CONTROL_TOKEN}": {{"operator": "ann", "scope": "config"}}}}',
    "control_metrics_token": "4d6f8a0c2e49d2f4a6c8e0b1d3f5a7c9e1b3d5f70b2d4f6a8c0e1d3fc0e2b4a1",
    "state_url": "postgres://data:7a9c0e2b4d6f8a1c@db/gateway",
    "control_state_url": "postgres://control:8a1c3e5f7092b4d6@db/gateway",
    "owner_state_url": "postgres://owner:0c2e49d2f4a6c8e0@db/gateway",
}
"""A deployment's secrets, by the names that its files give them."""


def secret_file(path: str) -> bytes:
    """A `ReadFile` that knows the secret of any file by its name."""
    name = Path(path).name.replace("-", "_")
    return new_private_key_pem().encode() if name in {"identity_key", "oidc_client_key"} else SECRETS[name].encode()


def problems_of(program: str, environment: Mapping[str, str], read_file: ReadFile = secret_file) -> list[str]:
    """What a program would refuse to start with."""
    load = {
        "gateway": load_gateway_settings,
        "gateway-challenges": load_challenges_settings,
        "gateway-control": load_control_settings,
        "gateway-control migrate": load_control_store,
        "gateway-access": load_access_service_settings,
    }[program]
    try:
        load(environment, read_file=read_file)
    except SettingsInvalid as invalid:
        return list(invalid.problems)
    return []


def told(*command: str | Path, cwd: Path = ROOT, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """A program that ended, with what it said."""
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, input=given, capture_output=True, text=True, timeout=100, check=False
    )
