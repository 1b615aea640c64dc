"""Sessions on Redis (`common.state.ports.SessionStore`)."""

from __future__ import annotations

import asyncio
import contextlib

from common.state.measured import Measured
from common.state.ports import NewSession, Session, StateUnavailable
from common.state.redis.asking import Asking
from common.state.redis.records import Foreign, read_session_record, session_payload
from common.state.redis.scripts import (
    CREATE_SESSION,
    DELETE_SESSION,
    DELETE_SUBJECT_SESSIONS,
    READ_SESSIONS,
    TOUCH_SESSION,
)
from common.state.turn import Turn

MOST_READ = 128
"""Sessions read by one script: it runs for a fraction of a millisecond, and other clients wait for that."""


class RedisSessions:
    """Implements `SessionStore`. Reads of one turn are one script; an index holds the sessions of each subject."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._reads: Turn[tuple[str, asyncio.Future[Session | None]]] = Turn(
            lambda reads: asking.spawn(self._read(reads)), most=MOST_READ
        )

    async def create_session(self, new: NewSession) -> Session:
        """See `SessionStore.create_session`."""
        asking, keys = self._asking, self._asking.keys
        with asking.measure("create_session") as measured:
            now, foreign, *record = await asking.script(
                CREATE_SESSION,
                (keys.session(new.id_hash), keys.subject_index(new.subject), keys.sessions),
                new.id_hash,
                session_payload(new),
                new.idle_ms,
                new.max_age_ms,
                new.max_per_subject,
                keys.session_prefix,
            )
            asking.clock.heard(now)
            measured.found_foreign(foreign)
            if not record:
                raise ValueError("a session with this id exists")
            return read_session_record(new.id_hash, record[0])

    def read_session(self, id_hash: str) -> asyncio.Future[Session | None]:
        """See `SessionStore.read_session`. It is on its way when this returns, awaited or not."""
        future: asyncio.Future[Session | None] = asyncio.get_running_loop().create_future()
        self._reads.add((id_hash, future))
        return future

    async def _read(self, reads: list[tuple[str, asyncio.Future[Session | None]]]) -> None:
        asking = self._asking
        hashes = list(dict.fromkeys(id_hash for id_hash, _ in reads))
        try:
            with asking.measure("read_session") as measured:
                keys = [asking.keys.session(id_hash) for id_hash in hashes]
                now, *values = await asking.script(READ_SESSIONS, keys)
                asking.clock.heard(now)
                found: dict[str, Session | None] = {}
                for id_hash, value in zip(hashes, values, strict=True):
                    found[id_hash] = session_of(id_hash, value, measured)
        except Exception as error:  # noqa: BLE001 (every failure is one of the state, for each who asked)
            failure = error if isinstance(error, StateUnavailable) else StateUnavailable(f"no sense: {error!r}")
            for _, future in reads:
                if not future.done():
                    future.set_exception(failure)
                    future.exception()  # One that was asked for ahead may never be awaited.
            return
        for id_hash, future in reads:
            if not future.done():
                future.set_result(found[id_hash])

    async def touch_session(self, id_hash: str, idle_ms: int) -> Session | None:
        """See `SessionStore.touch_session`."""
        asking = self._asking
        with asking.measure("touch_session") as measured:
            now, foreign, *record = await asking.script(TOUCH_SESSION, (asking.keys.session(id_hash),), idle_ms)
            asking.clock.heard(now)
            measured.found_foreign(foreign)
            if not record:
                return None
            try:
                return read_session_record(id_hash, record[0])
            except Foreign:
                measured.found_foreign()
                return None

    async def delete_session(self, id_hash: str) -> bool:
        """See `SessionStore.delete_session`."""
        asking, keys = self._asking, self._asking.keys
        with asking.measure("delete_session") as measured:
            foreign, deleted = await asking.script(
                DELETE_SESSION, (keys.session(id_hash), keys.sessions), id_hash, keys.index_prefix
            )
            measured.found_foreign(foreign)
            return bool(deleted)

    async def delete_subject_sessions(self, subject: str) -> int:
        """See `SessionStore.delete_subject_sessions`."""
        asking, keys = self._asking, self._asking.keys
        with asking.measure("delete_subject_sessions") as measured:
            foreign, deleted = await asking.script(
                DELETE_SUBJECT_SESSIONS, (keys.subject_index(subject), keys.sessions), keys.session_prefix
            )
            measured.found_foreign(foreign)
            return int(deleted)


def session_of(id_hash: str, value: object, measured: Measured) -> Session | None:
    """What `READ_SESSIONS` answers for one key; None for one that is not ours too."""
    if isinstance(value, bytes):
        with contextlib.suppress(Foreign):
            return read_session_record(id_hash, value)
    if value is not None:
        measured.found_foreign()
    return None
