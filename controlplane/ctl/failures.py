"""Why a command did not do what it was asked to, and its exit code (CONTRACT, Settled details, gatewayctl)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

FAILED = 1
USAGE = 2
CONFLICT = 3


@dataclass(frozen=True, slots=True)
class Problem:
    """One of several problems, and its place in the table or the request."""

    path: str
    message: str


class CtlError(Exception):
    """It was not done. The text says why and what to do; nothing in it is escaped for a terminal yet."""

    exit_code = FAILED
    code = "failed"
    problems: tuple[Problem, ...] = ()

    def details(self) -> dict[str, Any]:
        """What `--json` says of it beside its code and message."""
        return {}


class WrongUsage(CtlError):
    """The command was called in a way that means nothing."""

    exit_code = USAGE
    code = "usage"


class NotConfirmed(CtlError):
    """A person said no, or there was nobody to ask."""

    code = "not_confirmed"


class Unreached(CtlError):
    """Nothing, or nothing of the control plane, answered."""

    code = "unreached"


class WrongSettings(WrongUsage):
    """The environment does not say whom to ask, or as whom."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("The environment is not complete: see `gatewayctl --help`.")
        self.problems = tuple(Problem(*problem.split(": ", 1)) for problem in problems)

    def details(self) -> dict[str, Any]:
        return {"errors": [asdict(one) for one in self.problems]}


class NotServed(CtlError):
    """A revision is published, and not every live replica serves it."""

    code = "not_served"

    def __init__(
        self,
        revision: int,
        wait_s: float,
        items: Sequence[dict[str, Any]],
        behind: Sequence[dict[str, Any]],
        trouble: str,
    ) -> None:
        who = f"{len(behind)} of {len(items)} replicas do not serve it" if items else "no replica is alive"
        who = f"the replicas cannot be seen ({trouble})" if trouble else who
        super().__init__(
            f"Revision {revision} is published and stays so, but after {wait_s:g} seconds {who}. "
            "See: gatewayctl replicas"
        )
        self.problems = tuple(
            Problem(str(one["replica"]), f"serves revision {one['revision']}{_because(one)}") for one in behind
        )
        self._details = {"revision": revision, "replicas": list(items)}

    def details(self) -> dict[str, Any]:
        return self._details


class Refused(CtlError):
    """The control plane answered that it did not do it."""

    def __init__(self, status: int, answer: Mapping[str, Any], *, request_id: str = "", advice: str = "") -> None:
        message = str(answer.get("message", ""))
        super().__init__(f"{message} {advice}".strip())
        self.status = status
        self.code = str(answer.get("error", ""))
        self.exit_code = CONFLICT if status == 409 else FAILED
        self.problems = problems_in(answer)
        revision = answer.get("revision")
        self.revision = revision if isinstance(revision, int) else None
        self.request_id = request_id

    def details(self) -> dict[str, Any]:
        found: dict[str, Any] = {"status": self.status, "requestId": self.request_id}
        if self.problems:
            found["errors"] = [asdict(one) for one in self.problems]
        if self.revision is not None:
            found["revision"] = self.revision
        return found


class InvalidTable(CtlError):
    """The table has problems; every one is named."""

    code = "invalid_config"

    def __init__(self, file: str, problems: tuple[Problem, ...]) -> None:
        count = len(problems)
        super().__init__(f"{file} is invalid: {count} problem{'' if count == 1 else 's'}. Nothing was written.")
        self.problems = problems

    def details(self) -> dict[str, Any]:
        return {"errors": [asdict(one) for one in self.problems]}


def problems_in(answer: Mapping[str, Any]) -> tuple[Problem, ...]:
    """The problems that an answer of the control plane lists."""
    listed = answer.get("errors") or ()
    return tuple(Problem(str(one.get("path", "")), str(one.get("message", ""))) for one in listed)


def _because(replica: Mapping[str, Any]) -> str:
    return f": {replica['lastError']}" if replica.get("lastError") else ""
