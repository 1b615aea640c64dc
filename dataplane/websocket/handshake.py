"""The two handshakes of a relayed WebSocket (RFC 6455 §4), as plain values.

    caller's head -> read_offer ---------> Offer --- upstream_request -> headers of the gateway's own handshake
    upstream's 101 -> read_acceptance ---> Acceptance --- caller_response -> headers of the caller's 101

What the two ends agree on is theirs: the caller's subprotocols and its offers of `permessage-deflate` go to the
upstream as they were sent, and the upstream's choice returns as it was sent. Keys are each connection's own.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha1
from typing import TYPE_CHECKING

from dataplane.errors import GatewayError
from dataplane.forwarding.policy import Pairs, folded
from dataplane.http1.gate import comma_tokens
from dataplane.http1.heads import ProtocolError

if TYPE_CHECKING:
    from dataplane.http1.heads import RequestHead, ResponseHead

VERSION = b"13"
KEY_BYTES = 16
DEFLATE = b"permessage-deflate"

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_HANDSHAKE_HEADERS = b"sec-websocket-"

# RFC 6455 §9.1: an extension is a token with parameters, whose values are tokens, plain or quoted.
_TOKEN = rb"[-!#$%&'*+.^_`|~0-9A-Za-z]++"
_NAME = re.compile(_TOKEN)
_PARAMETER = rb"[ \t]*+;[ \t]*+" + _TOKEN + rb"(?:[ \t]*+=[ \t]*+(?:" + _TOKEN + rb'|"' + _TOKEN + rb'"))?+'
_EXTENSION = re.compile(rb"(" + _TOKEN + rb")(?:" + _PARAMETER + rb")*+")


@dataclass(frozen=True, slots=True)
class Offer:
    """What the caller's handshake offers, and the key that its answer must prove it has read."""

    key: bytes
    subprotocols: tuple[bytes, ...]
    deflate: bytes
    """Its offers of `permessage-deflate`, with their parameters as they were sent; `b""` without one."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What the upstream chose; `b""` for nothing."""

    subprotocol: bytes
    deflate: bytes


def read_offer(head: RequestHead) -> Offer:
    """The handshake of a caller (§4.2.1).

    Raises `GatewayError`: `upgrade_required` for another version than 13 or none, `bad_request` for another method
    than GET, a key that is not 16 bytes, and malformed lists.
    """
    if head.values(b"sec-websocket-version") != (VERSION,):
        raise GatewayError("upgrade_required", headers=((b"sec-websocket-version", VERSION),))
    if head.method != "GET":
        raise GatewayError("bad_request", "a WebSocket handshake with another method than GET")
    keys = head.values(b"sec-websocket-key")
    if len(keys) != 1 or not _is_key(keys[0]):
        raise GatewayError("bad_request", "a WebSocket handshake without one key of 16 bytes")
    subprotocols = _listed(head.values(b"sec-websocket-protocol"))
    extensions = _extensions(head.values(b"sec-websocket-extensions"))
    if subprotocols is None or extensions is None:
        raise GatewayError("bad_request", "a malformed list in a WebSocket handshake")
    offers = [text for name, text in extensions if name == DEFLATE]
    return Offer(keys[0], subprotocols, b", ".join(offers))


def new_key(random_bytes: bytes) -> bytes:
    """The key of a handshake of the gateway's own, from `KEY_BYTES` random ones."""
    return base64.b64encode(random_bytes)


def upstream_request(headers: Pairs, offer: Offer, key: bytes) -> Pairs:
    """The headers of the gateway's handshake: those of any request to this upstream, and the handshake's own (§4.1).

    The caller's own handshake headers are left out, under whatever spelling a lenient server would read them.
    """
    own = [(b"connection", b"Upgrade"), (b"upgrade", b"websocket"), (b"sec-websocket-version", VERSION)]
    own.append((b"sec-websocket-key", key))
    if offer.subprotocols:
        own.append((b"sec-websocket-protocol", b", ".join(offer.subprotocols)))
    if offer.deflate:
        own.append((b"sec-websocket-extensions", offer.deflate))
    return [*_without_handshake(headers), *own]


def read_acceptance(head: ResponseHead, offer: Offer, key: bytes) -> Acceptance:
    """The upstream's answer with status 101, judged by what was asked (§4.1, the client's checks).

    Raises `ProtocolError("bad_gateway")` where a client would have to fail the connection.
    """
    values = head.values
    if [value.lower() for value in values(b"upgrade")] != [b"websocket"]:
        raise _refused("does not upgrade to a WebSocket")
    if b"upgrade" not in [token for value in values(b"connection") for token in comma_tokens(value)]:
        raise _refused("does not name the upgrade in Connection")
    if values(b"sec-websocket-accept") != (accept_of(key),):
        raise _refused("does not prove that the key was read")
    chosen = values(b"sec-websocket-protocol")
    if len(chosen) > 1 or (chosen and chosen[0] not in offer.subprotocols):
        raise _refused("chooses a subprotocol that was not offered")
    extensions = _extensions(values(b"sec-websocket-extensions"))
    if (
        extensions is None
        or len(extensions) > 1
        or (extensions and not (offer.deflate and extensions[0][0] == DEFLATE))
    ):
        raise _refused("chooses an extension that was not offered")
    return Acceptance(chosen[0] if chosen else b"", extensions[0][1] if extensions else b"")


def caller_response(headers: Pairs, offer: Offer, acceptance: Acceptance) -> Pairs:
    """The headers of the caller's 101: those of any response of this upstream, and the handshake's own (§4.2.2)."""
    own = [(b"connection", b"Upgrade"), (b"upgrade", b"websocket"), (b"sec-websocket-accept", accept_of(offer.key))]
    if acceptance.subprotocol:
        own.append((b"sec-websocket-protocol", acceptance.subprotocol))
    if acceptance.deflate:
        own.append((b"sec-websocket-extensions", acceptance.deflate))
    return [*_without_handshake(headers), *own]


def accept_of(key: bytes) -> bytes:
    """The `Sec-WebSocket-Accept` of a key (§4.2.2): a checksum by RFC, no secret depends on SHA-1 here."""
    return base64.b64encode(sha1(key + _GUID, usedforsecurity=False).digest())


def _is_key(value: bytes) -> bool:
    try:
        return len(value) == 24 and len(base64.b64decode(value, validate=True)) == KEY_BYTES
    except binascii.Error:
        return False


def _without_handshake(headers: Pairs) -> Pairs:
    return [header for header in headers if not folded(header[0]).startswith(_HANDSHAKE_HEADERS)]


def _refused(what: str) -> ProtocolError:
    return ProtocolError("bad_gateway", f"the upstream's handshake {what}")


def _listed(values: Sequence[bytes]) -> tuple[bytes, ...] | None:
    """The tokens of a list that may stand on several lines; None for one that holds anything else."""
    parts = [part.strip(b" \t") for value in values for part in value.split(b",")]
    tokens = tuple([part for part in parts if part])
    return tokens if all(map(_NAME.fullmatch, tokens)) else None


def _extensions(values: Sequence[bytes]) -> list[tuple[bytes, bytes]] | None:
    """Name in lower case and text of each extension; None where one is malformed. No value may hold a comma."""
    found = []
    for value in values:
        for part in value.split(b","):
            text = part.strip(b" \t")
            if text:
                match = _EXTENSION.fullmatch(text)
                if match is None:
                    return None
                found.append((match[1].lower(), text))
    return found
