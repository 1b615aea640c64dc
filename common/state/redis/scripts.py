"""The Lua scripts beside this module: each is one operation of the server."""

from __future__ import annotations

from hashlib import sha1
from pathlib import Path


class Script:
    """A script and the digest by which a server knows it."""

    __slots__ = ("digest", "name", "text")

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = (Path(__file__).parent / "lua" / f"{name}.lua").read_bytes()
        self.digest = sha1(self.text, usedforsecurity=False).hexdigest().encode()


CREATE_SESSION = Script("create_session")
READ_SESSIONS = Script("read_sessions")
TOUCH_SESSION = Script("touch_session")
DELETE_SESSION = Script("delete_session")
DELETE_SUBJECT_SESSIONS = Script("delete_subject_sessions")
CHECK_BUDGETS = Script("check_budgets")
WRITE_DECISION = Script("write_decision")
BEAT = Script("beat")
LIST_HEARTBEATS = Script("list_heartbeats")
TAKE_LEASE = Script("take_lease")
RENEW_LEASE = Script("renew_lease")
READ_TABLE = Script("read_table")
MOVE_POINTER = Script("move_pointer")
APPEND_AUDIT = Script("append_audit")
LIST_REVISIONS = Script("list_revisions")
