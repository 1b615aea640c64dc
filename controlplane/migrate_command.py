"""`gateway-control migrate`."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from controlplane.migrate import Migrated

HELP = """Bring the shared state on Postgres to this release: tables, functions, and the roles gateway_data and
gateway_control.

\b
Examples:
  GATEWAY_CONTROL_STATE_URL=postgres://owner:password@db/gateway gateway-control migrate
  GATEWAY_CONTROL_STATE_URL_FILE=/run/secrets/state gateway-control migrate --json
  gateway-control migrate --check            is anything to do? changes nothing; 1 when there is
  gateway-control migrate --to base          take everything away again, with all that it holds

The user in the URL must be allowed to create a schema and roles. Afterwards grant the roles to the users of the two
programs: GRANT gateway_data TO …; GRANT gateway_control TO …. It is safe while gateways run: each migration is one
transaction that waits at most five seconds for a lock; one that fails changed nothing, and can be run again.
Exit codes: 0 done, 1 refused or failed, 2 wrong usage.
"""


def register(app: typer.Typer) -> None:
    @app.command("migrate", help=HELP)
    def migrate(
        to: Annotated[str, typer.Option(metavar="MIGRATION", help="`head`, `base`, or a migration's number.")] = "head",
        check: Annotated[bool, typer.Option("--check", help="Only say whether there is something to do.")] = False,
        as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    ) -> None:
        from common.settings.control import load_control_store
        from common.settings.errors import SettingsInvalid
        from controlplane.migrate import MigrationFailed, run_migrations

        try:
            store = load_control_store(os.environ)
            done = [run_migrations(store.state_url.reveal(), store.key_prefix, to=to, check=check)]
        except SettingsInvalid as invalid:
            for problem in invalid.problems:
                typer.echo(f"gateway-control: {problem}", err=True)
            raise typer.Exit(1) from None
        except MigrationFailed as failed:
            typer.echo(f"gateway-control: {failed}", err=True)
            raise typer.Exit(1) from None
        show(done, as_json=as_json, check=check)
        behind = any(each.before != each.after or each.differences for each in done)
        raise typer.Exit(1 if check and behind else 0)


def show(done: list[Migrated], *, as_json: bool, check: bool) -> None:
    """Print what was done, or what is to do."""
    if as_json:
        entries = [
            {"schema": each.schema, "before": each.before, "after": each.after, "differences": list(each.differences)}
            for each in done
        ]
        typer.echo(json.dumps({"schemas": entries}))
        return
    for each in done:
        if each.before == each.after:
            typer.echo(f"schema {each.schema}: at {each.after or 'base'}, nothing to do")
        else:
            verb = "must go" if check else "went"
            typer.echo(f"schema {each.schema}: {verb} from {each.before or 'base'} to {each.after or 'base'}")
        for difference in each.differences:
            typer.echo(f"schema {each.schema}: differs from this release: {difference}")
