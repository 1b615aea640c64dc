"""Access over the gateway's own pooled connections: one POST a question, the token in its header."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataplane.access.client import AccessTransportError
from dataplane.access.protocol import ANSWER_MAX_BYTES, DECISIONS_PATH, TransportFailureKind
from dataplane.upstream.client import AnswerTooLarge, CallFailed, PooledClient

if TYPE_CHECKING:
    from common.settings.secret import Secret

_KINDS: dict[str, TransportFailureKind] = {
    "connect": "connect",
    "tls": "tls",
    "timeout": "timeout",
    "attempt": "timeout",
    "reset": "reset",
    "malformed": "malformed",
}


class PooledAccessTransport:
    """`AccessTransport` over a `PooledClient`. A question may be asked twice: it changes nothing."""

    def __init__(self, client: PooledClient, token: Secret | None) -> None:
        self._client = client
        headers = [(b"content-type", b"application/json"), (b"accept", b"application/json")]
        if token is not None:
            headers.append((b"authorization", b"Bearer " + token.reveal().encode("utf-8")))
        self._headers = tuple(headers)

    async def post_decision(self, body: bytes) -> tuple[int, bytes]:
        try:
            return await self._client.post(DECISIONS_PATH, self._headers, body, max_bytes=ANSWER_MAX_BYTES)
        except CallFailed as error:
            kind = "timeout" if error.failure.connect_timeout else _KINDS[error.failure.kind]
            raise AccessTransportError(kind, error.failure.reason) from error
        except AnswerTooLarge as error:
            raise AccessTransportError("too_large", f"an answer over {ANSWER_MAX_BYTES} bytes") from error
