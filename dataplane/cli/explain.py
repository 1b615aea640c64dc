"""`gateway explain`: which route would handle a request, why it beat the others, and which steps would run (§3.3)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from common.routetable.given_file import Unreadable, read_given_file
from common.telemetry.redact import escape_controls

if TYPE_CHECKING:
    from rich.console import Console

    from common.routetable.explain import Explanation

HELP = """Say which route of FILE would handle METHOD URL, why it beat the others, and which steps would run.

\b
Examples:
  gateway explain routes.json GET https://api.example.com/ws/42/files
  gateway explain routes.json POST /ws/42/files
  gateway explain routes.json GET //admin --json

A URL without a host stands for a request that names none: only routes of every host (*) match it. The path is taken as
written, escapes and all. Exit codes: 0 a route or the gateway answers, 1 it is refused, no route matches, or the table
is invalid, 2 wrong usage.
"""

_ABSOLUTE = re.compile(r"(?i:https?)://([^/?#]*)([^?]*)(\?.*)?", re.DOTALL)
_METHOD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class BadUsage(Exception):
    """An argument that cannot be a request. The message says what to write."""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""

    @app.command("explain", help=HELP)
    def explain_command(
        file: Annotated[str, typer.Argument(metavar="FILE", help="The route table; - reads standard input.")],
        method: Annotated[str, typer.Argument(metavar="METHOD", help="The request's method, as sent.")],
        url: Annotated[str, typer.Argument(metavar="URL", help="An absolute URL, or a path.")],
        as_json: Annotated[bool, typer.Option("--json", help="Print the explanation as JSON.")] = False,
    ) -> None:
        from common.routetable.compiled import DeploymentDefaults
        from common.routetable.explain import explain
        from common.routetable.load import RouteTableInvalid, load_route_table

        try:
            host, path = request_of(method, url)
            text = read_given_file(file)
        except (BadUsage, Unreadable) as error:
            typer.echo(f"gateway explain: {error}", err=True)
            raise typer.Exit(2) from None
        try:
            table = load_route_table(text, DeploymentDefaults())
        except RouteTableInvalid as invalid:
            file = escape_controls(file)
            typer.echo(f"gateway explain: {file} is invalid: {invalid}. See: gateway check {file}", err=True)
            raise typer.Exit(1) from None
        explanation = explain(table, host, path, method)
        if as_json:
            typer.echo(orjson.dumps(as_value(explanation), option=orjson.OPT_INDENT_2).decode())
        else:
            _print(explanation)
        raise typer.Exit(0 if explanation.outcome in ("route", "gateway") else 1)


def request_of(method: str, url: str) -> tuple[str | None, str]:
    """Host (None without one) and raw path of a request. Raises `BadUsage`."""
    from common.routetable.hosts import host_with_port

    if _METHOD.fullmatch(method) is None:
        raise BadUsage(f"{method!r} is no method: write GET, POST, …")
    if url.startswith("/") or url == "*":
        return None, url.partition("?")[0]
    parts = _ABSOLUTE.fullmatch(url)
    if parts is None:
        raise BadUsage("the URL is neither absolute (https://host/path) nor a path (/path)")
    try:
        host, _ = host_with_port(parts[1])
    except ValueError as error:
        raise BadUsage(f"the host of the URL {error}") from None
    return host, parts[2] or "/"


def as_value(explanation: Explanation) -> dict[str, Any]:
    """The explanation for `--json`."""
    match = explanation.match
    return {
        "request": {"method": explanation.method, "host": explanation.host, "path": explanation.path},
        "readings": {"strict": explanation.strict, "loosest": explanation.loosest},
        "outcome": explanation.outcome,
        "reason": explanation.reason,
        "route": None if match is None else match.route.id,
        "params": {} if match is None else match.params,
        "upstreams": _targets(explanation),
        "beaten": [{"route": one.route_id, "rule": one.rule, "why": one.why} for one in explanation.beaten],
        "nearMisses": [{"route": one.route_id, "why": one.why} for one in explanation.near_misses],
        "steps": [{"name": step.name, "runs": step.runs, "detail": step.detail} for step in explanation.steps],
    }


def _targets(explanation: Explanation) -> list[str]:
    """Where the request would be sent, without its query."""
    from dataplane.forwarding.target import upstream_path

    match = explanation.match
    if match is None:
        return []
    return [
        f"{upstream.origin}{upstream_path(upstream, match, explanation.path)}" for upstream in match.route.upstreams
    ]


def _print(explanation: Explanation) -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True, markup=False)
    good = explanation.outcome in ("route", "gateway")
    console.print(explanation.reason, style="bold green" if good else "bold red")
    if explanation.strict and explanation.strict != explanation.path:
        console.print(f"  strict reading   {explanation.strict}")
    if explanation.loosest not in ("", explanation.path):
        console.print(f"  loosest reading  {_escaped(explanation.loosest)}")
    match = explanation.match
    if match is not None:
        methods = ",".join(sorted(match.route.methods)) if match.route.methods else "every method"
        console.print(f"  route     {match.route.id}: {methods} {match.route.host} {match.route.path}")
        for name, value in match.params.items():
            console.print(f"  captured  {{{name}}} = {value}")
        for target in _targets(explanation):
            console.print(f"  sent to   {target}")
    _section(console, "It beat", [f"{one.route_id}, by {one.rule}: {one.why}" for one in explanation.beaten])
    _section(console, "Nearly", [f"{one.route_id}: {one.why}" for one in explanation.near_misses])
    _section(
        console, "Steps", [f"{'+' if step.runs else '-'} {step.name}: {step.detail}" for step in explanation.steps]
    )


def _section(console: Console, title: str, lines: list[str]) -> None:
    if lines:
        console.print(f"{title}:", style="bold")
    for line in lines:
        console.print(f"  {line}")


def _escaped(text: str) -> str:
    """A decoded path on one line, whatever bytes it holds."""
    return text.encode("unicode_escape").decode("ascii")
