"""A name that nothing reads is an error: a typing error must not turn a setting off (§4.1)."""

from __future__ import annotations

import pytest

from tests.support.environments import MINIMAL, load, problems


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("GATEWAY_ACCES_URL", "GATEWAY_ACCESS_URL"),
        ("GATEWAY_CRSF_STRICT", "GATEWAY_CSRF_STRICT"),
        ("GATEWAY_SESSION_IDLE", "GATEWAY_SESSION_IDLE_MS"),
        ("GATEWAY_METRICS_TOKEN_FIL", "GATEWAY_METRICS_TOKEN_FILE"),
        ("GATEWAY_WORKER", "GATEWAY_WORKERS"),
        ("GATEWAY_CONTROL_TOKEN", "GATEWAY_CONTROL_TOKENS"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_that_any_program_knows(wrong: str, right: str) -> None:
    assert problems({**MINIMAL, wrong: ""}) == (f"{wrong}: is unknown; did you mean {right}?",)


def test_a_name_like_no_other_is_refused_without_a_guess() -> None:
    (problem,) = problems(MINIMAL, XQZZY_FROBNICATE_THE_WIDGETS="1")
    assert "did you mean" not in problem


def test_a_file_variable_exists_for_secrets_alone() -> None:
    assert problems(MINIMAL, PORT_FILE="/x") != ()
    assert problems(MINIMAL, OIDC_CLIENT_ID_FILE="/x") != ()


def test_names_of_other_programs_and_of_nobody_are_left_alone() -> None:
    load({**MINIMAL, "GATEWAYCTL_URL": "x", "PATH": "/bin", "gateway_port": "x", "MY_GATEWAY_PORT": "x"})


@pytest.mark.parametrize(
    "name",
    [
        "GATEWAY_SERVICE_HOST",
        "GATEWAY_SERVICE_PORT",
        "GATEWAY_SERVICE_PORT_HTTP",
        "GATEWAY_PORT_8080_TCP",
        "GATEWAY_PORT_8080_TCP_ADDR",
        "GATEWAY_PORT_8080_TCP_PROTO",
        "GATEWAY_CONTROL_SERVICE_HOST",
        "GATEWAY_CONTROL_SERVICE_PORT",
        "GATEWAY_CONTROL_PORT_8081_TCP_PORT",
        "GATEWAY_A_2_PORT_53_UDP",
    ],
)
def test_what_kubernetes_injects_for_a_service_of_this_name_is_ignored(name: str) -> None:
    assert problems({**MINIMAL, name: "10.0.0.1"}) == ()


@pytest.mark.parametrize(
    "name",
    ["GATEWAY_PORT_TCP", "GATEWAY_PORT_X_TCP", "GATEWAY_SERVICE_HOSTS", "GATEWAYX_SERVICE_HOST", "GATEWAY_SERVICE"],
)
def test_what_only_resembles_it_is_not(name: str) -> None:
    assert (problems({**MINIMAL, name: "x"}) != ()) is name.startswith("GATEWAY_")


@pytest.mark.parametrize("name", ["GATEWAY_PORT", "GATEWAY_CONTROL_PORT", "GATEWAY_METRICS_PORT"])
def test_an_injected_port_says_what_it_is_and_how_to_turn_it_off(name: str) -> None:
    (problem,) = problems({**MINIMAL, name: "tcp://10.96.0.12:8080"})
    assert problem.startswith(f"{name}: ")
    assert "Kubernetes" in problem
    assert "enableServiceLinks: false" in problem


def test_a_name_with_strange_characters_is_shown_without_them() -> None:
    (problem,) = problems({**MINIMAL, "GATEWAY_\x1b[31m\n" + "A" * 500: "1"})
    assert problem.isprintable()
    assert len(problem) < 300
