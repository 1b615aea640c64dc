"""The live API against its own description: nothing that Schemathesis thinks of is answered otherwise than it says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance

from tests.support.control import TOKENS, route_table
from tests.support.control_processes import serve_control
from tests.support.postgres import open_folder, start_postgres
from tests.support.processes import Children
from tests.support.redis import start_redis
from tests.support.state_backends import in_its_own_loop

pytestmark = pytest.mark.real

PUBLISHED = json.loads((Path(__file__).parents[2] / "openapi/control.json").read_text())
OPERATIONS = [(path, method) for path, methods in PUBLISHED["paths"].items() for method in methods]

EXAMPLES = 25
"""A few minutes' worth of an operation on a busy machine would be more; these find what a misread schema breaks."""


@pytest.fixture(scope="module", params=["redis", "postgres"])
def description(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The description of a running control plane, as it serves it."""
    with open_folder() as folder, Children() as children:
        if request.param == "redis":
            url = start_redis(children, folder / "redis").url
        else:
            server = start_postgres(children, folder / "postgres")
            in_its_own_loop(server.migrate())
            url = server.control_url
        child, origin = serve_control(children, CONTROL_STATE_URL=url)
        whole = httpx.get(f"{origin}/openapi.json", trust_env=False, timeout=60).json()
        for path in ("/v1/config", "/v1/config/validate"):
            # No table can be made of that schema by chance; what is any object is refused by the rules behind it.
            for operation in whole["paths"][path].values():
                if "requestBody" in operation:
                    operation["requestBody"]["content"]["application/json"]["schema"] = {"type": "object"}
        loaded = schemathesis.openapi.from_dict(whole)
        loaded.config.update(base_url=origin)
        yield loaded
        assert '"level":"error"' not in child.output


CHECKS_LEFT_OUT = [
    # Wrong tokens are counted, and then every one is refused: that is a test of its own.
    ignored_auth,
    # A cursor or table of the right shape may still be none: a schema cannot say what is.
    positive_data_acceptance,
]


def token_for(path: str) -> str:
    """The token of a scope that may do this."""
    return TOKENS["operate" if path.startswith(("/v1/sessions", "/v1/decisions")) else "config"]


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_every_answer_is_one_that_the_description_has(description: Any, path: str, method: str) -> None:
    headers = {"authorization": f"Bearer {token_for(path)}"}

    @given(case=description[path][method].as_strategy(), up_to_date=st.booleans())
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def answers_as_described(case: Any, up_to_date: bool) -> None:
        if up_to_date and "If-Match" in case.headers:
            active = httpx.get(f"{description.config.base_url}/v1/config", headers=headers, trust_env=False, timeout=60)
            case.headers["If-Match"] = active.headers["etag"]
            if path == "/v1/config":
                case.body = route_table("a", "b")
        case.call_and_validate(headers=headers, excluded_checks=CHECKS_LEFT_OUT, timeout=60)

    answers_as_described()
