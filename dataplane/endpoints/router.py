"""Which of the gateway's own endpoints a request names (§2.2). Another method on their paths is none of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from dataplane.endpoints.challenges import CHALLENGE_PREFIX, challenge_reply

if TYPE_CHECKING:
    from common.state.coordination import ChallengeStore
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
        challenges: ChallengeStore | None = None,
        authentication: dict[str, tuple[frozenset[str], AuthEndpoint]],
    ) -> None:
        self._operations = operations
        self._challenges = challenges
        self._authentication = authentication

    def operations(self, x: Exchange) -> Reply | Awaitable[Reply] | None:
        """Health, readiness, metrics and challenges: answered on every name, with and without a route table.

        Metrics of several processes take a moment, and so does the answer to a challenge; the rest is there at once.
        """
        head = x.head
        endpoint = self._operations.get(head.path)
        if endpoint is None:
            return self._challenge(x) if head.path.startswith(CHALLENGE_PREFIX) else None
        if head.method not in READ:
            return None
        x.route_id = "gateway"
        return endpoint(x)

    def _challenge(self, x: Exchange) -> Awaitable[Reply] | None:
        """The answer to an authority's challenge, over the plain listener alone (§11.5.2).

        Where this gateway shows no challenges, none of its paths is one.
        """
        if self._challenges is None or x.secure or x.head.method not in READ:
            return None
        x.route_id = "gateway"
        return challenge_reply(self._challenges, x.head.path)

    def authentication(self, x: Exchange) -> Awaitable[Reply] | None:
        """Login, callback, logout and the session's description, on the names of the gateway."""
        found = self._authentication.get(x.head.path)
        if found is None or x.head.method not in found[0] or not x.snapshot.table.owns_host(x.forwarding.hostname):
            return None
        x.route_id = "gateway"
        return found[1](x)
