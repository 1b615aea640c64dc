"""Secrets that are changed one gateway at a time: what callers and applications notice while both values are in use.

docs/secrets.md promises it.
"""

from __future__ import annotations

import importlib.util
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from joserfc.jwk import ECKey

from common.identity.signature import IdentitySigner
from tests.support import upstreams
from tests.support.control_processes import serve_control
from tests.support.environments import pem
from tests.support.gateway import Answer, route, table
from tests.support.gateway_processes import GatewayProcess, inherited, start_gateways
from tests.support.oidc_provider import AUDIENCE, Person, RealProvider, client_secret
from tests.support.postgres import Postgres
from tests.support.processes import Children
from tests.support.redis import Redis
from tests.support.shared_store import Store, log_in

pytestmark = pytest.mark.real

PUBLIC_URL = "http://app.test"
ON_REDIS = pytest.mark.parametrize("store", ["redis"], indirect=True)
"""For what has nothing to do with the server."""
OLD_TOKEN, NEW_TOKEN = "old-token-of-a-test-0123456789abcdef", "new-token-of-a-test-0123456789abcdef"
SESSION = {"auth": {"mode": "session"}}


@pytest.fixture
async def upstream() -> AsyncIterator[upstreams.Upstream]:
    async with upstreams.upstream(upstreams.answers) as running:
        yield running


