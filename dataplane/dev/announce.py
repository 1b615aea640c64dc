"""What `gateway dev` tells a person: what to open, and commands that work exactly as they are printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dataplane.dev.accounts import ACCOUNTS, GUEST, MEMBER, WORKSPACE_ID, Account

if TYPE_CHECKING:
    from dataplane.dev.stack import Demo


@dataclass(frozen=True, slots=True)
class Trial:
    """A command to try, and what it shows. `status` is what the gateway answers."""

    shows: str
    command: str
    status: int


def trials(demo: Demo) -> tuple[Trial, ...]:
    """The commands, each complete in itself."""
    workspace = f"{demo.gateway}/workspaces/{WORKSPACE_ID}"
    member, guest = _bearer(demo, MEMBER), _bearer(demo, GUEST)
    return (
        Trial("No credential", f"curl -i {demo.gateway}/api/echo", 401),
        Trial("A member's bearer token", f"curl -i {member} {demo.gateway}/api/echo", 200),
        Trial("Access lets the member into the workspace", f"curl -i {member} {workspace}", 200),
        Trial("Access refuses the guest", f"curl -i {guest} {workspace}", 403),
        Trial("A forged identity header never passes", f"curl -i -H 'x-gateway-user-id: root' {demo.gateway}/", 200),
        Trial("Five events, as they happen", f"curl -iN {member} '{demo.gateway}/events?count=5'", 200),
        Trial(
            "Which replicas there are, by the control plane",
            f"curl -i -H 'authorization: Bearer {demo.control_tokens['read'].reveal()}' {demo.control}/v1/replicas",
            200,
        ),
        Trial("Whether it is ready", f"curl -i {demo.gateway}/readyz", 200),
        Trial(
            "What it counted",
            f"curl -i -H 'authorization: Bearer {demo.metrics_token.reveal()}' {demo.gateway}/metrics",
            200,
        ),
    )


def for_people(demo: Demo) -> str:
    """The whole announcement."""
    accounts = "\n".join(f"           {account.email:<22} {account.summary}" for account in ACCOUNTS.values())
    tokens = "\n".join(f"           {scope:<8} {token.reveal()}" for scope, token in demo.control_tokens.items())
    commands = "\n\n".join(f"  # {trial.shows} ({trial.status})\n  {trial.command}" for trial in trials(demo))
    return f"""Wicketgate is running on this machine.

  Open     {demo.gateway}/
  Sign in  without a password, as one of
{accounts}
  Routes   {demo.table}  (change it while this runs, or publish a table in the console, which then serves)
  Console  {demo.control}/console
{tokens}
  Log      {demo.log}

From another terminal:

{commands}

Every key, token and session of this run ends with it. Ctrl-C ends it.
"""


def for_programs(demo: Demo) -> dict[str, Any]:
    """The same facts as one JSON object."""
    return {
        "gateway": demo.gateway,
        "provider": demo.provider,
        "upstream": demo.upstream,
        "access": demo.access,
        "control": demo.control,
        "controlTokens": {scope: token.reveal() for scope, token in demo.control_tokens.items()},
        "workspace": WORKSPACE_ID,
        "accounts": list(ACCOUNTS),
        "table": str(demo.table),
        "log": str(demo.log),
        "trials": [{"shows": t.shows, "command": t.command, "status": t.status} for t in trials(demo)],
    }


def _bearer(demo: Demo, account: Account) -> str:
    token = f"$(curl -s -d account={account.name} {demo.provider}/dev/token)"
    return f'-H "authorization: Bearer {token}"'
