"""What a caller's `Accept` says about pages (RFC 9110 §12.5.1)."""

from __future__ import annotations

from collections.abc import Iterable

_HTML = frozenset({b"text/html", b"application/xhtml+xml"})


def admits_html(accept: Iterable[bytes]) -> bool:
    """HTML or XHTML is named with a weight above 0; `*/*` alone does not count (CONTRACT, "Admits HTML")."""
    return _weights(accept)[0] > 0


def prefers_html(accept: Iterable[bytes]) -> bool:
    """HTML is admitted, and no less than JSON where that is named too."""
    html, json = _weights(accept)
    return html > 0 and html >= json


def _weights(accept: Iterable[bytes]) -> tuple[float, float]:
    """The highest weights of the HTML types and of JSON; 0 for what is not named."""
    html = json = 0.0
    for value in accept:
        if value == b"*/*":
            continue  # what most programs send
        for media_range in value.lower().split(b","):
            name, *parameters = media_range.split(b";")
            name = name.strip()
            if name in _HTML:
                html = max(html, _weight(parameters))
            elif name == b"application/json":
                json = max(json, _weight(parameters))
    return html, json


def _weight(parameters: list[bytes]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition(b"=")
        if name.strip() == b"q":
            try:
                weight = float(value)
            except ValueError:
                return 0.0
            return weight if 0.0 <= weight <= 1.0 else 0.0
    return 1.0