def verifier() -> ModuleType:
    """The file that applications copy."""
    path = Path(__file__).parents[2] / "docs/examples/upstream_identity/verify.py"
    spec = importlib.util.spec_from_file_location("verify", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["verify"] = module  # dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


class Browser:
    """Keeps the cookies that gateways set, whichever of them did."""

    def __init__(self) -> None:
        self.cookies: dict[str, str] = {}

    async def get(self, gateway: GatewayProcess, target: str) -> Answer:
        line = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        answer = await gateway.get(target, *([f"cookie: {line}"] if line else []))
        for cookie in answer.values("set-cookie"):
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
            if not value or "Max-Age=0" in cookie:
                del self.cookies[name]
        return answer

    async def callback(self, gateway: GatewayProcess, person: Person) -> str:
        """Begin a login at a gateway and log in at the provider; where that sends the browser back to."""
        login = await self.get(gateway, "/auth/login?redirect=/")
        address = urlsplit(await person.visit(login.value("location"), until=f"{PUBLIC_URL}/auth/callback"))
        return f"{address.path}?{address.query}"


@ON_REDIS
async def test_a_new_session_secret_ends_no_session_and_breaks_only_logins_that_cross_it(
    store: Store, tmp_path: Path, children: Children, upstream: upstreams.Upstream
) -> None:
    provider = RealProvider(children, PUBLIC_URL).start()
    old, new = start_gateways(
        children,
        tmp_path,
        store.data_url,
        table(route(upstream.url, **SESSION)),
        only_b={"GATEWAY_SESSION_SECRET": "n" * 16 + "0123456789abcdef" * 2},
        **with_provider(provider, GATEWAY_OIDC_CLIENT_SECRET=client_secret("gateway")),
    )
    person, browser = Person(), Browser()
    assert (await browser.get(old, await browser.callback(old, person))).status == 302
    assert [(await browser.get(each, "/")).status for each in (old, new)] == [200, 200]

    # A login that began under the old secret is unknown under the new one; it says so, and leaves the rest alone.
    other = Browser()
    callback = await other.callback(old, person)
    crossed = await other.get(new, callback)
    assert (crossed.status, crossed.json["error"]) == (400, "login_failed")
    assert (await other.get(old, callback)).status == 302
    assert (await other.get(new, "/")).status == 200
    await person.close()


def with_provider(provider: RealProvider, **settings: str) -> dict[str, str]:
    """The settings of a gateway at this provider."""
    return {
        "GATEWAY_SESSION_SECRET": "s" * 16 + "0123456789abcdef" * 2,
        "GATEWAY_OIDC_ISSUER": provider.issuer,
        "GATEWAY_OIDC_CLIENT_ID": "gateway",
        "GATEWAY_OIDC_AUDIENCE": AUDIENCE,
        **settings,
    }


@ON_REDIS
async def test_a_client_secret_changes_without_a_failed_login_where_the_provider_takes_two(
    store: Store, tmp_path: Path, children: Children, upstream: upstreams.Upstream
) -> None:
    provider = RealProvider(children, PUBLIC_URL).start()
    old_secret, new_secret = client_secret("gateway"), "the secret that comes after it"
    await provider.take_secrets(old_secret, new_secret)
    old, new = start_gateways(
        children,
        tmp_path,
        store.data_url,
        table(route(upstream.url, auth={"mode": "any"})),
        only_b={"GATEWAY_OIDC_CLIENT_SECRET": new_secret},
        **with_provider(provider, GATEWAY_OIDC_CLIENT_SECRET=old_secret),
        GATEWAY_METRICS_TOKEN=OLD_TOKEN,
    )
    # A login ends at whichever gateway the browser comes back to.
    person = Person()
    for began, ended in ((old, old), (old, new), (new, old), (new, new)):
        assert (await (browser := Browser()).get(ended, await browser.callback(began, person))).status == 302
    crossing = Browser()
    callback = await crossing.callback(old, person)
    await provider.take_secrets(new_secret)
    assert (await crossing.get(new, callback)).status == 302
    # Whoever forgot the second step fails at logins; sessions, of whichever gateway, and tokens are as good as before.
    late = Browser()
    failed = await late.get(old, await late.callback(old, person))
    assert (failed.status, failed.json["error"]) == (400, "login_failed")
    metrics = await old.get("/metrics", f"authorization: Bearer {OLD_TOKEN}")
    assert b'gateway_logins_total{result="failed"} 1' in metrics.body
    old.child.wait_for_line(r'"detail":"the token endpoint answered 401 invalid_client"')
    token = (await provider.machine_token()).decode()
    for gateway in (old, new):
        assert (await browser.get(gateway, "/")).status == 200
        assert (await gateway.get("/", f"authorization: Bearer {token}")).status == 200
    # The login that failed there is started again, and succeeds where the new secret is.
    assert (await late.get(new, await late.callback(new, person))).status == 302
    await person.close()


@ON_REDIS
async def test_a_client_key_changes_without_a_failed_login_where_the_provider_tries_both(
    store: Store, tmp_path: Path, children: Children, upstream: upstreams.Upstream
) -> None:
    keys = [ECKey.generate_key("P-256", {"use": "sig", "alg": "ES256"}) for _ in range(2)]
    provider = RealProvider(children, PUBLIC_URL, client_keys=[dict(key.as_dict(private=False)) for key in keys])
    provider.start()
    old_pem, new_pem = (key.as_pem(private=True).decode() for key in keys)
    gateways = start_gateways(
        children,
        tmp_path,
        store.data_url,
        table(route(upstream.url, **SESSION)),
        only_b={"GATEWAY_OIDC_CLIENT_KEY": new_pem},
        **with_provider(
            provider,
            GATEWAY_OIDC_CLIENT_ID="gateway-key",
            GATEWAY_OIDC_CLIENT_AUTH="private_key_jwt",
            GATEWAY_OIDC_CLIENT_KEY=old_pem,
        ),
    )
    person = Person()
    for gateway in gateways:
        browser = Browser()
        assert (await browser.get(gateway, await browser.callback(gateway, person))).status == 302
    await person.close()


@ON_REDIS
async def test_a_metrics_token_counts_alone_and_changes_with_a_restart_not_with_a_reload(
    store: Store, tmp_path: Path, children: Children, upstream: upstreams.Upstream
) -> None:
    file = tmp_path / "metrics-token"
    file.write_text(f"{OLD_TOKEN}\n")
    place = store.data_url, table(route(upstream.url))

    async def scraped(gateway: GatewayProcess) -> list[int]:
        """What the old and the new token are answered."""
        return [
            (await gateway.get("/metrics", f"authorization: Bearer {token}")).status for token in (OLD_TOKEN, NEW_TOKEN)
        ]

    gateways = start_gateways(children, tmp_path, *place, GATEWAY_METRICS_TOKEN_FILE=str(file))
    file.write_text(f"{NEW_TOKEN}\n")
    gateways[0].child.send(signal.SIGHUP)
    gateways[0].child.wait_for_line('"msg":"reload asked for"')
    assert [await scraped(each) for each in gateways] == [[200, 401]] * 2
    gateways[0].child.send(signal.SIGTERM)
    assert gateways[0].child.wait(within_s=30) == 0
    (tmp_path / "again").mkdir()
    restarted, _ = start_gateways(children, tmp_path / "again", *place, GATEWAY_METRICS_TOKEN_FILE=str(file))
    assert await scraped(restarted) == [401, 200]
    # The other one is not restarted yet: a gap in its graphs, and nothing else.
    assert await scraped(gateways[1]) == [200, 401]
    assert (await gateways[1].get("/")).status == 200


def test_the_control_planes_metrics_token_counts_alone(children: Children) -> None:
    for token, other in ((OLD_TOKEN, NEW_TOKEN), (NEW_TOKEN, OLD_TOKEN)):
        _, origin = serve_control(children, CONTROL_METRICS_TOKEN=token)
        answers = [
            httpx.get(f"{origin}/metrics", headers={"authorization": f"Bearer {shown}"}, trust_env=False).status_code
            for shown in (token, other)
        ]
        assert answers == [200, 401]


@ON_REDIS
async def test_an_application_that_knows_both_public_keys_serves_while_gateways_change_theirs(
    store: Store, tmp_path: Path, children: Children, upstream: upstreams.Upstream
) -> None:
    keys = [pem(ec.generate_private_key(ec.SECP256R1())) for _ in range(2)]
    old, new = start_gateways(
        children,
        tmp_path,
        store.data_url,
        table(route(upstream.url, **SESSION)),
        only_b={"GATEWAY_IDENTITY_SIGNING_KEY": keys[1]},
        GATEWAY_IDENTITY_SIGNING_KEY=keys[0],
    )
    cookie = await log_in(store, "alice")
    publics = [ECKey.import_key(IdentitySigner(key).public_key_pem) for key in keys]
    example: Any = verifier()

    def accepted(request: upstreams.Request) -> list[bool]:
        """Whether the old and the new public key verify what the application received."""
        told = []
        for key in publics:
            try:
                method, target, _ = request.line.split(" ")
                caller = example.verify_identity(request.headers(), method, target, key)
            except example.IdentityRefused:
                told.append(False)
            else:
                told.append(caller.subject == "alice")
        return told

    for gateway in (old, new):
        assert (await gateway.get("/", cookie)).status == 200
    assert [accepted(request) for request in upstream.requests] == [[True, False], [False, True]]


@ON_REDIS
async def test_a_token_that_access_does_not_know_is_an_outage_and_two_services_bridge_the_change(
    store: Store, tmp_path: Path, children: Children, upstream: upstreams.Upstream
) -> None:
    """Never a denial: whoever may use the application is not told that they may not."""
    policy = tmp_path / "policy.json"
    policy.write_text('{"version": 1, "grants": [{"route": "*", "subjects": ["alice"]}]}')
    old_url, new_url = (serve_access(children, policy, token) for token in (OLD_TOKEN, NEW_TOKEN))
    old, new = start_gateways(
        children,
        tmp_path,
        store.data_url,
        table(route(upstream.url, **SESSION, accessCheck=True, accessCacheTtlMs=0)),
        only_b={"GATEWAY_ACCESS_URL": new_url, "GATEWAY_ACCESS_TOKEN": NEW_TOKEN},
        GATEWAY_ACCESS_URL=old_url,
        GATEWAY_ACCESS_TOKEN=OLD_TOKEN,
    )
    cookie = await log_in(store, "alice")
    assert [(await each.get("/", cookie)).status for each in (old, new)] == [200, 200]

    # Without a second service: it knows the new token, and this gateway the old one.
    (tmp_path / "late").mkdir()
    late, _ = start_gateways(
        children,
        tmp_path / "late",
        store.data_url,
        table(route(upstream.url, **SESSION, accessCheck=True, accessCacheTtlMs=0)),
        GATEWAY_ACCESS_URL=new_url,
        GATEWAY_ACCESS_TOKEN=OLD_TOKEN,
    )
    refused = await late.get("/", cookie)
    assert (refused.status, refused.json["error"]) == (503, "access_unavailable")


def test_both_tokens_of_an_operator_are_good_while_the_map_holds_both(children: Children) -> None:
    alice = {"operator": "alice", "scope": "read"}
    _, origin = serve_control(children, CONTROL_TOKENS=json.dumps({OLD_TOKEN: alice, NEW_TOKEN: alice}))
    for token in (OLD_TOKEN, NEW_TOKEN):
        answer = httpx.get(f"{origin}/v1/audit", headers={"authorization": f"Bearer {token}"}, trust_env=False)
        assert answer.status_code == 200


def serve_access(children: Children, policy: Path, token: str) -> str:
    """The reference service with a token; its URL."""
    program = "from dataplane.accessservice.cli import main; main()"
    environment = {**inherited(), "ACCESS_TOKEN": token, "ACCESS_PORT": "0"}
    child = children.start_python("-c", program, policy, name="gateway-access", env=environment)
    return "http://127.0.0.1:" + child.wait_for_line(r'"msg":"listening".*"port":(\d+)', within_s=30)[1]


async def test_gateways_move_to_another_password_of_the_state_one_by_one(
    store: Store, tmp_path: Path, children: Children, upstream: upstreams.Upstream
) -> None:
    old_url, new_url = await two_logins(store)
    gateways = start_gateways(
        children,
        tmp_path,
        old_url,
        table(route(upstream.url, **SESSION)),
        only_b={"GATEWAY_STATE_URL": new_url},
    )
    cookie = await log_in(store, "alice")
    assert [(await each.get("/", cookie)).status for each in gateways] == [200, 200]
    await old_login_ends(store)
    assert (await gateways[1].get("/", cookie)).status == 200
    # A gateway that was forgotten serves on with the connections that it has: it shows at its next restart.
    assert (await gateways[0].get("/", cookie)).status == 200
    if isinstance(store.server, Postgres):
        told = await store.server.run("SELECT usename FROM pg_stat_activity WHERE application_name = 'wicketgate'")
        assert {row["usename"] for row in told[0]} == {"data", "next"}
        await store.server.run("DROP USER data")
        assert [(await each.get("/", cookie)).status for each in gateways] == [503, 200]


async def two_logins(store: Store) -> tuple[str, str]:
    """URLs with the old and the new password: a second password of a Redis user, or a second Postgres user."""
    if isinstance(store.server, Redis):
        store.server.cli("ACL", "SETUSER", "gateway", "on", "~*", "&*", "+@all", ">old-password", ">new-password")
        address = store.data_url.removeprefix("redis://")
        return f"redis://gateway:old-password@{address}", f"redis://gateway:new-password@{address}"
    await store.server.run("CREATE USER next PASSWORD 'new-password'", "GRANT gateway_data TO next")
    return store.data_url, store.server.url_of("next", "new-password")


async def old_login_ends(store: Store) -> None:
    if isinstance(store.server, Redis):
        assert store.server.cli("ACL", "SETUSER", "gateway", "<old-password") == "OK"
    else:
        await store.server.run("ALTER USER data NOLOGIN")
