"""What `gatewayctl config` shows of revisions, files, and what lies between them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import orjson

from common.json_text import inert_json, json_text
from common.routetable.canonical import redacted
from common.routetable.diff import table_difference
from common.routetable.document import MAX_TABLE_BYTES
from common.routetable.given_file import Unreadable, read_given_file
from common.telemetry.redact import REDACTED
from controlplane.ctl.command import Command
from controlplane.ctl.failures import CtlError, InvalidTable, WrongUsage, problems_in
from controlplane.ctl.screen import moment, write
from controlplane.ctl.tables import Column

MASKED = "Credentials in upstream URLs are masked. Write them again before you push this table."


def show_table(command: Command, revision: int | None) -> None:
    """Print a table; None is the active one."""
    if revision is None:
        answer = command.api.get("/v1/config")
        whole: dict[str, Any] = {"revision": answer.revision, "table": answer.value}
        text = inert_json(answer.body.decode())
    else:
        whole = command.api.get(f"/v1/config/revisions/{revision}").value
        text = json_text(whole.get("table"), indent=2)
    if command.screen.as_json:
        command.screen.json(whole)
        return
    write(text if text.endswith("\n") else text + "\n")
    if REDACTED in text:
        command.screen.note(MASKED, "yellow")


def show_difference(command: Command, file: str | None, earlier: int | None, later: int | None) -> None:
    """Print what differs between two revisions, or what a file would change."""
    if file is None:
        difference = between(command, earlier, later)
        if command.screen.as_json:
            command.screen.json(difference)
        else:
            command.screen.diff(difference)
        return
    if later is not None:
        raise WrongUsage("FILE is the table after the change: leave --to out.")
    text = read_table(file)
    judged = validated(command, file, text)
    if earlier is None:
        difference = {"from": judged["revision"], "to": None, **judged["diff"]}
    else:
        difference = from_revision(command, file, text, earlier)
    if command.screen.as_json:
        command.screen.json({**difference, "warnings": judged.get("warnings", [])})
        return
    command.screen.warnings(judged.get("warnings", ()))
    command.screen.diff(difference)


def show_history(command: Command, limit: int) -> None:
    """Print the revisions, newest first."""
    items, more = command.api.pages("/v1/config/revisions", {}, limit)
    if command.screen.as_json:
        command.screen.json({"items": items, "more": more})
        return
    columns = (
        Column("REVISION", right=True),
        Column("TIME"),
        Column("OPERATOR", shortest=8),
        Column("ACTION", shortest=8),
    )
    command.screen.table(
        columns, [[str(item["revision"]), moment(item["time"]), item["operator"], item["action"]] for item in items]
    )
    if more:
        command.screen.note("There are more: raise --limit, or list all with --limit 0.")


def between(command: Command, earlier: int | None, later: int | None) -> dict[str, Any]:
    """The difference of two revisions: without the later one up to the active, without the earlier one from the one
    before.
    """
    return command.api.get("/v1/config/diff", {"from": earlier, "to": later}).value


def active_revision(command: Command) -> int:
    """The active revision, which is the newest; 0 when there is none."""
    items, _ = command.api.pages("/v1/config/revisions", {}, 1)
    return int(items[0]["revision"]) if items else 0


def from_revision(command: Command, file: str, text: bytes, earlier: int) -> dict[str, Any]:
    """What a valid file changes of a revision. Credentials are no part of it: the revision comes without them."""
    before = command.api.get(f"/v1/config/revisions/{earlier}").value["table"]
    found = table_difference(before, redacted(orjson.loads(text)), names=(f"revision {earlier}", file))
    return {"from": earlier, "to": None, **asdict(found)}


def read_table(file: str) -> bytes:
    """The table that a person names. Raises `CtlError`."""
    try:
        text = read_given_file(file)
    except Unreadable as error:
        raise WrongUsage(str(error)) from None
    if len(text) > MAX_TABLE_BYTES:
        raise CtlError(f"{file} is larger than {MAX_TABLE_BYTES} bytes, the most that a table may have.")
    return text


def validated(command: Command, file: str, text: bytes) -> dict[str, Any]:
    """What the control plane says of a table that it would take: warnings, difference, protected routes, and the
    revision that it was compared with. Raises `InvalidTable` with every problem.
    """
    with command.screen.waiting("Validating …"):
        judged = command.api.judge("/v1/config/validate", text).value
    if not judged.get("valid"):
        raise InvalidTable(file, problems_in(judged))
    return judged
