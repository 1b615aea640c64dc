"""Keys on Redis: one encoder, whose keys cannot be confused by their parts.

A key is `<prefix>:{<family>}:<part>…` or `<prefix>:<family>:<part>…`. Between braces the family is a hash tag: all keys
of the family lie in one slot of a cluster, so that a script may use several of them. Without, each key lies in its own.
The families are what access rules are written for (`deploy/redis/gateway.acl`).

| family | keys |
| --- | --- |
| `{s}` | `i:<id hash>` a session, `u:<digest of the subject>` the index of a subject's sessions, `all` that of all |
| `{s}` | `o:<handle>` a deletion that is still to be recorded |
| `d` | `<digest of the subject>:<digest of the workspace, - for none>:<inputs>` a decision |
| `b` | a budget's window |
| `{h}` | `r:<replica>` a heartbeat, `index` the replicas |
| `l:{<name>}` | `held` a lease, `fence` the counter of its fences |
| `c` | a challenge |
| `e` | a sealed value |
| `a` | failed authentication of an address at the control plane |
| `{t}` | `active` the pointer, `revision:<n>`, `history`, `drops` how often decisions were dropped |
| `{t}`, `audit` | the audit trail: `<prefix>:{t}:audit:trail` and `:audit:count` |
"""

from __future__ import annotations

import re
from binascii import crc_hqx
from functools import lru_cache
from hashlib import sha256

from common.state.digests import short_digest
from common.state.ports import DecisionKey

SLOTS = 16_384

# What would end a part, begin a hash tag, or cannot be read in a terminal.
_ESCAPED = re.compile(r"[\x00-\x20\x7f-\x9f%:{}\\\ud800-\udfff]")


def key_part(text: str) -> str:
    """A text as one part of a key: two texts never give the same part, and no part holds `:`, a brace or a space."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}" if found[0] <= "\xff" else f"%u{ord(found[0]):X}", text)


class Keys:
    """The keys below one prefix."""

    def __init__(self, prefix: str) -> None:
        self.session_prefix = f"{prefix}:{{s}}:i:"
        self.index_prefix = f"{prefix}:{{s}}:u:"
        self.sessions = f"{prefix}:{{s}}:all"
        self._owed_prefix = f"{prefix}:{{s}}:o:"
        self._decision_prefix = f"{prefix}:d:"
        self.replica_prefix = f"{prefix}:{{h}}:r:"
        self.replicas = f"{prefix}:{{h}}:index"
        self._prefix = prefix
        self.active = f"{prefix}:{{t}}:active"
        self.revision_prefix = f"{prefix}:{{t}}:revision:"
        self.history = f"{prefix}:{{t}}:history"
        self.audit = f"{prefix}:{{t}}:audit:trail"
        self.audit_count = f"{prefix}:{{t}}:audit:count"
        self.hints = f"{prefix}:{{t}}:hints"
        """The channel of hints: the number of a revision, or `decisions` and how often they were dropped."""
        self.drops = f"{prefix}:{{t}}:drops"
        self.budget = lru_cache(maxsize=16_384)(self._budget)
        """The key of a budget's window. Callers repeat, so it is remembered; a flood does not grow it."""

    def session(self, id_hash: str) -> str:
        return self.session_prefix + key_part(id_hash)

    def subject_index(self, subject: str) -> str:
        return self.index_prefix + subject_digest(subject)

    def owed_record(self, handle: str) -> str:
        return self._owed_prefix + key_part(handle)

    def decision(self, key: DecisionKey) -> bytes:
        inputs, subject, workspace_id = key
        return (
            f"{self._decision_prefix}{short_digest(subject).hex()}:{_workspace(workspace_id)}:{inputs.hex()}".encode()
        )

    def decisions_of(self, subject: str | None, workspace_id: str | None) -> str:
        """The pattern of the keys of decisions of a subject, a workspace, or both (None: any)."""
        by_subject = "*" if subject is None else short_digest(subject).hex()
        by_workspace = "*" if workspace_id is None else _workspace(workspace_id)
        return f"{self._decision_prefix}{by_subject}:{by_workspace}:*"

    def _budget(self, key: str, window_ms: int, bucket_ms: int) -> bytes:
        return f"{self._prefix}:b:{key_part(key)}:{window_ms}:{bucket_ms}".encode("utf-8", "surrogatepass")

    def heartbeat(self, replica: str) -> str:
        return self.replica_prefix + key_part(replica)

    def lease(self, name: str) -> tuple[str, str]:
        """A lease and the counter of its fences."""
        tagged = f"{self._prefix}:l:{{{key_part(name)}}}"
        return f"{tagged}:held", f"{tagged}:fence"

    def sealed(self, name: str) -> str:
        return f"{self._prefix}:e:{key_part(name)}"

    def auth_failures(self, address: str) -> str:
        return f"{self._prefix}:a:{key_part(address)}"

    def challenge(self, token: str) -> str:
        return f"{self._prefix}:c:{key_part(token)}"


def _workspace(workspace_id: str | None) -> str:
    return "-" if workspace_id is None else short_digest(workspace_id).hex()


def subject_digest(subject: str) -> str:
    """What stands for a subject in keys: half of its SHA-256, so that a subject of any length makes a short key."""
    return sha256(subject.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def slot_of(key: bytes) -> int:
    """The slot of a key in a cluster (Redis cluster specification, Keys distribution model)."""
    begin = key.find(b"{")
    if begin >= 0:
        end = key.find(b"}", begin + 1)
        if end > begin + 1:
            key = key[begin + 1 : end]
    return crc_hqx(key, 0) % SLOTS
