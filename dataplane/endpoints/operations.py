"""`/healthz`, `/readyz` and `/metrics` (§12.1, CONTRACT Settled details: Readiness).

Plain functions from the state of the process to a reply. They answer on every name and look at nothing of a request
but the token of `/metrics`: no user agent and no address opens them.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from common.telemetry.metrics import TEXT_CONTENT_TYPE
from common.telemetry.redact import safe_text
from dataplane.errors import GatewayError
from dataplane.replies import Reply, json_reply

if TYPE_CHECKING:
    from common.settings.secret import Secret
    from common.state.ports import State

RETRY_AFTER_S = b"5"
"""Longer than a table takes to load, shorter than a probe's period usually is."""
LAST_ERROR_MAX = 1_024


class ConfigStatus(Protocol):
    """What readiness says of the route table."""

    @property
    def loaded(self) -> bool:
        """A valid table is being served; once true it stays true."""
        ...

    @property
    def source(self) -> Literal["file", "store"]: ...

    @property
    def revision(self) -> int:
        """The store's, 0 for a file."""
        ...

    @property
    def generation(self) -> int:
        """How many tables this process has served."""
        ...

    @property
    def last_error(self) -> str | None:
        """Why the last table read was not taken; None when it was."""
        ...


def healthz() -> Reply:
    """200 while the process runs its loop, whatever else is away: a restart would not bring that back."""
    return json_reply(200, {"status": "ok"})


def readyz(
    config: ConfigStatus, state: State, *, draining: bool, certificates: Mapping[str, object] | None = None
) -> Reply:
    """200 when a table is loaded and the state answers, and the process is not draining; else 503 with the same body.

    A reload that failed does not make it unready: the last valid table serves on, and `lastError` says why. Nor does
    anything that is wrong with `certificates`, which are in the body where the gateway has them.
    """
    ready = config.loaded and state.up
    error = config.last_error
    body: dict[str, object] = {
        "status": "draining" if draining else "ready" if ready else "not_ready",
        "config": {
            "loaded": config.loaded,
            "source": config.source,
            "revision": config.revision,
            "generation": config.generation,
            "lastError": None if error is None else safe_text(error, LAST_ERROR_MAX),
        },
        "state": {"up": state.up, "backend": state.backend},
    }
    if certificates is not None:
        body["certificates"] = certificates
    if ready and not draining:
        return json_reply(200, body)
    return json_reply(503, body, ((b"retry-after", RETRY_AFTER_S),))


def open_metrics(authorization: Sequence[bytes], token: Secret | None) -> None:
    """Let whoever shows the token pass; call it before anything is gathered or rendered.

    `authorization` are all values of that header. Without a token configured the endpoint does not exist
    (`not_found`); with another one, none, or several headers it is `unauthorized`.
    """
    if token is None:
        raise GatewayError("not_found", "no metrics token is configured")
    if len(authorization) != 1 or not _is_bearer(authorization[0], token):
        raise GatewayError(
            "unauthorized",
            "the metrics token does not match",
            message="Send the metrics token as a bearer token.",
            headers=((b"www-authenticate", b"Bearer"),),
        )


def metrics_reply(text: bytes) -> Reply:
    """The Prometheus text."""
    return Reply(200, ((b"content-type", TEXT_CONTENT_TYPE), (b"cache-control", b"no-store")), text)


def _is_bearer(value: bytes, token: Secret) -> bool:
    scheme, _, credential = value.partition(b" ")
    matches = hmac.compare_digest(credential.strip(b" "), token.reveal().encode("utf-8"))
    return matches and scheme.lower() == b"bearer"
