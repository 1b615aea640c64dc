"""What `Accept` says about pages."""

from __future__ import annotations

import pytest

from dataplane.accept import admits_html, prefers_html


@pytest.mark.parametrize(
    ("accept", "admits", "prefers"),
    [
        ([], False, False),
        ([b"*/*"], False, False),
        ([b"text/*"], False, False),
        ([b"text/html"], True, True),
        ([b"TEXT/HTML"], True, True),
        ([b"application/xhtml+xml;q=0.1"], True, True),
        ([b"text/html;q=0"], False, False),
        ([b"text/html;q=0.5, application/json"], True, False),
        ([b"text/html, application/json"], True, True),
        ([b"application/json", b"text/html"], True, True),
        ([b"text/html;level=1;Q=0.3"], True, True),
        ([b"text/html;q=x"], False, False),
        ([b"text/html;q=nan"], False, False),
        ([b"text/html;q=7"], False, False),
        ([b"image/webp, , ;q=1"], False, False),
    ],
)
def test_pages_are_for_those_who_name_them(accept: list[bytes], admits: bool, prefers: bool) -> None:
    assert (admits_html(accept), prefers_html(accept)) == (admits, prefers)
