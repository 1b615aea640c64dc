"""One attempt to load the file: everything that blocks or takes time, for a thread. It never raises."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from common.routetable.compiled import TrustedProxies
from common.routetable.document import MAX_TABLE_BYTES
from common.routetable.load import Problem, RouteTableInvalid, load_route_table
from common.routetable.problems import summary
from common.routetable.table import RouteTable
from common.routetable.toplevel import wide_ranges
from common.settings.gateway import GatewaySettings


@dataclass(frozen=True, slots=True)
class Loaded:
    """A valid table. `token` stands for the bytes it was made of."""

    token: str
    table: RouteTable


@dataclass(frozen=True, slots=True)
class Refused:
    """A file that cannot be taken. `token` is equal for the same failure of the same bytes."""

    token: str
    reason: str
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The file is what it was at the attempt before."""


def attempt(path: Path, settings: GatewaySettings, seen: str) -> Loaded | Refused | Unchanged:
    """Read and compile the file, unless it is what `seen` (the token of the last attempt) stands for."""
    try:
        text = read_file(path)
    except OSError as error:
        reason = f"{path} cannot be read: {error.strerror or error}"
        return Unchanged() if reason == seen else Refused(reason, reason)
    return attempt_text(text, str(path), settings, seen)


def attempt_text(text: bytes, name: str, settings: GatewaySettings, seen: str = "") -> Loaded | Refused | Unchanged:
    """Compile a table, unless it is what `seen` stands for. `name` is what a refusal calls it."""
    token = hashlib.sha256(text).hexdigest()
    if token == seen:
        return Unchanged()
    try:
        table = load_route_table(text, settings.route_defaults)
    except RouteTableInvalid as invalid:
        return Refused(token, f"{name} is not a valid route table: {invalid}", invalid.problems)
    except Exception as error:  # noqa: BLE001 (a bug in compiling must leave the running table as it is)
        return Refused(token, f"{name} could not be compiled: {type(error).__name__}")
    problems = unfit_for(table, settings)
    if problems:
        return Refused(token, f"{name} does not fit the deployment: {summary(problems)}", problems)
    return Loaded(token, table)


def read_file(path: Path) -> bytes:
    """The content of a regular file, cut behind the largest table. Raises `OSError`; a FIFO never blocks it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a regular file")
        return stream.read(MAX_TABLE_BYTES + 1)


def trusted_proxies_of(table: RouteTable, settings: GatewaySettings) -> TrustedProxies:
    """The ranges in force: the environment's replace the table's (§7.3)."""
    return settings.trusted_proxies or table.trusted_proxies


def unfit_for(table: RouteTable, settings: GatewaySettings) -> tuple[Problem, ...]:
    """What production refuses in a table that is valid by itself (§4.3)."""
    if not settings.production:
        return ()
    problems = () if settings.trusted_proxies else wide_ranges(table.trusted_proxies)
    if not settings.access_url or settings.access_token is None:
        problems += tuple(
            Problem(f"routes[{index}]", "asks Access: set GATEWAY_ACCESS_URL and GATEWAY_ACCESS_TOKEN")
            for index, route in enumerate(table.routes)
            if route.access_check
        )
    return problems
