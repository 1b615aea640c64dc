"""The program `gateway-access`: serves the operator's policy, or checks another service against the protocol."""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from common.programs import run_program

if TYPE_CHECKING:
    from common.settings.secret import Secret
    from dataplane.accessservice.conformance import Pair, Target

HELP = """Serve decisions of a policy file to the gateway, or check any Access service against the protocol.

\b
Serve (ACCESS_TOKEN or ACCESS_TOKEN_FILE, ACCESS_HOST 127.0.0.1, ACCESS_PORT 8090):
  ACCESS_TOKEN_FILE=token gateway-access policy.json

\b
Check (the token by ACCESS_TOKEN, ACCESS_TOKEN_FILE or --token-file, which no process list shows):
  gateway-access --conformance http://127.0.0.1:8090 --token-file token \\
      --allow user-1:11111111-1111-4111-8111-111111111111 \\
      --deny user-2:11111111-1111-4111-8111-111111111111
  gateway-access --conformance https://access.internal --allow u1:w1 --deny u2:w1 --role dev --json

The policy is watched: a valid change counts at once, an invalid one changes nothing and is logged. An empty WORKSPACE
(`user-1:`) asks without one. Exit codes: 0 served or passed, 1 failed, 2 wrong usage.
"""

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_show_locals=False)


def main() -> None:
    """The program `gateway-access`."""
    run_program(app, "gateway-access")


@app.command(help=HELP, no_args_is_help=True)
def gateway_access(
    policy: Annotated[Path | None, typer.Argument(help="The policy file to serve.", show_default=False)] = None,
    conformance: Annotated[
        str,
        typer.Option("--conformance", metavar="URL", help="Check the service at this base URL.", show_default=False),
    ] = "",
    token: Annotated[
        str, typer.Option(metavar="TOKEN", help="Its token; a process list shows it.", show_default=False)
    ] = "",
    token_file: Annotated[
        str, typer.Option(metavar="FILE", help="A file that holds its token.", show_default=False)
    ] = "",
    allow: Annotated[
        str, typer.Option(metavar="SUBJECT:WORKSPACE", help="What its policy allows.", show_default=False)
    ] = "",
    deny: Annotated[
        str, typer.Option(metavar="SUBJECT:WORKSPACE", help="What its policy denies.", show_default=False)
    ] = "",
    route: Annotated[str, typer.Option(metavar="ID", help="The route that is asked about.")] = "conformance",
    role: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE", help="A role of the allowed subject; may be repeated.", show_default=False),
    ] = None,
    reason_code: Annotated[
        str, typer.Option(metavar="CODE", help="The reasonCode the denial must carry.", show_default=False)
    ] = "",
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, max=60, help="How long the gateway would wait.")
    ] = 3.0,
    ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="PEM of a private authority.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    if bool(policy) == bool(conformance):
        raise typer.BadParameter("give a policy file to serve, or --conformance URL to check a service; not both")
    if policy is not None:
        if token or token_file or allow or deny or as_json:
            raise typer.BadParameter(
                "--token, --token-file, --allow, --deny and --json belong to --conformance; serving takes its token "
                "from ACCESS_TOKEN or ACCESS_TOKEN_FILE"
            )
        raise typer.Exit(_serve(policy))

    from dataplane.accessservice.conformance import Target

    target = Target(
        url=_url(conformance),
        token=_token(token, token_file, os.environ),
        allow=_pair("--allow", allow),
        deny=_pair("--deny", deny),
        route_id=route,
        roles=tuple(role or ()),
        reason_code=reason_code,
        timeout_s=timeout,
        tls=_authority(ca),
    )
    raise typer.Exit(_check(target, as_json=as_json))


def _serve(policy: Path) -> int:
    from common.settings.access_service import load_access_service_settings
    from common.settings.errors import SettingsInvalid
    from common.telemetry.line_writer import LineWriter
    from common.telemetry.log import Log
    from dataplane.accessservice.policy import PolicyInvalid
    from dataplane.accessservice.serve import serve

    try:
        settings = load_access_service_settings(os.environ)
    except SettingsInvalid as invalid:
        return _refuse(invalid.problems)
    writer = LineWriter(sys.stdout.fileno())
    log = Log(writer.write)

    async def run() -> int:
        writer.attach(asyncio.get_running_loop())
        return await serve(settings, policy, log)

    try:
        return asyncio.run(run())
    except PolicyInvalid as invalid:
        return _refuse(f"{policy}: {problem}" for problem in invalid.problems)
    except OSError as error:
        return _refuse([f"{policy}: cannot be read: {error.strerror or error}"])
    finally:
        writer.close()


def _refuse(problems: Iterable[str]) -> int:
    for problem in problems:
        typer.echo(f"gateway-access: {problem}", err=True)
    return 1


def _check(target: Target, *, as_json: bool) -> int:
    import orjson
    from rich.console import Console

    from dataplane.accessservice.conformance import run_checks
    from dataplane.accessservice.conformance.show import print_report

    report = asyncio.run(run_checks(target))
    if as_json:
        typer.echo(orjson.dumps(report.as_json(), option=orjson.OPT_INDENT_2).decode())
    else:
        print_report(report, Console(soft_wrap=False))
    return 0 if report.passed else 1


def _url(text: str) -> str:
    from common.settings.parsers import SERVICE_URL
    from dataplane.access.protocol import DECISIONS_PATH

    try:
        url = SERVICE_URL(text)
    except ValueError as error:
        raise typer.BadParameter(f"--conformance {error}") from None
    assert isinstance(url, str)  # noqa: S101 - what SERVICE_URL makes
    if url.endswith(DECISIONS_PATH):
        raise typer.BadParameter(f"--conformance takes the base URL: leave {DECISIONS_PATH} out")
    return url


def _pair(option: str, text: str) -> Pair:
    from dataplane.accessservice.conformance import Pair

    # A subject may hold colons, as URNs do; a workspace does not.
    subject, colon, workspace = text.rpartition(":")
    if not subject or not colon:
        raise typer.BadParameter(f"{option} SUBJECT:WORKSPACE is required: what the service's policy is known to say")
    return Pair(subject, workspace or None)


def _token(token: str, token_file: str, environ: Mapping[str, str]) -> Secret:
    from common.settings.access_service import ACCESS_SERVICE
    from common.settings.read import read_small_file, read_variables
    from common.settings.secret import Secret

    if token and token_file:
        raise typer.BadParameter("--token and --token-file are both given; keep one")
    if token or token_file:
        environ = {"ACCESS_TOKEN": token, "ACCESS_TOKEN_FILE": token_file}
    variable = next(variable for variable in ACCESS_SERVICE.variables if variable.name == "ACCESS_TOKEN")
    problems: list[str] = []
    values, _ = read_variables((variable,), environ, read_small_file, problems)
    value = values.get("ACCESS_TOKEN")
    if isinstance(value, Secret):
        return value
    raise typer.BadParameter("; ".join(problems) + " (or give --token-file)")


def _authority(ca: Path | None) -> ssl.SSLContext | None:
    if ca is None:
        return None
    try:
        return ssl.create_default_context(cafile=str(ca))
    except (OSError, ssl.SSLError) as error:
        raise typer.BadParameter(f"--ca {ca} cannot be used: {error.strerror or error}") from None
