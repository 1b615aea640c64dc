"""Sessions on Redis (`common.state.ports.SessionStore`)."""

from __future__ import annotations

import asyncio
import contextlib

from common.state.measured import Measured
from common.state.ports import NewSession, Session
from common.state.redis.asking import Asking
from common.state.redis.reads import Reads
from common.state.redis.records import Foreign, read_session_record, session_payload
from common.state.redis.scripts import (
    CREATE_SESSION,
    DELETE_SESSION,
    DELETE_SUBJECT_SESSIONS,
    TOUCH_SESSION,
)


class RedisSessions:
    """Implements `SessionStore`. Reads of one turn are one script; an index holds the sessions of each subject."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._session_reads: Reads[str, Session] = Reads(
            asking, "read_session", asking.keys.session, _read_record, together=True
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
        return self._session_reads.ask(id_hash)

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
    """What `READ_VALUES` answers for one key; None for one that is not ours too."""
    if isinstance(value, bytes):
        with contextlib.suppress(Foreign):
            return read_session_record(id_hash, value)
    if value is not None:
        measured.found_foreign()
    return None


def _read_record(id_hash: str, value: bytes, _now: int) -> Session:
    return read_session_record(id_hash, value)
