"""The console's own functions on text, in the browser that runs them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import strategies as st
from playwright.async_api import Browser, Page

from tests.support.console import served, visitor

pytestmark = [pytest.mark.browser, pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

CALL = "async ([module, name, given]) => (await import(`/console/${module}.js`))[name](...given)"


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser) -> AsyncIterator[Page]:
    async with served() as site, visitor(browser, site) as found:
        await found.goto(f"{site.url}/console")
        yield found


async def call(page: Page, module: str, name: str, *given: object) -> Any:
    return await page.evaluate(CALL, [module, name, given])


LAID_OUT = """
async (texts) => {
  const { laidOut } = await import("/console/json_text.js");
  return texts.map((text) => [laidOut(text), laidOut(laidOut(text))]);
}
"""

TABLE = '{\n "a.b": [1, {"key": "x\\"]}", "key": "second"}],\n "routes": [{"id": "one"}, {"match": {"path": "/p"}}]\n}'


PLACES = [
    ("routes[1].match.path", '"/p"', True),
    ("routes[0].id", '"one"', True),
    ('["a.b"][0]', "1", True),
    ('["a.b"][1].key', '"second"', True),
    ("routes[1].match.host", '{"path": "/p"}', False),
    ("routes[7].id", '[{"id": "one"}, {"match": {"path": "/p"}}]', False),
    ("", TABLE, True),
]


async def test_a_place_is_found_or_the_nearest_one_around_it(page: Page) -> None:
    for path, found, whole in PLACES:
        place = await call(page, "json_text", "locate", TABLE, path)
        assert (TABLE[place["start"] : place["end"]], place["whole"]) == (found, whole), path


async def test_broken_texts_have_places_too(page: Page) -> None:
    for text in ("", "   ", "{", '{"routes": [', '{"routes": "unended', "[1,,2]", "}{", '{"a" 1}', "\\"):
        for path in ("", "routes[0].id", "a"):
            place = await call(page, "json_text", "locate", text, path)
            assert 0 <= place["start"] <= place["end"] <= len(text)


async def test_a_line_and_column_of_a_message_are_a_place(page: Page) -> None:
    error = {"path": "", "message": "is not valid JSON: Expecting value at line 2, column 3"}
    assert (await call(page, "json_text", "placeOf", "ab\ncdef\n", error))["start"] == 5
    beyond = {"path": "", "message": "at line 9, column 9"}
    assert (await call(page, "json_text", "placeOf", "ab\n", beyond))["start"] <= 3


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


async def test_laying_out_keeps_every_value_and_can_be_repeated(page: Page) -> None:
    import hypothesis

    examples: list[Any] = []

    @hypothesis.settings(max_examples=100, database=None)
    @hypothesis.given(VALUES)
    def collect(value: Any) -> None:
        examples.append(value)

    collect()
    texts = [json.dumps(value, ensure_ascii=index % 2 == 0) for index, value in enumerate(examples)]
    for value, (once, twice) in zip(examples, await page.evaluate(LAID_OUT, texts), strict=True):
        assert json.loads(once) == value
        assert once == twice


async def test_what_is_no_json_is_not_laid_out(page: Page) -> None:
    for text in ("{", "[1}", '{"a', "]"):
        assert await call(page, "json_text", "laidOut", text) is None


SHOWN = [
    ("plain ü 漢字", "plain ü 漢字"),
    ("a\u202eb", "a\\u{202e}b"),
    ("\u0000\n\t", "\\u{0}\\u{a}\\u{9}"),
    ("a\u200bb\ufeff", "a\\u{200b}b\\u{feff}"),
    ("\U000e0041", "\\u{e0041}"),
]


async def test_what_cannot_be_seen_is_shown_as_its_code(page: Page) -> None:
    for text, shown in SHOWN:
        assert await call(page, "text", "visible", text) == shown


async def test_numbers_are_written_exactly(page: Page) -> None:
    for ms, text in ((0, "0 ms"), (999, "999 ms"), (1_000, "1 s"), (1_500, "1.5 s"), (1_234, "1\u202f234 ms")):
        assert (await call(page, "text", "duration", ms)).replace("\u00a0", " ") == text
    for ms, text in ((60_000, "1 min"), (90_000, "1.5 min"), (3_600_000, "1 h")):
        assert (await call(page, "text", "duration", ms)).replace("\u00a0", " ") == text
    for number, text in (
        (0, "0 bytes"),
        (1_023, "1\u202f023 bytes"),
        (1_024, "1 KiB"),
        (1_048_577, "1\u202f048\u202f577 bytes"),
    ):
        assert (await call(page, "text", "bytes", number)).replace("\u00a0", " ") == text
