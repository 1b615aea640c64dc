"""JSON on a terminal says the same, and steers nothing."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from common.json_text import inert_json, json_text

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(values, st.sampled_from([None, 2]))
def test_the_text_is_printable_and_says_the_same(value: Any, indent: int | None) -> None:
    text = json_text(value, indent=indent)
    assert "".join(text.splitlines()).isprintable()
    assert len(text.splitlines()) == len(text.split("\n"))
    assert json.loads(text) == value


@given(values)
def test_a_document_keeps_its_layout_and_its_value(value: Any) -> None:
    document = json.dumps(value, ensure_ascii=False, indent=3)
    text = inert_json(document)
    assert json.loads(text) == value
    assert [len(line) - len(line.lstrip()) for line in text.split("\n")] == [
        len(line) - len(line.lstrip(" ")) for line in document.split("\n")
    ]


def test_scripts_stay_and_what_steers_goes() -> None:
    assert json_text("caf\u00e9 \u0434\u0430 \U0001f600") == '"caf\u00e9 \u0434\u0430 \U0001f600"'
    assert json_text("\x1b[2J\x7f\x9b\u202e\u2028") == r'"\u001b[2J\u007f\u009b\u202e\u2028"'
    assert json_text("\U000e0041") == r'"\udb40\udc41"'
