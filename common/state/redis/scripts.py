"""The Lua scripts beside this module: each is one operation of the server."""

from __future__ import annotations

from hashlib import sha1
from pathlib import Path


class Script:
    """A script, the digest by which a server knows it, and the commands that run it.

    One that only reads is run by the commands that need no more than the right to read its keys.
    """

    __slots__ = ("_numbers", "by_digest", "by_text", "digest", "name", "text")

    def __init__(self, name: str, *, numbers: int, reads: bool = False, after: tuple[str, ...] = ()) -> None:
        """`numbers` is how many numbers its answer begins with, 0 for an answer that is a number.

        `after` are files whose functions it uses.
        """
        self.name = name
        self._numbers = numbers
        self.by_digest, self.by_text = ("EVALSHA_RO", "EVAL_RO") if reads else ("EVALSHA", "EVAL")
        self.text = b"".join(_text(part) for part in (*after, name))
        self.digest = sha1(self.text, usedforsecurity=False).hexdigest().encode()

    def is_answer(self, reply: object) -> bool:
        """Whether a reply has the form of this script's answers; anything may listen at an address."""
        if not self._numbers:
            return type(reply) is int
        if not isinstance(reply, list) or len(reply) < self._numbers:
            return False
        return all(type(part) is int for part in reply[: self._numbers])


def _text(name: str) -> bytes:
    return (Path(__file__).parent / "lua" / f"{name}.lua").read_bytes()


CREATE_SESSION = Script("create_session", numbers=2, after=("session_record",))
READ_VALUES = Script("read_values", numbers=1, reads=True)
TOUCH_SESSION = Script("touch_session", numbers=2, after=("session_record",))
DELETE_SESSION = Script("delete_session", numbers=2, after=("session_record",))
DELETE_SUBJECT_SESSIONS = Script("delete_subject_sessions", numbers=2, after=("audit_trail",))
REVOKE_SESSION = Script("revoke_session", numbers=2, after=("session_record", "audit_trail"))
CHECK_BUDGETS = Script("check_budgets", numbers=2)
WRITE_DECISION = Script("write_decision", numbers=2)
RAISE_DROPS = Script("raise_drops", numbers=2, after=("audit_trail",))
BEAT = Script("beat", numbers=0)
LIST_HEARTBEATS = Script("list_heartbeats", numbers=1, reads=True)
TAKE_LEASE = Script("take_lease", numbers=1)
RENEW_LEASE = Script("renew_lease", numbers=0)
WRITE_SEALED = Script("write_sealed", numbers=2)
COUNT_AUTH_FAILURE = Script("auth_failures", numbers=2)
AUTH_FAILURE_WAIT = Script("auth_failures", numbers=2, reads=True)
READ_TABLE = Script("read_table", numbers=2, reads=True)
MOVE_POINTER = Script("move_pointer", numbers=2, after=("audit_trail",))
APPEND_AUDIT = Script("append_audit", numbers=2, after=("audit_trail",))
LIST_AUDIT = Script("list_audit", numbers=2, reads=True)
LIST_REVISIONS = Script("list_revisions", numbers=1, reads=True)
