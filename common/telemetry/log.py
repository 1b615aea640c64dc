"""JSON logs: one line an event, redacted before anything is written, and never an exception to the caller (§12.2).

`Log` is for events, at any level. `RequestLog` is for the one line of each request, on the hot path: its fields are
fixed, and only those that a caller can fill are looked at.
"""

from __future__ import annotations

import re
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Literal, TypeAlias

import orjson

from common.settings.secret import Secret
from common.telemetry.redact import (
    REDACTED,
    TEXT_MAX,
    bounded,
    escape_controls,
    is_sensitive_name,
    redact_target,
    redact_text,
    safe_target,
    safe_text,
)
from common.values import remember

Write = Callable[[bytes], object]
Level = Literal["debug", "info", "warning", "error"]

LEVELS: dict[str, int] = {"debug": 10, "info": 20, "warning": 30, "error": 40}

STACK_MAX = 8_192
ITEMS_MAX = 50
"""Entries kept of a list, mapping or the fields of an event."""
DEPTH_MAX = 4
INT_MAX = 2**63 - 1
SHORT_MAX = 512
"""Of what is short by nature: a host, a subject, a user agent."""
USER_AGENT_MAX = SHORT_MAX + 1
"""Bytes looked at: one more than is kept, so that a cut shows."""


class Clock:
    """The time of a line, RFC 3339 in UTC with milliseconds; many lines share a millisecond, and its text."""

    __slots__ = ("_millisecond", "_now", "_prefix", "_second", "_text")

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._millisecond = -1
        self._second = -1
        self._prefix = ""
        self._text = ""

    def text(self) -> str:
        """Now, as `2026-01-31T23:59:59.999Z`."""
        millisecond = int(self._now() * 1000)
        if millisecond == self._millisecond:
            return self._text
        second = millisecond // 1000
        if second != self._second:
            self._prefix = time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(second))
            self._second = second
        self._millisecond = millisecond
        self._text = f"{self._prefix}{millisecond % 1000:03d}Z"
        return self._text


class Log:
    """Writes events. `write` takes one line, a UTF-8 JSON object with its line feed; it must not block.

    Field names are the contract's (`requestId`, `route`, …). A field whose name is a credential's is redacted, and so
    is every text that holds one; `exc=<exception>` adds its text and stack. A value of any type may be passed.
    `always` are fields that every event has, and no request line.
    """

    def __init__(
        self,
        write: Write,
        *,
        level: Level = "info",
        now: Callable[[], float] = time.time,
        always: Mapping[str, object] | None = None,
    ) -> None:
        self._write = write
        self._always = dict(always or {})
        self._level = level
        self._threshold = LEVELS[level]
        self._now = now
        self._clock = Clock(now)

    def debug(self, msg: str, **fields: object) -> None:
        if self._threshold <= 10:
            self._emit("debug", msg, fields)

    def info(self, msg: str, **fields: object) -> None:
        if self._threshold <= 20:
            self._emit("info", msg, fields)

    def warning(self, msg: str, **fields: object) -> None:
        if self._threshold <= 30:
            self._emit("warning", msg, fields)

    def error(self, msg: str, **fields: object) -> None:
        self._emit("error", msg, fields)

    def requests(self) -> RequestLog:
        """The log of requests that writes to the same place at the same level."""
        return RequestLog(self._write, level=self._level, now=self._now)

    def _emit(self, level: Level, msg: str, fields: dict[str, object]) -> None:
        try:
            line = event_line(self._clock.text(), level, msg, {**self._always, **fields})
        except Exception as error:  # noqa: BLE001 - a log line must not end what it describes, whatever a repr does
            line = _unwritable(self._clock.text(), error)
        self._write(line)


def event_line(time_text: str, level: Level, msg: str, fields: Mapping[str, object]) -> bytes:
    """One event as a line. `time`, `level` and `msg` come first and cannot be replaced by a field."""
    event: dict[str, object] = {"time": time_text, "level": level, "msg": safe_text(msg)}
    for name, value in list(fields.items())[:ITEMS_MAX]:
        if name == "exc" and isinstance(value, BaseException):
            event["error"] = _exception(value)
            event["stack"] = _stack(value)
        else:
            event.setdefault(_name(name), _field(name, value, 0))
    return orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE)


