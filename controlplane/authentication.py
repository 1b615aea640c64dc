"""Who calls, and whether their scope may do this (§12.7).

authorization -> one bearer token -> digest, compared with every known one -> scope -> Caller
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated
from weakref import WeakValueDictionary

from fastapi import Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from common.connections import host_of
from common.settings.control_tokens import ControlToken, Scope
from common.state.ports import StateUnavailable
from common.state.table_store import NewAuditEntry
from controlplane.errors import ApiError, retry_after
from controlplane.reading import check_query
from controlplane.record import record_of

if TYPE_CHECKING:
    from common.state.administration import AuthFailureStore

# For the reference alone: the header is read here, since a repeated one must not be half seen.
BEARER = HTTPBearer(
    scheme_name="token", auto_error=False, description="A token of GATEWAY_CONTROL_TOKENS; each carries one scope."
)

LINE_MAX = 256
"""Requests of one address that wait to be judged: more than anybody's tools send at once."""
TURN_TIMEOUT_S = 5.0
"""A turn takes a millisecond or two; who waits this long behind the others of their address waits for the state."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever showed a token, on one request."""

    operator: str
    scope: Scope
    client: str
    request_id: str

    def entry(self, action: str, target: str) -> NewAuditEntry:
        """What the audit trail says of something that this caller does."""
        return NewAuditEntry(action, target, self.operator, self.scope, self.client, self.request_id)


class Authenticator:
    """Judges tokens, and counts those that are wrong by the address of the socket, over all replicas.

    Tokens are known by their digests: comparing those tells nothing of a token, not even how long it is.
    """

    def __init__(self, tokens: Sequence[ControlToken], failures: AuthFailureStore) -> None:
        self._known = tuple((_digest(one.token.reveal()), one) for one in tokens)
        self._failures = failures
        self._lines: WeakValueDictionary[str, _Line] = WeakValueDictionary()

    async def authenticate(self, authorization: Sequence[str], client: str) -> ControlToken:
        """Whose token the only `authorization` header shows; 401 without a known one.

        What holds no token guesses none: it is not counted, and the state is not asked. An address with too many
        failures is refused with 429 whatever token it shows: a limit that the right guess walks through would be none.
        `StateUnavailable` when failures cannot be counted, since that is no limit either.
        """
        guess = shown_token(authorization)
        if guess is None:
            raise _unauthorized()
        address = host_of(client)
        # One at a time: many guesses sent at once would all be judged before the first of them is counted.
        async with self._turn(address):
            wait_s = await self._failures.auth_failure_wait(address)
            token = None if wait_s else self._recognise(guess)
            if token is None and not wait_s:
                wait_s = await self._failures.count_auth_failure(address)
        if wait_s:
            seconds = math.ceil(wait_s)
            message = f"Too many authentications failed from this address. Try again in {seconds} seconds."
            raise ApiError("too_many_failures", message, headers=retry_after(seconds))
        if token is None:
            raise _unauthorized()
        return token

    @contextlib.asynccontextmanager
    async def _turn(self, address: str) -> AsyncIterator[None]:
        """The address's turn to be judged. `StateUnavailable` when too many wait for theirs, or it does not come: then
        the state is too slow to count.
        """
        line = self._lines.setdefault(address, _Line())
        if line.length >= LINE_MAX:
            raise StateUnavailable("too many requests of one address wait to be judged")
        line.length += 1
        try:
            async with asyncio.timeout(TURN_TIMEOUT_S):
                await line.turn.acquire()
        except TimeoutError:
            raise StateUnavailable("a request waited too long to be judged behind others of its address") from None
        finally:
            line.length -= 1
        try:
            yield
        finally:
            line.turn.release()

    def _recognise(self, guess: str) -> ControlToken | None:
        """It takes the same time whichever token fits, or none."""
        digest = _digest(guess)
        found = None
        for known, token in self._known:
            if hmac.compare_digest(digest, known):
                found = token
        return found


class _Line:
    """The requests of one address, that are judged one after the other."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.length = 0


def shown_token(authorization: Sequence[str]) -> str | None:
    """What could be a token: what the only `authorization` header has behind `Bearer`. None where there is nothing.

    A page of somebody else's can make a browser ask without one, and no more than that.
    """
    scheme, _, given = authorization[0].partition(" ") if len(authorization) == 1 else ("", "", "")
    return given.strip(" ") or None if scheme.lower() == "bearer" else None


def _unauthorized() -> ApiError:
    message = "Send a known token: Authorization: Bearer <token>."
    return ApiError("unauthorized", message, headers={"www-authenticate": "Bearer"})


class Allowed:
    """A dependency: the caller, when their token carries one of these scopes; 401 or 403 when not. Nothing else of a
    request is looked at before.
    """

    def __init__(self, *scopes: Scope) -> None:
        self.scopes = scopes

    async def __call__(
        self, request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Security(BEARER)]
    ) -> Caller:
        record = record_of(request.scope)
        authenticator: Authenticator = request.app.state.authenticator
        token = await authenticator.authenticate(request.headers.getlist("authorization"), record.client)
        record.operator, record.scope = token.operator, token.scope
        if token.scope not in self.scopes:
            needed = " or ".join(self.scopes)
            message = f"This needs a token of the scope {needed}; this one has {token.scope}."
            raise ApiError("forbidden", message)
        check_query(request)
        return Caller(token.operator, token.scope, record.client, record.request_id)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
