"""The one module that speaks HTTP to the control plane, one call after the other.

httpx is held on a short lead: no redirect is followed (the token would go along to wherever it leads), nothing comes
from the environment (a proxy or a .netrc would see or replace the token), no cookie is kept, and an answer has a bound.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import orjson

from controlplane.ctl.failures import CtlError, Refused, Unreached, WrongUsage

if TYPE_CHECKING:
    from common.settings.ctl import CtlSettings

ANSWER_MAX_BYTES = 256 * 1024 * 1024
"""A diff of two tables of 8 MiB that have nothing in common, written out line by line, stays below it."""
PAGE_ITEMS = 200
"""The most that the control plane puts into a page."""
CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 60.0
"""Between two pieces of an answer: a table of 8 MiB is judged within seconds."""

UNCERTAIN = (
    "Whether the change was made is not known: see `gatewayctl config history` or `gatewayctl audit`, then try again."
)
UNKNOWN_CALLER = "Check GATEWAYCTL_TOKEN, or the file that GATEWAYCTL_TOKEN_FILE names."
_ETAG = re.compile(r'"(0|[1-9][0-9]{0,17})"')

Query = Mapping[str, str | int | None]


class Record(dict[str, Any]):
    """An object of the control plane's. A field that it lacks is `Unreached`, not a bug of this program."""

    def __missing__(self, key: str) -> Any:
        raise Unreached(f"An answer has no field {key!r}. Is gatewayctl as new as gateway-control, and no newer?")


@dataclass(frozen=True, slots=True)
class Answer:
    """A success: its JSON object, the bytes of that, and the revision of its entity tag (None without one)."""

    value: Record
    body: bytes
    revision: int | None