class RequestLog:
    """Writes the line of a request: the fields of the contract, always all of them, `null` where one does not apply."""

    def __init__(self, write: Write, *, level: Level = "info", now: Callable[[], float] = time.time) -> None:
        self._write = write
        self._threshold = LEVELS[level]
        self._clock = Clock(now)

    def line(
        self,
        request_id: str,
        trace_id: str,
        span_id: str,
        client: str,
        host: str,
        method: str,
        path: str,
        query: str,
        route: str,
        status: int,
        outcome: str,
        error: str,
        detail: str,
        subject: str | None,
        workspace_id: str | None,
        upstream: str,
        upstream_s: float | None,
        duration_s: float,
        bytes_in: int,
        bytes_out: int,
        user_agent: bytes | None,
    ) -> None:
        """Write the line of one request; the arguments come in the order of its fields.

        `query` is `""` or begins with `?`. `request_id` and the trace's ids are the gateway's own: they hold nothing
        that JSON escapes. `detail` is the cause behind `error`, for the operator. A failure is a warning, the
        gateway's own fault (`internal_error`) an error, everything else information.
        """
        said = client, host, method, route, status, outcome, error, subject, workspace_id, upstream, user_agent
        try:
            level, start, called, ended, served, agent = _known_pieces.get(said) or _pieces(said)
            if level < self._threshold:
                return
            line = (
                f'{{"time":"{self._clock.text()}{start}{request_id}","traceId":"{trace_id}","spanId":"{span_id}{called}'
                f"{_target(path, query)}{ended}{_json(safe_text(detail)) if detail else 'null'}{served}"
                f'{"null" if upstream_s is None else f"{upstream_s * 1000:.3f}"},"durationMs":{duration_s * 1000:.3f},'
                f'"bytesIn":{bytes_in},"bytesOut":{bytes_out}{agent}'
            ).encode()
        except Exception as failure:  # noqa: BLE001 - the request was answered; its line must not break what follows
            line = _unwritable(self._clock.text(), failure, requestId=str(request_id))
        self._write(line)


def _unwritable(time_text: str, failure: Exception, **fields: object) -> bytes:
    """The line in place of one that could not be made: a value had a type that its place does not allow."""
    return event_line(time_text, "error", "A log line could not be made", {"error": type(failure).__name__, **fields})


def _short(text: str) -> str:
    if len(text) <= SHORT_MAX and text.isprintable():
        return text
    return escape_controls(bounded(text, SHORT_MAX))


def _json(value: str | int | None) -> str:
    return orjson.dumps(value).decode()


_Said: TypeAlias = tuple[str, str, str, str, int, str, str, str | None, str | None, str, bytes | None]
"""Client, host, method, route, status, outcome, error, subject, workspace, upstream and user agent."""
_Pieces: TypeAlias = tuple[int, str, str, str, str, str]
"""Of a line what is the same for many requests, up to the places of what differs; its level as a number first."""

# Few callers, routes and agents send most requests. What is kept is short: a flood of them stays under 8 MiB.
_PIECES_MAX = 1024
_PIECES_MAX_CHARS = 1024
_known_pieces: OrderedDict[_Said, _Pieces] = OrderedDict()


def _pieces(said: _Said) -> _Pieces:
    client, host, method, route, status, outcome, error, subject, workspace_id, upstream, user_agent = said
    level, ended = _ended(route, status, outcome, error)
    agent = "null" if user_agent is None else _user_agent(user_agent[:USER_AGENT_MAX])
    pieces = (
        LEVELS[level],
        f'","level":"{level}","msg":"request","requestId":"',
        f'",{_called(client, host, method)},"path":',
        f',{ended},"detail":',
        f',{_served(subject, workspace_id, upstream)},"upstreamMs":',
        f',"userAgent":{agent}}}\n',
    )
    if (
        len(host) + len(method) + len(subject or "") + len(workspace_id or "") + len(user_agent or "")
        <= _PIECES_MAX_CHARS
    ):
        remember(_known_pieces, said, pieces, _PIECES_MAX)
    return pieces


