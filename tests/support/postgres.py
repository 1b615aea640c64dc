"""A real Postgres on loopback in a folder of its own, run by the user `postgres` where the tests run as root."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import asyncpg

from controlplane.migrate import run_migrations
from tests.support.counterparts import missing
from tests.support.ports import free_port
from tests.support.processes import Child, Children, eventually

OWNER_PASSWORD = "owner of the tests"
DATA_PASSWORD = "data of the tests"
CONTROL_PASSWORD = "control of the tests"
PLANES_PASSWORD = "planes of the tests"

# As little work for the disk as there is: what the tests lose in a crash of the machine, nobody misses.
_CONFIGURATION = """\
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
fsync = off
full_page_writes = off
shared_buffers = 32MB
max_connections = 60
max_wal_size = 256MB
timezone = 'UTC'
log_min_messages = warning
"""


@dataclass
class Postgres:
    """A running server with a superuser `owner`, and the users `data`, `control` and `planes` once it was migrated."""

    children: Children
    folder: Path
    port: int
    env: Mapping[str, str] | None
    child: Child

    @property
    def url(self) -> str:
        """As the owner."""
        return self.url_of("owner", OWNER_PASSWORD)

    @property
    def data_url(self) -> str:
        """As the data plane's user."""
        return self.url_of("data", DATA_PASSWORD)

    @property
    def control_url(self) -> str:
        """As the control plane's user."""
        return self.url_of("control", CONTROL_PASSWORD)

    @property
    def planes_url(self) -> str:
        """As a user who is both planes: the same suite covers what either may do."""
        return self.url_of("planes", PLANES_PASSWORD)

    def url_of(self, user: str, password: str, database: str = "postgres") -> str:
        return f"postgres://{user}:{password.replace(' ', '%20')}@127.0.0.1:{self.port}/{database}"

    async def run(self, *statements: str, url: str = "") -> list[list[asyncpg.Record]]:
        """The rows of statements on one connection."""
        connection = await asyncpg.connect(url or self.url)
        try:
            return [await connection.fetch(statement) for statement in statements]
        finally:
            await connection.close()

    async def migrate(self, schema: str = "gateway") -> None:
        """Bring a schema to this release, and make the users."""
        await asyncio.to_thread(run_migrations, self.url, schema)
        await self.make_users()

    async def make_users(self) -> None:
        """Make the users of the planes; there are roles for them once a schema was migrated."""
        for user, password, roles in (
            ("data", DATA_PASSWORD, "gateway_data"),
            ("control", CONTROL_PASSWORD, "gateway_control"),
            ("planes", PLANES_PASSWORD, "gateway_data, gateway_control"),
        ):
            await self.run(
                f"DO $$ BEGIN CREATE USER {user} PASSWORD '{password}'; "
                "EXCEPTION WHEN duplicate_object THEN NULL; END $$",
                f"GRANT {roles} TO {user}",
            )

    async def empty(self, schema: str = "gateway") -> None:
        """Take out of a schema what programs put in."""
        await self.run(
            f"SET search_path TO {schema}",
            "TRUNCATE sessions, decisions, budgets, heartbeats, leases, challenges, pointer, revisions, audit, "
            "auth_failures, sealed RESTART IDENTITY CASCADE",
            "UPDATE decision_drops SET count = 0",
        )

    def stop(self) -> None:
        """End it: connections are cut, as in a restart by an operator."""
        self.child.interrupt()
        self.child.stop()

    def signal(self, number: signal.Signals) -> None:
        """To the server and to the process of each connection, which are groups of their own."""
        for pid in (self.child.pid, *_children_of(self.child.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def restart(self) -> None:
        """Start it again on its port and folder."""
        self.child = _start(self.children, self.folder, self.port, self.env)


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that another user may enter for as long as it is there. Those of pytest are closed again by the next
    run of the same user, whenever it begins.
    """
    with TemporaryDirectory(prefix="wicketgate-postgres-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder


def start_postgres(children: Children, folder: Path, *, env: Mapping[str, str] | None = None) -> Postgres:
    """Make a cluster and start it; returns once it takes connections. `folder` lies in an `open_folder`."""
    initdb = _program("initdb")
    folder.mkdir(parents=True)
    password = folder.parent / f"{folder.name}.password"
    password.write_text(OWNER_PASSWORD)
    _give_away(folder, password)
    argv = [
        *_as_postgres(), str(initdb), "-D", str(folder), "-U", "owner", "--pwfile", str(password),
        "-A", "scram-sha-256", "--no-sync", "-E", "UTF8", "--locale", "C",
    ]  # fmt: skip
    made = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, cwd="/")
    assert made.returncode == 0, made.stdout + made.stderr
    port = free_port()
    with (folder / "postgresql.conf").open("a") as configuration:
        configuration.write(f"{_CONFIGURATION}port = {port}\n")
    return Postgres(children, folder, port, env, _start(children, folder, port, env))


def _start(children: Children, folder: Path, port: int, env: Mapping[str, str] | None) -> Child:
    (folder / "postmaster.pid").unlink(missing_ok=True)
    # Set behind the change of user: a preloaded library would keep what it makes for the user before.
    named = [f"{name}={value}" for name, value in (env or {}).items()]
    argv = [*_as_postgres(), "env", *named, str(_program("postgres")), "-D", str(folder)]
    child = children.start(argv, name="postgres", env={"PATH": "/usr/bin:/bin"}, cwd=Path("/"))
    child.wait_for_port(port, within_s=60)
    ready = [str(_program("pg_isready")), "-h", "127.0.0.1", "-p", str(port), "-q"]
    eventually(lambda: subprocess.run(ready, check=False, timeout=20).returncode == 0, within_s=60)
    return child


def _children_of(parent: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # Behind the name, which may hold anything: state, then the parent.
            if int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(stat.parent.name))
    return found


def _program(name: str) -> Path:
    found = shutil.which(name)
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    if places:
        return places[0]
    return Path(found) if found else missing("postgres", f"{name} not found")


def _as_postgres() -> list[str]:
    """What comes before a command: initdb and the server refuse to run as root."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--init-groups"]


def _give_away(*paths: Path) -> None:
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        for path in paths:
            os.chown(path, user.pw_uid, user.pw_gid)
