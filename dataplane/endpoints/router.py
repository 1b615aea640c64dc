"""Which of the gateway's own endpoints a request names (§2.2). Another method on their paths is none of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataplane.exchange import Exchange
    from dataplane.replies import Reply

OwnEndpoint = Callable[["Exchange"], "Reply | Awaitable[Reply]"]
AuthEndpoint = Callable[["Exchange"], Awaitable["Reply"]]

READ = frozenset(("GET", "HEAD"))


class Endpoints:
    """Finds and runs an endpoint; None where the request is not for one."""

    def __init__(
        self,
        *,
        operations: dict[str, OwnEndpoint],
        authentication: dict[str, tuple[frozenset[str], AuthEndpoint]],
    ) -> None:
        self._operations = operations
        self._authentication = authentication

    def operations(self, x: Exchange) -> Reply | Awaitable[Reply] | None:
        """Health, readiness and metrics: answered on every name, with and without a route table.

        Metrics of several processes take a moment; the rest is there at once.
        """
        endpoint = self._operations.get(x.head.path)
        if endpoint is None or x.head.method not in READ:
            return None
        x.route_id = "gateway"
        return endpoint(x)

    async def authentication(self, x: Exchange) -> Reply | None:
        """Login, callback, logout and the session's description, on the names of the gateway."""
        found = self._authentication.get(x.head.path)
        if found is None or x.head.method not in found[0]:
            return None
        x.route_id = "gateway"
        return await found[1](x)
