"""Stored documents as they may be shown: without the credentials that a version 1 table may carry in its URLs."""

from __future__ import annotations

import re
from typing import Any

import orjson

from common.routetable.upstreams import MASK

_USER_INFO = re.compile(r"(://)[^/?#]*@")


def shown_document(document: bytes) -> bytes:
    """The document for a reader: byte for byte as it was written, unless an upstream's URL holds user info, which is
    masked (CONTRACT §3.1). Takes its time with a large one: for a thread.
    """
    if b"@" not in document and b"\\" not in document:
        return document
    table = orjson.loads(document)
    return orjson.dumps(table, option=orjson.OPT_INDENT_2) if _mask(table) else document


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
