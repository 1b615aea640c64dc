"""Who calls, and whether their scope may do this (§12.7).

authorization -> one bearer token -> digest, compared with every known one -> scope -> Caller
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import math
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Annotated
from weakref import WeakValueDictionary

from fastapi import Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from common.settings.control_tokens import ControlToken, Scope
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
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def authenticate(self, authorization: Sequence[str], client: str) -> ControlToken:
        """Whose token the only `authorization` header shows; 401 without a known one.

        An address with too many failures is refused with 429 whatever it shows: a limit that the right guess walks
        through would be none. `StateUnavailable` when failures cannot be counted, since that is no limit either.
        """
        address = counted_address(client)
        # One at a time: many guesses sent at once would all be judged before the first of them is counted.
        async with self._turns.setdefault(address, asyncio.Lock()):
            wait_s = await self._failures.auth_failure_wait(address)
            token = None if wait_s else self._recognise(authorization)
            if token is None and not wait_s:
                wait_s = await self._failures.count_auth_failure(address)
        if wait_s:
            seconds = math.ceil(wait_s)
            message = f"Too many authentications failed from this address. Try again in {seconds} seconds."
            raise ApiError("too_many_failures", message, headers=retry_after(seconds))
        if token is None:
            message = "Send a known token: Authorization: Bearer <token>."
            raise ApiError("unauthorized", message, headers={"www-authenticate": "Bearer"})
        return token

    def _recognise(self, authorization: Sequence[str]) -> ControlToken | None:
        """It takes the same time whichever token fits, or none."""
        scheme, _, given = authorization[0].partition(" ") if len(authorization) == 1 else ("", "", "")
        digest = _digest(given.strip(" "))
        found = None
        for known, token in self._known:
            if hmac.compare_digest(digest, known):
                found = token
        return found if scheme.lower() == "bearer" else None


def counted_address(client: str) -> str:
    """What failures of an address are counted by: a host of IPv6 has all addresses of its /64, so they count as one."""
    try:
        address = ip_address(client.partition("%")[0])
    except ValueError:
        return client
    if isinstance(address, IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped or IPv6Network((int(address) >> 64 << 64, 64)))
    return str(address)


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
