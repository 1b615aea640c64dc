"""Runs the checks one after the other and gathers what they found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import httpx

from dataplane.accessservice.conformance.checks import CHECKS, Check, Level
from dataplane.accessservice.conformance.judge import Finding, printable
from dataplane.accessservice.conformance.probe import Probe, Target, Unanswered, Unreachable, new_client

Outcome = Literal["passed", "warning", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one check; `found` and `advice` are `""` for one that passed."""

    id: str
    title: str
    level: Level
    outcome: Outcome
    found: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run. It passed when no `must` failed and none was skipped."""

    url: str
    results: tuple[Result, ...]

    @property
    def passed(self) -> bool:
        return all(result.outcome in ("passed", "warning") for result in self.results)

    def count(self, outcome: Outcome) -> int:
        """How many checks ended so."""
        return sum(result.outcome == outcome for result in self.results)

    def as_json(self) -> dict[str, Any]:
        """For scripts; its names are kept."""
        return {
            "url": self.url,
            "passed": self.passed,
            "counts": {outcome: self.count(outcome) for outcome in ("passed", "warning", "failed", "skipped")},
            "checks": [asdict(result) for result in self.results],
        }


async def run_checks(target: Target, client: httpx.AsyncClient | None = None) -> Report:
    """Ask everything, one question after the other. Never raises for what the service does. A `client` is closed."""
    results: list[Result] = []
    async with client or new_client(target) as client:
        probe = Probe(target, client)
        reachable = True
        for check in (check for check in CHECKS if check.applies(target)):
            if not reachable:
                results.append(Result(check.id, check.title, check.level, "skipped", "the service cannot be reached"))
                continue
            try:
                finding = await check.run(probe)
            except Unreachable as error:
                reachable = False
                advice = "start the service, and check --conformance: host, port, scheme and certificate"
                finding = Finding(printable(str(error)), advice)
                results.append(_result(check, finding, "must"))
            except Unanswered as error:
                advice = f"answer every request within {target.timeout_s:g} s: after that the gateway gives up"
                results.append(_result(check, Finding(printable(str(error)), advice), "must"))
            else:
                results.append(_result(check, finding, check.level))
    return Report(target.url, tuple(results))


def _result(check: Check, finding: Finding | None, level: Level) -> Result:
    if finding is None:
        return Result(check.id, check.title, level, "passed")
    outcome: Outcome = "failed" if level == "must" else "warning"
    return Result(check.id, check.title, level, outcome, finding.found, finding.advice)
