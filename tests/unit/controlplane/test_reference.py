"""`/docs` comes from this process alone: no other origin, nothing inline, whatever the network is like."""

from __future__ import annotations

import re

import pytest

from controlplane.openapi import CONTENT_POLICY, PAGE, START
from tests.support.control import Control


async def test_the_page_and_all_that_it_names_are_served_here() -> None:
    control = Control()
    page = await control.send("GET", "/docs", token=None)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"] == CONTENT_POLICY
    named = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert sorted(named) == ["/docs/start.js", "/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css", "data:,"]
    for path in named:
        if path.startswith("/"):
            answer = await control.send("GET", path, token=None)
            assert answer.status_code == 200
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert re.match(r"text/(javascript|css); charset=utf-8", answer.headers["content-type"])
            assert len(answer.content) > 100


def test_nothing_is_inline_and_no_other_origin_is_allowed() -> None:
    assert b"<script>" not in PAGE
    assert b"style=" not in PAGE
    assert b"//" not in START
    assert "unsafe" not in CONTENT_POLICY
    assert "http" not in CONTENT_POLICY
    assert CONTENT_POLICY.startswith("default-src 'none';")


@pytest.mark.parametrize("path", ["/docs/", "/docs/oauth2-redirect.html", "/docs/favicon-32x32.png", "/docs/%2e%2e/x"])
async def test_nothing_else_of_the_package_is_served(path: str) -> None:
    assert (await Control().send("GET", path, token=None)).status_code == 404
