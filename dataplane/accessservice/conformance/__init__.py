"""Checks of any Access service: each asks one thing of it, and says what is wrong with the answer and what to do.

    Target -> run_checks -> Probe (HTTP) -> check -> Finding or nothing -> Result -> report

A check is `must` where a gateway in front of the service would misbehave, and `should` where it would not, but an
engineer would look for the reason one day. Every answer is read with the gateway's own `parse_decision`.
"""

from __future__ import annotations

from dataplane.accessservice.conformance.probe import Pair, Target
from dataplane.accessservice.conformance.run import Report, Result, run_checks

__all__ = ["Pair", "Report", "Result", "Target", "run_checks"]
