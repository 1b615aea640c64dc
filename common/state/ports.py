"""The shared state, as the verbs the planes need (§12.5, CONTRACT §12.5.1).

Every method is one operation of the backing server: it happens whole or not at all, and two replicas that call it at
the same time see one order. The server's clock decides expiry. A backend that cannot answer within its budget raises
`StateUnavailable`; it never answers from a guess, and the caller denies (fails closed).
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from common.state.administration import AuthFailureStore, DecisionAdministration, DecisionDrops, SessionAdministration
from common.state.budgets import BudgetStore
from common.state.coordination import ChallengeStore, HeartbeatStore, LeaseStore
from common.state.hints import HintSource
from common.state.sealed import SealedStore
from common.state.table_store import RouteTableReader, RouteTableWriter


class StateUnavailable(Exception):
    """The shared state did not answer: unreachable, over its time budget, or its answer made no sense."""


class StateMisconfigured(StateUnavailable):
    """The server answered, and refuses what this process is configured with. The text says what to do, in a sentence
    without a credential; waiting does not help."""


@dataclass(frozen=True, slots=True)
class Session:
    """A browser's session. `id_hash` is the SHA-256 (hex) of the id in the cookie; the id itself is never stored.

    Times are milliseconds since the epoch by the server's clock. The session is over at `min(idle_expires_at_ms,
    expires_at_ms)`; only the first moves.
    """

    id_hash: str
    subject: str
    email: str
    roles: tuple[str, ...]
    created_at_ms: int
    touched_at_ms: int
    idle_expires_at_ms: int
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class NewSession:
    """What a completed login stores; the server's clock adds the times."""

    id_hash: str
    subject: str
    email: str
    roles: tuple[str, ...]
    idle_ms: int
    max_age_ms: int
    max_per_subject: int = 0
    """0: no bound; else the subject's oldest sessions go until this one fits."""


class SessionStore(Protocol):
    """Sessions by the hash of their id."""

    async def create_session(self, new: NewSession) -> Session:
        """Store a session. An `id_hash` that exists already is refused with `ValueError` and changes nothing."""
        ...

    def read_session(self, id_hash: str) -> Awaitable[Session | None]:
        """The live session, or None when it never was, expired, or was deleted."""
        ...

    async def touch_session(self, id_hash: str, idle_ms: int) -> Session | None:
        """Extend the idle expiry to now + `idle_ms` (never beyond the maximum age); None when it is not live."""
        ...

    async def delete_session(self, id_hash: str) -> bool:
        """Delete one session; False when there was none."""
        ...

    async def delete_subject_sessions(self, subject: str) -> int:
        """Delete every session of a subject; how many there were."""
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """An explicit answer of Access. `age_ms`, 0 or more, is the time since its question was asked until it was read, by
    the server's clock.
    """

    allow: bool
    reason_code: str
    age_ms: int


class DecisionKey(NamedTuple):
    """Names a cached decision. `inputs` comes from `access.decision_key`, and holds every input of the decision.

    Subject and workspace (None: the request named none) are among them; they stand here too because operators drop
    decisions by them.
    """

    inputs: bytes
    subject: str
    workspace_id: str | None


class DecisionStore(Protocol):
    """Cached decisions of Access."""

    def read_decision(self, key: DecisionKey) -> Awaitable[Decision | None]:
        """The stored decision; None when there is none, or one that the server's clock is not at yet: it was set back
        since, and nobody knows how old that decision is.
        """
        ...

    async def write_decision(
        self, key: DecisionKey, *, allow: bool, reason_code: str, asked_at_ms: int, keep_ms: int
    ) -> None:
        """Store an explicit decision until `keep_ms` after its question was asked, at `asked_at_ms` of the state's
        clock (`State.now_ms`); a time that the server has not reached counts as its now.

        One whose question was asked later stays, and of two of the same millisecond a denial: so it does not matter in
        which order replicas write, nor how long a write was on its way. A decision that is over ends an older one too.
        """
        ...


class State(
    SessionStore,
    DecisionStore,
    DecisionDrops,
    BudgetStore,
    HeartbeatStore,
    LeaseStore,
    ChallengeStore,
    SealedStore,
    RouteTableReader,
    HintSource,
    Protocol,
):
    """All of the shared state that the data plane uses."""

    @property
    def backend(self) -> str:
        """`memory`, `redis` or `postgres`."""
        ...

    @property
    def shared(self) -> bool:
        """Whether it lies on a server that replicas share. Then an operation costs a round trip, a read is on its way
        from the call on, awaited or not, and what is asked for in one turn of the loop travels together.
        """
        ...

    @property
    def up(self) -> bool:
        """Whether the last operation or probe was answered; readiness reports it."""
        ...

    def now_ms(self) -> int:
        """The state's clock as this process last knew it, for judging the age of what it returned."""
        ...

    async def start(self) -> None:
        """Connect, and keep trying in the background. Returns when connected or when a first attempt did not succeed:
        a server that is away is no error here. Raises `StateMisconfigured` when it refuses this process.
        """
        ...

    async def close(self) -> None:
        """Release connections; bounded in time."""
        ...


class ControlState(State, RouteTableWriter, SessionAdministration, DecisionAdministration, AuthFailureStore, Protocol):
    """All of the shared state, for the control plane and its credentials."""