class Api:
    """Calls the control plane. What is no success raises `Refused`; what is no answer of it, `Unreached`."""

    def __init__(self, settings: CtlSettings) -> None:
        self._url = settings.url
        self._client = httpx.Client(
            verify=_trust(settings),
            headers={
                "authorization": f"Bearer {settings.token.reveal()}",
                "accept": "application/json",
                "accept-encoding": "identity",
                "user-agent": "gatewayctl",
            },
            follow_redirects=False,
            trust_env=False,
            timeout=httpx.Timeout(ANSWER_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
            # A connection that is kept while a person thinks may be closed just as the change is sent on it.
            limits=httpx.Limits(max_keepalive_connections=0),
        )

    def close(self) -> None:
        self._client.close()

    def get(self, path: str, query: Query | None = None) -> Answer:
        """Read something."""
        return self._call("GET", path, query=query)

    def judge(self, path: str, body: bytes) -> Answer:
        """Send a body that changes nothing."""
        return self._call("POST", path, body=body)

    def change(
        self, method: str, path: str, *, query: Query | None = None, body: bytes | None = None, read: int | None = None
    ) -> Answer:
        """Change something, once; `read` is the revision that must still be active. A failure behind which the change
        may have been made says so.
        """
        return self._call(method, path, query=query, body=body, read=read, changes=True)

    def pages(self, path: str, query: Query, limit: int) -> tuple[list[Record], bool]:
        """The first `limit` items of a list (0: all of them), and whether there are more."""
        items: list[Record] = []
        seen: set[str] = set()
        cursor: str | None = None
        while True:
            size = min(limit - len(items), PAGE_ITEMS) if limit else PAGE_ITEMS
            page = self.get(path, {**query, "limit": size, "cursor": cursor}).value
            items += records(page["items"])
            cursor = page.get("nextCursor")
            if cursor is None or (limit and len(items) >= limit):
                return items[: limit or None], cursor is not None or bool(limit and len(items) > limit)
            if not isinstance(cursor, str) or cursor in seen:
                raise Unreached(f"{self._url} gives pages without an end: the list is not shown.")
            seen.add(cursor)

    def _call(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        read: int | None = None,
        changes: bool = False,
    ) -> Answer:
        headers = {} if body is None else {"content-type": "application/json"}
        if read is not None:
            headers["if-match"] = f'"{read}"'
        params = {name: value for name, value in (query or {}).items() if value is not None}
        try:
            with self._client.stream(method, self._url + path, params=params, content=body, headers=headers) as answer:
                return self._read(answer, changes)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Unreached(self._not_connected(error)) from None
        except httpx.HTTPError as error:
            told = self._cut_off(error)
            raise Unreached(f"{told} {UNCERTAIN}" if changes else told) from None
        except UnicodeEncodeError:
            # Of the query, before anything was sent: what else goes into a request is ASCII or bytes.
            raise WrongUsage("An argument is not text in UTF-8.") from None
        except KeyboardInterrupt:
            raise (Unreached(f"Interrupted. {UNCERTAIN}") if changes else CtlError("Interrupted.")) from None

    def _read(self, answer: httpx.Response, changes: bool) -> Answer:
        status = answer.status_code
        if 300 <= status < 400:
            target = _origin(answer.headers.get("location", ""))
            raise Unreached(
                f"{self._url} redirects to {target}; the token was not sent there. Set GATEWAYCTL_URL to the control "
                "plane's own address."
            )
        # A proxy may give up on a change that went through. What it refuses (4xx) did not reach the control plane.
        doubt = f" {UNCERTAIN}" if changes and not 400 <= status < 500 else ""
        body = b"".join(self._bounded(answer, doubt))
        value = _object(answer, body)
        if value is None:
            kind = answer.headers.get("content-type", "no content type")
            raise Unreached(
                f"{self._url} answers {status} with {kind}, as the control plane never does: something else listens "
                f"there, or a proxy answers for it. Check GATEWAYCTL_URL.{doubt}"
            )
        if status >= 400:
            if not isinstance(value.get("error"), str):
                raise Unreached(f"{self._url} answers {status} in a form that the control plane does not have.{doubt}")
            advice = UNKNOWN_CALLER if status == 401 else doubt.strip()
            raise Refused(status, value, request_id=answer.headers.get("x-request-id", ""), advice=advice)
        etag = _ETAG.fullmatch(answer.headers.get("etag", ""))
        return Answer(Record(value), body, None if etag is None else int(etag[1]))

    def _bounded(self, answer: httpx.Response, doubt: str) -> Iterator[bytes]:
        left = ANSWER_MAX_BYTES
        for piece in answer.iter_raw():
            left -= len(piece)
            if left < 0:
                raise Unreached(f"{self._url} answers with more than {ANSWER_MAX_BYTES} bytes.{doubt}")
            yield piece

    def _not_connected(self, error: httpx.HTTPError) -> str:
        for cause in _causes(error):
            if isinstance(cause, ssl.SSLCertVerificationError):
                return (
                    f"The certificate of {self._url} is not trusted: {cause.verify_message}. Is it the right host? For "
                    "a private authority name its certificate in GATEWAYCTL_CA."
                )
            if isinstance(cause, ssl.SSLError):
                reason = (cause.reason or "").replace("_", " ").lower()
                return f"{self._url} does not speak TLS as expected ({reason}). Is it a plain http:// port?"
            if isinstance(cause, ConnectionRefusedError):
                return f"Nothing listens at {self._url}. Does gateway-control run there, on this port?"
            if isinstance(cause, OSError) and type(cause).__name__ == "gaierror":
                return f"The host of {self._url} is not known. Check GATEWAYCTL_URL."
        if isinstance(error, httpx.ConnectTimeout):
            doubt = ", or no TLS port" if self._url.startswith("https") else ""
            return f"{self._url} gives no connection within {CONNECT_TIMEOUT_S:g} seconds. Is it blocked{doubt}?"
        return f"{self._url} cannot be reached: {error}."

    def _cut_off(self, error: httpx.HTTPError) -> str:
        if isinstance(error, httpx.TimeoutException):
            return f"{self._url} did not answer within {ANSWER_TIMEOUT_S:g} seconds."
        if isinstance(error, httpx.RemoteProtocolError):
            return f"{self._url} closed the connection, or does not speak HTTP. Is it an https:// port?"
        return f"The connection to {self._url} broke ({type(error).__name__})."


def _trust(settings: CtlSettings) -> ssl.SSLContext:
    """The system's authorities, or those of SSL_CERT_FILE; with GATEWAYCTL_CA, those alone."""
    try:
        return ssl.create_default_context(cafile=settings.ca)
    except (OSError, ssl.SSLError) as error:
        reason = "it holds no PEM certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise CtlError(f"GATEWAYCTL_CA: {settings.ca} cannot be read: {reason}.") from None


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _object(answer: httpx.Response, body: bytes) -> dict[str, Any] | None:
    """The JSON object of an answer; None when it is anything else."""
    media_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        return None
    try:
        value = orjson.loads(body)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def records(items: object) -> list[Record]:
    """The items of a list."""
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise Unreached("A list came in an unknown form. Is gatewayctl as new as gateway-control, and no newer?")
    return [Record(item) for item in items]


def _origin(location: str) -> str:
    try:
        parts = urlsplit(location)
    except ValueError:
        return "somewhere"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else "another path"
