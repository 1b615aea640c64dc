"""The environment of the reference Access service follows the gateway's rules."""

from __future__ import annotations

import pytest

from common.settings.access_service import load_access_service_settings
from common.settings.errors import SettingsInvalid
from tests.support.environments import files, no_file

STRONG = "kJ8vN2qR5tY7wZ1xC4bM6nL9pS3dF0gH"


def problems(**environ: str) -> tuple[str, ...]:
    try:
        load_access_service_settings(environ, read_file=no_file)
    except SettingsInvalid as invalid:
        return invalid.problems
    return ()


def test_a_token_is_enough() -> None:
    settings = load_access_service_settings({"ACCESS_TOKEN": "dev", "GATEWAY_PORT": "ignored"})
    assert (settings.host, settings.port, settings.token.reveal()) == ("127.0.0.1", 8090, "dev")


def test_the_token_may_come_from_a_file() -> None:
    settings = load_access_service_settings({"ACCESS_TOKEN_FILE": "t"}, read_file=files(t=b"abc\n"))
    assert settings.token.reveal() == "abc"


def test_every_problem_is_named_at_once() -> None:
    assert [text.partition(":")[0] for text in problems(ACCESS_PORT="x", ACCESS_HOST="a:1")] == [
        "ACCESS_HOST",
        "ACCESS_PORT",
        "ACCESS_TOKEN",
    ]


@pytest.mark.parametrize(("token", "accepted"), [("weak", False), ("a" * 64, False), (STRONG, True)])
def test_production_asks_for_a_strong_token(token: str, accepted: bool) -> None:
    assert (problems(GATEWAY_ENV="production", ACCESS_TOKEN=token) == ()) is accepted
