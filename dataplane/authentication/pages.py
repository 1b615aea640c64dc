"""Does a person open a page with this request, or does a program ask for data? (CONTRACT §5.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataplane.accept import html_and_json_weights

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataplane.http1.heads import RequestHead


def admits_html(accept: Iterable[bytes]) -> bool:
    """Whether the `Accept` values name HTML or XHTML with a weight above 0 (RFC 9110 §12.5.1); `*/*` alone does not."""
    return html_and_json_weights(tuple(accept))[0] > 0


def opens_a_page(head: RequestHead) -> bool:
    """Whether the caller is a browser that navigates: only there does a redirect to the login help anyone.

    A script would follow it to the provider and fail there, and would leave a login behind that nobody finishes.
    """
    return (
        head.method in {"GET", "HEAD"}
        and "websocket" not in head.upgrade
        and head.value(b"x-requested-with") is None
        and all(mode.lower() == b"navigate" for mode in head.values(b"sec-fetch-mode"))
        and admits_html(head.values(b"accept"))
    )
