"""`GET /.well-known/acme-challenge/<token>`: the answer to an `http-01` challenge (§11.5.2, RFC 8555 §8.3)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from common.state.ports import StateUnavailable
from dataplane.errors import GatewayError
from dataplane.replies import Reply

if TYPE_CHECKING:
    from common.state.coordination import ChallengeStore

CHALLENGE_PREFIX = "/.well-known/acme-challenge/"

# base64url; an authority's tokens have 22 to 43 characters. What is longer reaches no store.
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,128}")


async def challenge_reply(store: ChallengeStore, path: str) -> Reply:
    """The published answer for the path of a challenge; `not_found` for any other path and token.

    A store that is away is `session_store_unavailable`: the authority tries again, and a 404 would tell it to stop.
    """
    token = path.removeprefix(CHALLENGE_PREFIX)
    if _TOKEN.fullmatch(token) is None:
        raise GatewayError("not_found", "no token of a challenge")
    try:
        answer = await store.read_challenge(token)
    except StateUnavailable as away:
        raise GatewayError(
            "session_store_unavailable", str(away), message="Challenges could not be read. Try again shortly."
        ) from away
    if answer is None:
        raise GatewayError("not_found", "no challenge of this token is published")
    headers = ((b"content-type", b"application/octet-stream"), (b"cache-control", b"no-store"))
    return Reply(200, headers, answer.encode())
