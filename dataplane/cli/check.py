"""`gateway check`: is a route table valid, and what in it opens something up (§3, §12.2)?"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from common.routetable.given_file import Unreadable, read_given_file
from common.telemetry.redact import escape_controls

if TYPE_CHECKING:
    from common.routetable.problems import Problem
    from common.routetable.table import RouteTable
    from common.routetable.warnings import PermissiveSetting

HELP = """Validate a route table as a whole. Every problem is printed with its place in the file.

\b
Examples:
  gateway check routes.json
  gateway check routes.json --production
  gateway check - --json < routes.json

Warnings name settings that open something up; they do not make the table invalid. What the environment adds is not
looked at: the defaults of its variables are assumed. Exit codes: 0 valid, 1 invalid, 2 the file cannot be read.
"""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""

    @app.command("check", help=HELP)
    def check(
        file: Annotated[str, typer.Argument(metavar="FILE", help="The route table; - reads standard input.")],
        as_json: Annotated[bool, typer.Option("--json", help="Print JSON: valid, errors, warnings.")] = False,
        production: Annotated[
            bool, typer.Option("--production", help="Refuse what production refuses: wide trusted ranges.")
        ] = False,
    ) -> None:
        try:
            text = read_given_file(file)
        except Unreadable as error:
            typer.echo(f"gateway check: {error}", err=True)
            raise typer.Exit(2) from None
        table, problems, warnings = judge(text, production=production)
        if as_json:
            typer.echo(_as_json(problems, warnings))
        else:
            _print(file, table, problems, warnings)
        raise typer.Exit(1 if problems else 0)


def judge(
    text: bytes, *, production: bool
) -> tuple[RouteTable | None, tuple[Problem, ...], tuple[PermissiveSetting, ...]]:
    """The table with its warnings, or its problems."""
    from common.routetable.compiled import DeploymentDefaults
    from common.routetable.load import RouteTableInvalid, load_route_table
    from common.routetable.toplevel import wide_ranges
    from common.routetable.warnings import Surroundings, permissive_settings

    try:
        table = load_route_table(text, DeploymentDefaults())
    except RouteTableInvalid as invalid:
        return None, invalid.problems, ()
    problems = wide_ranges(table.trusted_proxies) if production else ()
    return table, problems, permissive_settings(table, Surroundings())


def _as_json(problems: tuple[Problem, ...], warnings: tuple[PermissiveSetting, ...]) -> str:
    result = {
        "valid": not problems,
        "errors": [asdict(problem) for problem in problems],
        "warnings": [
            {"route": warning.route_id or None, "setting": warning.setting, "message": warning.message}
            for warning in warnings
        ],
    }
    return orjson.dumps(result, option=orjson.OPT_INDENT_2).decode()


def _print(
    file: str, table: RouteTable | None, problems: tuple[Problem, ...], warnings: tuple[PermissiveSetting, ...]
) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    file = escape_controls(file)
    for problem in problems:
        console.print(
            Text.assemble(("error    ", "bold red"), (problem.path or "document", "bold"), f": {problem.message}")
        )
    for warning in warnings:
        place = f"{warning.route_id}: {warning.setting}" if warning.route_id else warning.setting
        console.print(Text.assemble(("warning  ", "yellow"), (place, "bold"), f": {warning.message}"))
    if problems or table is None:
        count = len(problems)
        console.print(
            f"{file} is invalid: {count} problem{'s' if count > 1 else ''}. Nothing of it would be used.", markup=False
        )
        return
    count = len(table.routes)
    console.print(f"{file} is valid: version {table.version}, {count} route{'' if count == 1 else 's'}.", markup=False)
