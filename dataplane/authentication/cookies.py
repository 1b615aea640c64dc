"""The gateway's two cookies, as they are sent and as they are read (CONTRACT §5.5).

The login cookie holds what a login needs when the provider sends the browser back, so that any replica can finish it:

    base64url([[state, nonce, verifier, redirect, started], ...]) . base64url(HMAC-SHA-256)

It is signed, not hidden: its verifier and nonce are of use only together with a code that the provider gave to this
browser, and the browser's owner may know them.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence

import orjson
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from common import base64url
from common.settings.secret import Secret
from common.state.ports import Session
from dataplane.forwarding.cookies import SESSION_COOKIE, STATE_COOKIE, cookies_of
from dataplane.http1.heads import Headers
from dataplane.oidc.login import PendingLogin

PENDING_MAX = 4
PENDING_LIFETIME_S = 600

COOKIE_MAX_BYTES = 4096
"""What every browser keeps (RFC 6265 §6.1), name and attributes included."""

# Values of one name that are looked at. A browser sends more than one only where another host of the domain set them.
_VALUES_MAX = 4

_KEY_PURPOSE = b"wicketgate login cookie 1"


def set_session_cookie(session_id: str, session: Session, *, secure: bool) -> bytes:
    """The `Set-Cookie` value that gives a browser its session for as long as it lasts unless it is used again."""
    left_ms = min(session.idle_expires_at_ms, session.expires_at_ms) - session.touched_at_ms
    return _set_cookie(SESSION_COOKIE, session_id, "/", max(left_ms // 1000, 0), secure=secure)


def clear_session_cookie(*, secure: bool) -> bytes:
    """The `Set-Cookie` value that takes the session cookie away."""
    return _set_cookie(SESSION_COOKIE, "", "/", 0, secure=secure)


def values_of(cookies: Iterable[tuple[str, str]], name: str) -> tuple[str, ...]:
    """The different values of the cookies of this name, in the order in which they were sent."""
    found = [value for cookie, value in cookies if cookie == name]
    return tuple(found if len(found) < 2 else dict.fromkeys(found))


def session_ids(headers: Headers) -> tuple[str, ...]:
    """The session ids that a request's headers present (for `RequestHead.derived`)."""
    return values_of(cookies_of(headers), SESSION_COOKIE)


class LoginCookie:
    """Writes and reads the cookie of pending logins."""

    def __init__(self, session_secret: Secret, *, secure: bool) -> None:
        self._key = HKDF(algorithm=SHA256(), length=32, salt=None, info=_KEY_PURPOSE).derive(
            session_secret.reveal().encode()
        )
        self._secure = secure

    def read(self, values: Sequence[str], now_s: float) -> tuple[PendingLogin, ...]:
        """The pending logins that this gateway wrote and that are not over, from the oldest to the newest."""
        logins = {login.state: login for value in values[:_VALUES_MAX] for login in self._open(value)}
        live = [login for login in logins.values() if now_s - login.started_at_s <= PENDING_LIFETIME_S]
        return tuple(sorted(live, key=lambda login: login.started_at_s))

    def write(self, logins: Sequence[PendingLogin]) -> bytes:
        """The `Set-Cookie` value that holds `logins`, oldest first; with none it takes the cookie away.

        The newest `PENDING_MAX` stay, or as many as fit `COOKIE_MAX_BYTES`; the newest one always does.
        """
        kept = list(logins[-PENDING_MAX:])
        while kept:
            line = _set_cookie(STATE_COOKIE, self._seal(kept), "/auth", PENDING_LIFETIME_S, secure=self._secure)
            if len(line) <= COOKIE_MAX_BYTES or len(kept) == 1:
                return line
            del kept[0]
        return _set_cookie(STATE_COOKIE, "", "/auth", 0, secure=self._secure)

    def _seal(self, logins: Sequence[PendingLogin]) -> str:
        entries = [[each.state, each.nonce, each.verifier, each.redirect, each.started_at_s] for each in logins]
        payload = base64url.encode(orjson.dumps(entries)).decode()
        return f"{payload}.{self._tag(payload)}"

    def _open(self, value: str) -> list[PendingLogin]:
        payload, _, tag = value.partition(".")
        if not value.isascii() or not hmac.compare_digest(tag.encode(), self._tag(payload).encode()):
            return []
        # Ours from here on: what cannot be read now was written by another version, and is no login of this one.
        try:
            entries = orjson.loads(base64url.decode(payload.encode()))
            return [
                PendingLogin(state=state, nonce=nonce, verifier=verifier, redirect=redirect, started_at_s=started)
                for state, nonce, verifier, redirect, started in entries
            ]
        except (ValueError, TypeError):
            return []

    def _tag(self, payload: str) -> str:
        return base64url.encode(hmac.digest(self._key, payload.encode("ascii"), "sha256")).decode()


def _set_cookie(name: str, value: str, path: str, max_age_s: int, *, secure: bool) -> bytes:
    line = f"{name}={value}; HttpOnly; SameSite=Lax; Path={path}; Max-Age={max_age_s}"
    return (line + "; Secure" if secure else line).encode("ascii")
