"""Does a person open a page with this request, or does a program ask for data? (CONTRACT §5.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataplane.accept import admits_html

if TYPE_CHECKING:
    from dataplane.http1.heads import RequestHead


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
