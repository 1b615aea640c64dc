"""What a caller's `Accept` says about pages (RFC 9110 §12.5.1)."""

from __future__ import annotations

from collections.abc import Sequence

_HTML = frozenset((b"text/html", b"application/xhtml+xml"))


def prefers_html(values: Sequence[bytes]) -> bool:
    """HTML is named with a weight above 0, and no less than JSON's where that is named too; `*/*` alone is neither."""
    html, json = html_and_json_weights(values)
    return html > 0 and html >= json


def html_and_json_weights(values: Sequence[bytes]) -> tuple[float, float]:
    """The highest weights of the named HTML and JSON types; 0 for one that is not named."""
    html = json = 0.0
    for value in values:
        if b"html" not in value and b"json" not in value:
            continue
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
        key, _, value = parameter.partition(b"=")
        if key.strip() == b"q":
            try:
                weight = float(value.strip())
            except ValueError:
                return 0.0
            return weight if 0.0 <= weight <= 1.0 else 0.0
    return 1.0
