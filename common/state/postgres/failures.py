"""What a failure of asyncpg or of the server means for the state."""

from __future__ import annotations

import asyncpg

from common.state.ports import StateMisconfigured, StateUnavailable


def is_leaving(error: asyncpg.PostgresError) -> bool:
    """Whether the server, or this connection, is going away (57P, 08), is out of room (53), or only reads (25006)."""
    state = str(getattr(error, "sqlstate", "") or "")
    return state.startswith(("57P", "08", "53")) or state == "25006"


def as_failure(error: Exception) -> Exception:
    """A failure as the caller gets it: what waiting does not mend is `StateMisconfigured`."""
    if isinstance(error, StateUnavailable):
        return error
    if isinstance(error, asyncpg.InvalidAuthorizationSpecificationError):
        return StateMisconfigured(
            "Postgres refuses the user or password; correct them in the URL of the state "
            "(postgres://user:password@host/database)"
        )
    if isinstance(error, asyncpg.InvalidCatalogNameError):
        return StateMisconfigured("Postgres has no such database; create it, or correct the URL of the state")
    if isinstance(error, asyncpg.InsufficientPrivilegeError):
        return StateMisconfigured(
            "Postgres does not allow this user what the program needs; grant it the role gateway_data (the gateway) "
            "or gateway_control (the control plane)"
        )
    if isinstance(error, TimeoutError):
        return StateUnavailable("the server does not answer in time")
    return StateUnavailable((str(error) or type(error).__name__)[:200])
