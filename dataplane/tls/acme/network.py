"""The HTTP of the `acme` library, held on a short lead. Everything here blocks, and runs in a thread.

No redirect is followed, no proxy or credential comes from the environment, and an answer is read to a bound. The
library repeats a request once when the authority does not like its nonce; authorities under load refuse more than one.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from io import BytesIO
from pathlib import Path
from time import time
from typing import Any

from acme import messages
from acme.client import ClientNetwork
from josepy.jwa import ES256
from josepy.jwk import JWK

from dataplane.tls.acme.failure import OrderFailed

CALL_TIMEOUT_S = 20
"""Of connecting, and of each wait for bytes."""
BODY_MAX_BYTES = 1 << 20
"""A full chain is a few kilobytes."""
NONCE_TRIES = 5
"""Each is two requests: with a nonce of every second refused, one call in a thousand still fails."""
_USER_AGENT = "wicketgate"


class Network(ClientNetwork):
    """A connection to one authority, for one thread at a time."""

    def __init__(self, key: JWK | None, ca: Path | None) -> None:
        """`key` is the account's; without one nothing can be posted. `ca` replaces the authorities of `certifi`."""
        verify: Any = True if ca is None else str(ca)
        super().__init__(key, alg=ES256, verify_ssl=verify, user_agent=_USER_AGENT, timeout=CALL_TIMEOUT_S)
        self.retry_after_s: float | None = None
        """What the last answer asked for, in seconds from then."""
        self.status = 0
        """Of the last answer; 0: none came."""
        self.session.trust_env = False
        self.session.max_redirects = 0
        self.session.hooks["response"].append(self._read)

    def forget(self) -> None:
        """A new step begins: no answer yet."""
        self.retry_after_s = None
        self.status = 0

    def post(self, *args: Any, **kwargs: Any) -> Any:
        """See `ClientNetwork.post`."""
        for left in reversed(range(NONCE_TRIES)):
            try:
                return super().post(*args, **kwargs)
            except messages.Error as error:
                if error.code != "badNonce" or not left:
                    raise
        raise AssertionError("unreachable")

    def _read(self, response: Any, *_: object, **__: object) -> None:
        self.status = response.status_code
        self.retry_after_s = _seconds(response.headers.get("Retry-After"))
        raw = response.raw
        body = raw.read(BODY_MAX_BYTES + 1, decode_content=True)
        raw.close()
        if len(body) > BODY_MAX_BYTES:
            raise OrderFailed(f"the authority answered more than {BODY_MAX_BYTES} bytes")
        response.raw = BytesIO(body)


def _seconds(text: str | None) -> float | None:
    """`Retry-After` (RFC 9110 §10.2.3) in seconds from now; None where it is absent or says nothing."""
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 9:
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time())
    except (ValueError, OverflowError):
        return None
