"""The one module that speaks HTTP to the provider. It is never on the path of an ordinary request.

httpx is held on a short lead: no redirect is followed, no cookie is kept, no proxy or credential comes from the
environment, no body is decompressed (a few bytes could become gigabytes), and reading stops at a bound. A connection
serves one call: calls are rare, and a kept one that the provider closes meanwhile would fail a code that works once.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson

from dataplane.oidc.errors import ProviderUnavailable

BODY_MAX_BYTES = 1 << 20
"""A key set of hundreds of keys is far below it."""

_CONNECTIONS_MAX = 32
_HEADERS = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "wicketgate"}


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer of the provider."""

    status: int
    body: bytes

    def json_object(self) -> dict[str, Any]:
        """The body as a JSON object; `ValueError` when it is anything else."""
        value = orjson.loads(self.body)
        if not isinstance(value, dict):
            raise ValueError("not a JSON object")  # noqa: TRY004 - malformed input, as orjson says it too
        return value


class ProviderHttp:
    """Calls the provider. Every failure to get a whole answer within the budget is `ProviderUnavailable`."""

    def __init__(self, *, timeout_s: float, ca: Path | None = None, body_max_bytes: int = BODY_MAX_BYTES) -> None:
        """`timeout_s` bounds a call as a whole. `ca` replaces the system's authorities; an unreadable one raises."""
        self._timeout_s = timeout_s
        self._body_max_bytes = body_max_bytes
        self._client = httpx.AsyncClient(
            verify=ssl.create_default_context(cafile=ca),
            headers=_HEADERS,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            follow_redirects=False,
            trust_env=False,
            timeout=None,  # noqa: S113 - each call has one budget for all that it does
            limits=httpx.Limits(max_connections=_CONNECTIONS_MAX, max_keepalive_connections=0),
        )

    async def get_json(self, url: str) -> dict[str, Any]:
        """The JSON object at `url`; any status but 200 is `ProviderUnavailable`."""
        answer = await self._call("GET", url)
        if answer.status != 200:
            raise ProviderUnavailable(f"GET {_bare(url)} answered {answer.status}")
        try:
            return answer.json_object()
        except ValueError:
            raise ProviderUnavailable(f"GET {_bare(url)} answered no JSON object") from None

    async def post_form(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> Answer:
        """Send a form once, never again whatever happens; any status is an answer."""
        return await self._call("POST", url, form, headers)

    async def _call(
        self, method: str, url: str, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        call = f"{method} {_bare(url)}"
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                self._client.stream(method, url, data=form, headers=headers) as response,
            ):
                if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
                    raise ProviderUnavailable(f"{call} answered in a coding that was not asked for")
                return Answer(response.status_code, await self._read(response, call))
        except TimeoutError:
            raise ProviderUnavailable(f"{call} took longer than {self._timeout_s:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise ProviderUnavailable(f"{call} failed: {type(error).__name__}") from None

    async def _read(self, response: httpx.Response, call: str) -> bytes:
        pieces: list[bytes] = []
        left = self._body_max_bytes
        async for piece in response.aiter_raw():
            left -= len(piece)
            if left < 0:
                raise ProviderUnavailable(f"{call} answered more than {self._body_max_bytes} bytes")
            pieces.append(piece)
        return b"".join(pieces)

    async def close(self) -> None:
        """Close what is open."""
        await self._client.aclose()


def _bare(url: str) -> str:
    """The address without query and user info, for a log line; `ProviderUnavailable` when it is none."""
    try:
        parts = urlsplit(url)
        # Reading the port checks it: a number beyond the last port would fail deep inside the event loop.
        usable = parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ProviderUnavailable("not an address that can be called")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
