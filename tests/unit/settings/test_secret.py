"""A secret shows itself only to who asks for it by name."""

from __future__ import annotations

import copy
import json
import pickle
import traceback
from dataclasses import dataclass, replace

import pytest

from common.settings.gateway import GatewaySettings
from common.settings.secret import Secret

MARKER = "marker-7f3a-never-shown"


def test_no_way_of_printing_shows_a_secret() -> None:
    secret = Secret(MARKER)
    shown = [repr(secret), str(secret), f"{secret}", f"{secret!r:>40}", f"{secret!s}", repr([secret])]
    assert all(MARKER not in text for text in shown)
    assert secret.reveal() == MARKER


def test_settings_and_tracebacks_do_not_show_their_secrets() -> None:
    settings = GatewaySettings(session_secret=Secret(MARKER), metrics_token=Secret(MARKER))
    assert MARKER not in repr(settings)
    error = RuntimeError("could not start with", settings)
    assert MARKER not in "".join(traceback.format_exception(error))


def test_a_secret_is_not_pickled_or_serialised() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(Secret(MARKER))
    with pytest.raises(TypeError):
        json.dumps(Secret(MARKER))


def test_a_secret_is_no_dictionary_key() -> None:
    with pytest.raises(TypeError):
        hash(Secret(MARKER))


def test_secrets_are_equal_by_their_text_and_never_to_a_text() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != Secret("ab")
    assert Secret("pä") == Secret("pä")
    assert Secret("a") != "a"


def test_a_secret_has_no_attribute_that_a_dump_of_attributes_would_find() -> None:
    assert not hasattr(Secret(MARKER), "__dict__")


def test_copies_of_settings_keep_their_secret() -> None:
    @dataclass(frozen=True)
    class Holder:
        secret: Secret
        other: int = 0

    holder = Holder(Secret(MARKER))
    assert replace(holder, other=1).secret == copy.deepcopy(holder).secret == copy.copy(holder.secret)
