"""`gatewayctl`, the operator's command line over the control plane's API.

    app (commands) -> command (settings, failures, questions) -> client (HTTP) -> screen (tables, diff, JSON)

It holds no state and no rules of its own: what is valid, allowed and active the control plane decides. A change is
written over the revision that was shown, or not at all. The token goes to GATEWAYCTL_URL alone: never along a redirect,
never through a proxy, never in clear over a network that is not private.
"""

from __future__ import annotations


def main() -> None:
    """The program `gatewayctl`."""
    from common.programs import run_program
    from controlplane.ctl.app import build

    run_program(build(), "gatewayctl")
