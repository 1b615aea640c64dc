"""The Lua scripts beside this module: each is one operation of the server."""

from __future__ import annotations

from hashlib import sha1
from pathlib import Path


class Script:
    """A script, the digest by which a server knows it, and the commands that run it.

    One that only reads is run by the commands that need no more than the right to read its keys.
    """

    __slots__ = ("by_digest", "by_text", "digest", "name", "text")

    def __init__(self, name: str, *, reads: bool = False) -> None:
        self.name = name
        self.by_digest, self.by_text = ("EVALSHA_RO", "EVAL_RO") if reads else ("EVALSHA", "EVAL")
        self.text = (Path(__file__).parent / "lua" / f"{name}.lua").read_bytes()
        self.digest = sha1(self.text, usedforsecurity=False).hexdigest().encode()


CREATE_SESSION = Script("create_session")
READ_SESSIONS = Script("read_sessions", reads=True)
TOUCH_SESSION = Script("touch_session")
DELETE_SESSION = Script("delete_session")
DELETE_SUBJECT_SESSIONS = Script("delete_subject_sessions")
CHECK_BUDGETS = Script("check_budgets")
WRITE_DECISION = Script("write_decision")
BEAT = Script("beat")
LIST_HEARTBEATS = Script("list_heartbeats", reads=True)
TAKE_LEASE = Script("take_lease")
RENEW_LEASE = Script("renew_lease")
READ_TABLE = Script("read_table", reads=True)
MOVE_POINTER = Script("move_pointer")
APPEND_AUDIT = Script("append_audit")
LIST_REVISIONS = Script("list_revisions", reads=True)
