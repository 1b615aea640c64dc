"""Publishing a revision: what was shown is written, over the revision that it was compared with, or nothing is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from controlplane.ctl.client import Answer
from controlplane.ctl.command import Command
from controlplane.ctl.compare import active_revision, between, read_table, validated
from controlplane.ctl.failures import CONFLICT, CtlError, Refused
from controlplane.ctl.replicas import wait_for_replicas
from controlplane.ctl.screen import moment, plain

SHOWN_SINCE = 5
"""Revisions that a conflict names."""


class Conflict(CtlError):
    """Somebody else's revision is active, or the change touches what may not be changed."""

    exit_code = CONFLICT

    def __init__(self, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self._details = details

    def details(self) -> dict[str, Any]:
        return self._details


def push_file(command: Command, file: str, *, yes: bool, wait_s: float | None) -> None:
    """Publish a file."""
    text = read_table(file)
    judged = validated(command, file, text)
    warnings, read = judged.get("warnings", []), int(judged["revision"])
    command.screen.warnings(warnings)
    if not judged["diff"].get("unified"):
        _tell(command, read, changed=False, warnings=warnings, wait_s=wait_s)
        return
    _show(command, judged["diff"])
    protected = judged.get("protectedRoutes") or []
    if protected:
        raise Conflict(
            "protected_route",
            f"Protected routes may not be removed or changed: {', '.join(map(str, protected))}. Nothing was written.",
            revision=read,
        )
    instead = f" in place of revision {read}" if read else ""
    if not yes:
        command.confirm(f"Publish {file} as revision {read + 1}{instead}?")
    answer = _written(
        command,
        read,
        f"gatewayctl config push {file}",
        lambda: command.api.change("PUT", "/v1/config", body=text, read=read),
    )
    _tell(command, int(answer.value["revision"]), changed=True, warnings=warnings, wait_s=wait_s)


def roll_back(command: Command, revision: int, *, yes: bool, wait_s: float | None) -> None:
    """Publish the table of an earlier revision."""
    read = active_revision(command)
    if read == 0:
        raise CtlError("There is no revision yet: publish the first one with `gatewayctl config push FILE`.")
    difference = between(command, read, revision)
    if not difference.get("unified"):
        _tell(command, read, changed=False, warnings=[], wait_s=wait_s)
        return
    _show(command, difference)
    if not yes:
        command.confirm(f"Publish the table of revision {revision} as revision {read + 1}?")
    body = orjson.dumps({"revision": revision})
    answer = _written(
        command,
        read,
        f"gatewayctl config rollback {revision}",
        lambda: command.api.change("POST", "/v1/config/rollback", body=body, read=read),
    )
    warnings = answer.value.get("warnings", [])
    command.screen.warnings(warnings)
    _tell(command, int(answer.value["revision"]), changed=True, warnings=warnings, wait_s=wait_s)


def _show(command: Command, difference: dict[str, Any]) -> None:
    if not command.screen.as_json:
        command.screen.diff(difference, command.screen.err)


def _written(command: Command, read: int, again: str, write: Callable[[], Answer]) -> Answer:
    """Write; where somebody else was faster, say who and what to do."""
    try:
        with command.screen.waiting("Writing …"):
            return write()
    except Refused as refused:
        if refused.code != "revision_conflict":
            raise
        since = _since(command, read)
        for item in since:
            command.screen.note(
                f"revision {item['revision']}  {moment(item['time'])}  {item['operator']}  {item['action']}", "yellow"
            )
        raise Conflict(
            refused.code,
            f"Revision {refused.revision} became active meanwhile, in place of {read}. Nothing was written. See what "
            f"was changed: gatewayctl config diff --from {read}. Then try again: {again}",
            revision=refused.revision,
            since=since,
        ) from None


def _since(command: Command, read: int) -> list[dict[str, Any]]:
    """The newest revisions after the one that was read; none where they cannot be read."""
    try:
        items, _ = command.api.pages("/v1/config/revisions", {}, SHOWN_SINCE)
    except CtlError:
        return []
    return [item for item in items if int(item["revision"]) > read]


def _tell(command: Command, revision: int, *, changed: bool, warnings: list[Any], wait_s: float | None) -> None:
    """The result; with `wait_s` once the replicas serve it."""
    screen = command.screen
    if not screen.as_json:
        what = "is published and active" if changed else "is active, and holds the same: nothing was written"
        screen.out.print(plain(f"Revision {revision} {what}.", "green" if changed else ""), soft_wrap=True)
    result: dict[str, Any] = {"revision": revision, "changed": changed, "warnings": warnings}
    if wait_s is not None:
        result["replicas"] = wait_for_replicas(command, revision, wait_s)
    if screen.as_json:
        screen.json(result)
