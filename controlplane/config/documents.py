"""Stored documents as they may be shown: without the credentials that a version 1 table may carry in its URLs."""

from __future__ import annotations

import re
from typing import Any

import orjson

from common.routetable.upstreams import MASK

_VERSION_2 = re.compile(rb'"version"[ \t\r\n]*:[ \t\r\n]*2\b')
_USER_INFO = re.compile(r"(://)[^/?#]*@")


def shown_document(document: bytes) -> bytes:
    """The document for a reader: byte for byte as it was written, unless an upstream's URL holds user info, which is
    masked (CONTRACT §3.1). Takes its time with a large one that `may_hold_credentials`: for a worker.
    """
    if not may_hold_credentials(document):
        return document
    table = orjson.loads(document)
    return orjson.dumps(table, option=orjson.OPT_INDENT_2) if _mask(table) else document


def may_hold_credentials(document: bytes) -> bool:
    """False where it is certain that a valid document holds none; takes a millisecond or two for 8 MiB."""
    if b"\\" in document:
        return True
    # Without escapes a quoted name in front of a colon is a key, and no other object of a table has this one.
    return b"@" in document and _VERSION_2.search(document) is None


def _mask(table: dict[str, Any]) -> bool:
    """Whether something was masked in place."""
    masked = False
    for route in table["routes"] if table["version"] == 1 else ():
        upstream = route["upstream"]
        urls = [upstream] if isinstance(upstream, str) else upstream
        shown = [_USER_INFO.sub(rf"\1{MASK}@", url, count=1) for url in urls]
        if shown != urls:
            masked = True
            route["upstream"] = shown[0] if isinstance(upstream, str) else shown
    return masked