def _called(client: str, host: str, method: str) -> str:
    return f'"client":{_json(client)},"host":{_json(_short(host))},"method":{_json(_short(method))}'


@lru_cache(maxsize=512)
def _ended(route: str, status: int, outcome: str, error: str) -> tuple[Level, str]:
    level: Level = "info" if outcome != "failed" else "error" if error == "internal_error" else "warning"
    fields = f'"route":{_json(route)},"status":{_json(status)},"outcome":{_json(outcome)}'
    return level, f'{fields},"error":{_json(error or None)}'


def _served(subject: str | None, workspace_id: str | None, upstream: str) -> str:
    who, where = _json(subject and _short(subject)), _json(workspace_id and _short(workspace_id))
    return f'"subject":{who},"workspaceId":{where},"upstream":{_json(upstream or None)}'


@lru_cache(maxsize=512)
def _user_agent(value: bytes) -> str:
    return _json(_short(value.decode("latin-1")))


# Targets that need neither redaction nor escapes in JSON are told by their characters, and by the names in their query,
# which are remembered without the values: among these characters only a name, or a JWT, makes a value a credential.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/._~-]*+")
_PLAIN_PAIR = r"[A-Za-z0-9._~-]*+(?:=[A-Za-z0-9._~-]*+)?+"
_PLAIN_QUERY = re.compile(rf"\?{_PLAIN_PAIR}(?:&{_PLAIN_PAIR})*+")
_VALUE = re.compile("=[^&]*")
_PLAIN_MAX = 512
_HARMLESS_MAX = 1024
_harmless: OrderedDict[str, None] = OrderedDict()
# The last targets of that kind themselves: they hold no more than the log does.
_SHOWN_MAX = 512
_shown: OrderedDict[str, str] = OrderedDict()


def _target(path: str, query: str) -> str:
    """A target as a JSON string."""
    target = path + query
    return _shown.get(target) or _target_anew(target, path, query)


def _target_anew(target: str, path: str, query: str) -> str:
    names = None
    if len(target) <= _PLAIN_MAX and "eyJ" not in target and _PLAIN_PATH.fullmatch(path) is not None:
        if query and _PLAIN_QUERY.fullmatch(query) is not None:
            names = _VALUE.sub("=", query)
        if not query or names in _harmless:
            return remember(_shown, target, f'"{target}"', _SHOWN_MAX)
    shown = redact_target(target) if len(target) <= TEXT_MAX and target.isprintable() else safe_target(target)
    if names is not None and shown == target:
        remember(_harmless, names, None, _HARMLESS_MAX)
    return _json(shown)


def _name(name: str) -> str:
    return escape_controls(bounded(name, 64))


def _field(name: str, value: object, depth: int) -> object:
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if -INT_MAX <= value <= INT_MAX else str(value)
    if isinstance(value, Secret) or is_sensitive_name(name):
        return REDACTED
    if isinstance(value, str):
        return safe_text(value)
    if isinstance(value, bytes | bytearray):
        return safe_text(bytes(value[: 4 * TEXT_MAX]).decode("latin-1"))
    if isinstance(value, BaseException):
        return _exception(value)
    if depth < DEPTH_MAX and isinstance(value, Mapping):
        return {_name(str(key)): _field(str(key), item, depth + 1) for key, item in list(value.items())[:ITEMS_MAX]}
    if depth < DEPTH_MAX and isinstance(value, list | tuple | set | frozenset):
        return [_field("", item, depth + 1) for item in list(value)[:ITEMS_MAX]]
    return safe_text(str(value))


def _exception(error: BaseException) -> str:
    text = str(error)
    name = type(error).__name__
    return safe_text(f"{name}: {text}" if text else name)


def _stack(error: BaseException) -> str:
    """Where it was raised, innermost frames last; the line feeds stay, as JSON escapes."""
    entries = [redact_text(entry[: 2 * TEXT_MAX]) for entry in traceback.format_exception(error)]
    text = "".join(entry[:TEXT_MAX] for entry in entries)
    return "\n".join(escape_controls(line) for line in text[-STACK_MAX:].split("\n"))
