"""The documentation as a site: it builds without a warning, and loads nothing from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.deployments import DEPLOY, ROOT
from tests.support.site import build_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory.mktemp("site"))


def named(entry: Any) -> Iterator[str]:
    """The pages of a navigation, or of a part of it."""
    if isinstance(entry, str):
        yield entry
    for part in entry if isinstance(entry, list) else entry.values() if isinstance(entry, dict) else ():
        yield from named(part)


def test_the_navigation_leads_to_every_page_once() -> None:
    """A page that is new goes into `nav` of deploy/docs/mkdocs.yml, where a reader would look for it."""
    pages = (path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md"))
    wanted = [str(page) for page in pages if not {"node_modules", "decisions"} & set(page.parts)]
    navigation = yaml.safe_load((DEPLOY / "docs/mkdocs.yml").read_text())["nav"]
    # The hook puts the decisions themselves there.
    assert sorted(named(navigation)) == sorted([*wanted, "decisions/"])


def test_the_navigation_leads_to_every_decision(site: Path) -> None:
    shown = (site / "index.html").read_text().partition("<article")[0]
    for path in (ROOT / "docs/decisions").glob("*.md"):
        assert f"decisions/{path.stem}.html" in shown


def test_no_item_of_a_list_became_text(site: Path) -> None:
    """The site wants what belongs to an item four spaces in, and an empty line behind its paragraphs."""
    for page in site.rglob("*.html"):
        text = re.sub(r"<pre.*?</pre>", "", page.read_text(), flags=re.DOTALL)
        assert re.findall(r"^(?:\d{1,2}\.|-|\|) .*", text, re.MULTILINE) == [], page.name


def test_every_page_is_in_it(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    pages = {page.with_name("index.html") if page.name == "README.html" else page for page in pages}
    assert {page for page in pages if "node_modules" not in page.parts} <= {
        path.relative_to(site) for path in site.rglob("*.html")
    }


def test_a_reader_without_the_internet_reads_all_of_it(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text()
        loaded = re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=[\"']?(https?://[^\"' >]+)", text)
        assert loaded == []
