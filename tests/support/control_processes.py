"""`gateway-control` as a process of its own."""

from __future__ import annotations

import os

import httpx

from tests.support.control import TOKENS, token_map
from tests.support.processes import Child, Children

DEADLINE_S = 60.0


def start_control(children: Children, *arguments: str, **environment: str) -> Child:
    """Start the program with nothing but these variables, named without `GATEWAY_`."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    given = {f"GATEWAY_{name}": value for name, value in environment.items()}
    return children.start_python(
        "-c",
        "from controlplane.cli import main; main()",
        *arguments,
        name="gateway-control",
        env={**kept, "COLUMNS": "200", **given},
    )


def serve_control(children: Children, **environment: str) -> tuple[Child, str]:
    """The program, listening, and its origin. Its tokens are `TOKENS`."""
    base = {
        "CONTROL_TOKENS": token_map(),
        "CONTROL_STATE_URL": "memory://local",
        "CONTROL_PORT": "0",
        "STATE_TIMEOUT_MS": "5000",
    }
    child = start_control(children, **{**base, **environment})
    port = child.wait_for_line(r'"msg":"listening".*"port":(\d+)', within_s=DEADLINE_S)[1]
    return child, f"http://127.0.0.1:{port}"


def control_client(origin: str, scope: str = "config") -> httpx.Client:
    """A client that shows the token of a scope."""
    headers = {"authorization": f"Bearer {TOKENS[scope]}"}
    return httpx.Client(base_url=origin, headers=headers, trust_env=False, timeout=DEADLINE_S)
