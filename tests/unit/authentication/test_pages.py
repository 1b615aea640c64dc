"""Only a person who opens a page is sent to the login."""

from __future__ import annotations

import pytest

from dataplane.accept import admits_html
from dataplane.authentication.pages import opens_a_page
from tests.support.auth_harness import PAGE, Sent, exchange


@pytest.mark.parametrize(
    ("accept", "admitted"),
    [
        (["text/html"], True),
        (["application/xhtml+xml"], True),
        (["text/html;level=1"], True),
        (["text/html;q=0.001"], True),
        (["application/json, text/html;q=0.1"], True),
        (["application/json", "text/html"], True),
        (["text/html;q=0"], False),
        (["text/html; q=0.000"], False),
        (["text/html;q=x"], False),
        (["text/html;q=nan"], False),
        (["text/*"], False),
        (["*/*"], False),
        (["application/json, */*"], False),
        (["text/htmlx"], False),
        (["application/json;x=text/html"], False),
        ([""], False),
        ([], False),
    ],
)
def test_html_must_be_named(accept: list[str], admitted: bool) -> None:
    assert admits_html([each.encode() for each in accept]) == admitted


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    "headers", [PAGE, {"accept": "text/html"}, {"accept": "text/html", "sec-fetch-mode": "Navigate"}]
)
def test_a_navigation_opens_a_page(method: str, headers: Sent) -> None:
    assert opens_a_page(exchange("/", headers, method=method).head)


SCRIPTS = {
    "no accept": {},
    "any": {"accept": "*/*"},
    "json": {"accept": "application/json"},
    "event source": {"accept": "text/event-stream", "sec-fetch-mode": "cors"},
    "fetch": {**PAGE, "sec-fetch-mode": "cors"},
    "image": {**PAGE, "sec-fetch-mode": "no-cors"},
    "same origin": {**PAGE, "sec-fetch-mode": "same-origin"},
    "empty mode": {**PAGE, "sec-fetch-mode": ""},
    "xhr": {**PAGE, "x-requested-with": "XMLHttpRequest"},
    "empty xhr": {**PAGE, "x-requested-with": ""},
}


@pytest.mark.parametrize("headers", SCRIPTS.values(), ids=SCRIPTS)
def test_a_script_opens_none(headers: Sent) -> None:
    assert not opens_a_page(exchange("/", headers).head)


def test_two_modes_of_which_one_is_a_scripts_open_none() -> None:
    headers = [("accept", "text/html"), ("sec-fetch-mode", "navigate"), ("sec-fetch-mode", "cors")]
    assert not opens_a_page(exchange("/", headers).head)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "get"])
def test_another_method_opens_none(method: str) -> None:
    assert not opens_a_page(exchange("/", PAGE, method=method).head)


def test_a_websocket_handshake_opens_none() -> None:
    assert not opens_a_page(exchange("/", PAGE, upgrade="websocket").head)
    assert opens_a_page(exchange("/", PAGE, upgrade="h2c").head)
