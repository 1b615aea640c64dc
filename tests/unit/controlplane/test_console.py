"""The console's files are served under a policy that lets nothing else in, and are what the wheel holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from controlplane.console.pages import HEADERS, POLICY, files
from tests.support.control import Control

ASSETS = Path(__file__).parents[3] / "controlplane/console/assets"
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
SCRIPTS = sorted(ASSETS.glob("*.js"))


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_the_page_needs_no_token_and_has_its_policy(method: str) -> None:
    answer = await Control().send(method, "/console", token=None)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert bool(answer.content) is (method == "GET")


def test_the_policy_allows_this_origin_alone_and_nothing_inline() -> None:
    assert POLICY.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; ")
    for part in ("form-action 'none'", "frame-ancestors 'none'", "base-uri 'none'"):
        assert part in POLICY
    assert "require-trusted-types-for 'script'; trusted-types 'none'" in POLICY
    assert "unsafe" not in POLICY


async def test_every_file_is_served_as_what_it_is() -> None:
    control = Control()
    on_disk = sorted(path.name for path in ASSETS.iterdir() if path.suffix in MEDIA_TYPES)
    assert sorted(files()) == on_disk
    for name in on_disk:
        path = "/console" if name == "index.html" else f"/console/{name}"
        answer = await control.send("GET", path, token=None)
        assert answer.status_code == 200
        assert answer.content == (ASSETS / name).read_bytes()
        assert answer.headers["content-type"] == MEDIA_TYPES[Path(name).suffix]
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["cache-control"] == "no-cache"


async def test_an_unchanged_file_is_not_sent_again() -> None:
    control = Control()
    first = await control.send("GET", "/console/app.js", token=None)
    etag = first.headers["etag"]
    assert re.fullmatch(r'"[0-9a-f]{32}"', etag)
    for sent in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        answer = await control.send("GET", "/console/app.js", token=None, headers={"if-none-match": sent})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag)
    for sent in ('"other"', etag.strip('"'), ""):
        answer = await control.send("GET", "/console/app.js", token=None, headers={"if-none-match": sent})
        assert answer.status_code == 200


@pytest.mark.parametrize(
    "path", ["/console/index.html", "/console/pages.py", "/console/no.js", "/console/..%2fpages.py", "/console/a/b.js"]
)
async def test_nothing_else_is_served(path: str) -> None:
    answer = await Control().send("GET", path, token=None)
    assert (answer.status_code, answer.json()["error"]) == (404, "not_found")


async def test_the_address_with_a_slash_leads_to_the_one_without() -> None:
    answer = await Control().send("GET", "/console/", token=None)
    assert (answer.status_code, answer.headers["location"]) == (308, "../console")


async def test_the_page_is_only_read() -> None:
    answer = await Control().send("POST", "/console", {}, token=None)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


def test_each_reference_of_a_file_leads_to_a_file() -> None:
    page = (ASSETS / "index.html").read_text()
    named = {name.removeprefix("console/") for name in re.findall(r'(?:src|href)="([^"#]+)"', page)}
    assert named
    for script in SCRIPTS:
        imported = re.findall(r'from "\./([^"]+)"', script.read_text())
        assert len(imported) == script.read_text().count('from "')
        named |= set(imported)
    # What nothing refers to is not needed, and what is not there breaks the page.
    assert named == set(files()) - {"index.html"}


def test_the_sources_hold_no_way_from_text_to_markup_and_no_other_address() -> None:
    """The policy would stop it in the browser; here it is seen before."""
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|setHTML|createContextualFragment|\beval\(|"
        r"new Function|localStorage|sessionStorage|indexedDB|document\.cookie|import\("
    )
    for script in SCRIPTS:
        assert forbidden.search(script.read_text()) is None, script.name
    page = (ASSETS / "index.html").read_text()
    assert not re.search(r"<style|style=|<script(?![^>]* src=)|\son\w+=", page)
    for path in ASSETS.iterdir():
        addresses = re.findall(r"https?://[a-z0-9.:-]+", path.read_text())
        assert set(addresses) <= {"http://www.w3.org", "http://127.0.0.1:3000"}, path.name


def test_a_module_stays_small() -> None:
    for path in ASSETS.iterdir():
        assert path.read_text().count("\n") <= (450 if path.suffix == ".css" else 300), path.name
        assert max(map(len, path.read_text().splitlines())) <= 120, path.name
