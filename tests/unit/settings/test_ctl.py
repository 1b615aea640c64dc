"""The environment of `gatewayctl`: the token reaches the control plane, and nobody on the way there."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.settings.ctl import CtlSettings, load_ctl_settings
from common.settings.errors import SettingsInvalid
from tests.support.environments import files, no_file

TOKEN = "a-token-of-an-operator"


def loaded(url: str = "https://control.example:8081", *, allow_http: bool = False, **environ: str) -> CtlSettings:
    given = {"GATEWAYCTL_URL": url, "GATEWAYCTL_TOKEN": TOKEN, **environ}
    return load_ctl_settings(given, allow_http=allow_http, read_file=no_file)


def problems(**environ: str) -> tuple[str, ...]:
    try:
        load_ctl_settings(environ, read_file=no_file)
    except SettingsInvalid as invalid:
        return invalid.problems
    return ()


def test_an_address_and_a_token_are_enough() -> None:
    settings = loaded("https://control.example:8081/admin/")
    assert (settings.url, settings.token.reveal(), settings.ca) == ("https://control.example:8081/admin", TOKEN, None)
    assert TOKEN not in repr(settings)
    assert loaded(GATEWAYCTL_CA="/etc/ca.pem").ca == Path("/etc/ca.pem")


def test_the_token_may_come_from_a_file_and_not_from_both() -> None:
    environ = {"GATEWAYCTL_URL": "https://a", "GATEWAYCTL_TOKEN_FILE": "t"}
    assert load_ctl_settings(environ, read_file=files(t=b"abc\n")).token.reveal() == "abc"
    assert "keep one of them" in problems(**environ, GATEWAYCTL_TOKEN="abc")[0]


def test_every_problem_is_named_at_once_without_a_value() -> None:
    found = problems(GATEWAYCTL_URL="https://me:hunter2@a", GATEWAYCTL_TOKEN="hunter2 hunter2")
    assert [problem.partition(":")[0] for problem in found] == ["GATEWAYCTL_URL", "GATEWAYCTL_TOKEN"]
    assert "hunter2" not in str(found)
    assert [problem.partition(":")[0] for problem in problems()] == ["GATEWAYCTL_URL", "GATEWAYCTL_TOKEN"]


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8081", "http://[::1]:8081", "http://10.1.2.3", "http://control:8081", "http://c.internal"]
)
def test_plain_http_is_taken_on_loopback_and_private_networks(url: str) -> None:
    assert loaded(url).url == url


@pytest.mark.parametrize("url", ["http://control.example", "http://192.0.2.7:8081", "http://[2001:db8::1]"])
def test_a_token_crosses_no_public_network_in_clear_unless_it_is_said(url: str) -> None:
    with pytest.raises(SettingsInvalid, match="in clear"):
        loaded(url)
    assert loaded(url, allow_http=True).url == url
