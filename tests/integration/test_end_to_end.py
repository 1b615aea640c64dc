"""The main job with real counterparts, each its own process: a login or a token, Access asked, nginx reached.

caller -> gateway run -> nginx
             |-> certified OpenID provider (npm oidc-provider)
             |-> gateway-access over a policy file
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from common.identity.signature import IdentityInvalid, IdentitySigner, new_private_key_pem, verify_identity
from tests.support.nginx import Nginx, start_nginx
from tests.support.oidc_provider import AUDIENCE, Person, RealProvider, client_secret
from tests.support.ports import free_port
from tests.support.processes import Children, eventually

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
ALLOWED = "11111111-1111-4111-8111-111111111111"
FORBIDDEN = "22222222-2222-4222-8222-222222222222"
ACCESS_TOKEN = "a-passphrase-of-well-over-thirty-two-characters"
METRICS_TOKEN = "another-passphrase-of-well-over-thirty-two-characters"

# nginx says what it was sent: each identity header on a line of its own.
SEEN = (
    "host",
    "x-gateway-user-id",
    "x-gateway-email",
    "x-gateway-roles",
    "x-gateway-workspace-id",
    "x-gateway-signature",
)
ECHO = "".join(f"{name}: $http_{name.replace('-', '_')}\\n" for name in SEEN)


@dataclass
class Deployment:
    url: str
    key: str
    nginx: Nginx
    provider: RealProvider
    requests: Callable[[], list[dict[str, object]]]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("deployment")
    with Children() as children:
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        provider = RealProvider(children, url).start()
        nginx = start_nginx(
            children,
            folder / "nginx",
            server=f'location /ws/ {{ return 200 "{ECHO}"; }} location /me {{ return 200 "{ECHO}"; }}',
        )
        (nginx.www / "report.txt").write_bytes(b"0123456789" * 50_000)
        (nginx.www / "page.html.gz").write_bytes(gzip.compress(b"<p>compressed</p>"))
        policy = folder / "policy.json"
        policy.write_text(
            json.dumps(
                {"version": 1, "grants": [{"workspace": ALLOWED, "route": "*", "subjects": ["alice", "machine"]}]}
            )
        )
        access = children.start_python(
            "-c", "from dataplane.accessservice.cli import main; main()", policy, cwd=ROOT,
            env={"PATH": os.environ["PATH"], "ACCESS_PORT": "0", "ACCESS_TOKEN": ACCESS_TOKEN},
        )  # fmt: skip
        access_url = "http://127.0.0.1:" + access.wait_for_line(r'"port":(\d+)')[1]
        key = new_private_key_pem()
        table = folder / "routes.json"
        table.write_text(json.dumps(routes(nginx.origin)))
        gateway = children.start_python("-m", "dataplane.cli", "run", cwd=ROOT, env={
            "PATH": os.environ["PATH"],
            "GATEWAY_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(port),
            "GATEWAY_PUBLIC_URL": url,
            "GATEWAY_CONFIG": str(table),
            "GATEWAY_OIDC_ISSUER": provider.issuer,
            "GATEWAY_OIDC_CLIENT_ID": "gateway",
            "GATEWAY_OIDC_CLIENT_SECRET": client_secret("gateway"),
            "GATEWAY_OIDC_AUDIENCE": AUDIENCE,
            "GATEWAY_ACCESS_URL": access_url,
            "GATEWAY_ACCESS_TOKEN": ACCESS_TOKEN,
            "GATEWAY_METRICS_TOKEN": METRICS_TOKEN,
            "GATEWAY_IDENTITY_SIGNING_KEY": key,
        })  # fmt: skip
        gateway.wait_for_line('"msg":"listening"')

        def requests() -> list[dict[str, object]]:
            return [json.loads(line) for line in gateway.lines if '"msg":"request"' in line]

        yield Deployment(url, IdentitySigner(key).public_key_pem, nginx, provider, requests)


def routes(nginx: str) -> dict[str, object]:
    workspace = {"mode": "any", "workspace": {"param": "workspaceId"}}
    return {
        "version": 2,
        "routes": [
            {"id": "files", "match": {"path": "/"}, "upstream": nginx, "auth": {"mode": "none"}},
            {"id": "me", "match": {"path": "/me"}, "upstream": nginx, "auth": {"mode": "session"}},
            {"id": "workspace", "match": {"path": "/ws/{workspaceId}/"}, "upstream": nginx, "auth": workspace},
        ],
    }


@pytest.fixture
async def browser(deployment: Deployment) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=deployment.url, trust_env=False, headers={"accept": "text/html"}) as client:
        yield client


async def log_in(
    deployment: Deployment, browser: httpx.AsyncClient, target: str, name: str = "alice"
) -> httpx.Response:
    """Open a page, follow the login at the provider, and arrive."""
    refused = await browser.get(target)
    assert refused.status_code == 302
    login = await browser.get(refused.headers["location"])
    person = Person(name)
    try:
        callback = await person.visit(login.headers["location"], until=deployment.url)
    finally:
        await person.close()
    arrived = await browser.get(callback)
    assert arrived.status_code == 302, arrived.text
    return await browser.get(arrived.headers["location"])


def seen_by(answer: httpx.Response) -> list[tuple[bytes, bytes]]:
    """The headers that nginx says it was sent."""
    pairs = [line.partition(": ")[::2] for line in answer.text.splitlines()]
    return [(name.encode(), value.encode()) for name, value in pairs if value]


async def test_a_browser_logs_in_and_reaches_its_workspace_with_a_verifiable_identity(
    deployment: Deployment, browser: httpx.AsyncClient
) -> None:
    target = f"/ws/{ALLOWED}/page?x=1"
    answer = await log_in(deployment, browser, target)
    assert answer.status_code == 200
    headers = seen_by(answer)
    seen = dict(headers)
    assert seen[b"x-gateway-user-id"] == b"alice"
    assert seen[b"x-gateway-workspace-id"] == ALLOWED.encode()
    forwarded = [*headers, (b"x-forwarded-host", deployment.url.removeprefix("http://").encode())]
    verify_identity(deployment.key, forwarded, method="GET", path=f"/ws/{ALLOWED}/page", query="?x=1")
    with pytest.raises(IdentityInvalid):
        verify_identity(deployment.key, forwarded, method="GET", path=f"/ws/{FORBIDDEN}/page", query="?x=1")


async def test_the_other_workspace_is_forbidden_and_nginx_never_hears_of_it(
    deployment: Deployment, browser: httpx.AsyncClient
) -> None:
    await log_in(deployment, browser, "/me")
    answer = await browser.get(f"/ws/{FORBIDDEN}/secret-page", headers={"accept": "application/json"})
    assert (answer.status_code, answer.json()["error"]) == (403, "workspace_forbidden")
    assert not any("secret-page" in line for line in deployment.nginx.access_log())


async def test_a_bearer_token_of_the_provider_is_let_in_and_a_changed_one_is_not(deployment: Deployment) -> None:
    token = (await deployment.provider.machine_token()).decode()
    async with httpx.AsyncClient(base_url=deployment.url, trust_env=False) as client:
        answer = await client.get(f"/ws/{ALLOWED}/api", headers={"authorization": f"Bearer {token}"})
        assert answer.status_code == 200, answer.text
        assert (b"x-gateway-user-id", b"machine") in seen_by(answer)
        changed = token[:-4] + ("AAAA" if token[-4:] != "AAAA" else "BBBB")
        refused = await client.get(f"/ws/{ALLOWED}/api", headers={"authorization": f"Bearer {changed}"})
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")


async def test_logging_out_ends_the_session_here_and_at_the_provider(
    deployment: Deployment, browser: httpx.AsyncClient
) -> None:
    await log_in(deployment, browser, "/me")
    assert (await browser.get("/auth/session")).json()["subject"] == "alice"
    old = dict(browser.cookies)
    answer = await browser.get("/auth/logout", headers={"sec-fetch-site": "same-origin"})
    assert answer.status_code == 302
    assert answer.headers["location"].startswith(deployment.provider.issuer)
    again = await browser.get("/auth/session", headers={"cookie": f"gateway_session={old['gateway_session']}"})
    assert again.status_code == 401


async def test_ranges_conditions_and_codings_of_nginx_pass_untouched(deployment: Deployment) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        for path, headers in [
            ("/report.txt", {}),
            ("/report.txt", {"range": "bytes=5-14"}),
            ("/report.txt", {"range": "bytes=900000-"}),
            ("/page.html.gz", {"accept-encoding": "gzip"}),
            ("/missing", {}),
        ]:
            direct = await client.get(deployment.nginx.origin + path, headers=headers)
            through = await client.get(deployment.url + path, headers=headers)
            assert (through.status_code, through.content) == (direct.status_code, direct.content)
            for name in ("content-type", "content-range", "etag", "last-modified", "accept-ranges", "content-length"):
                assert through.headers.get(name) == direct.headers.get(name), (path, name)
        etag = (await client.get(deployment.url + "/report.txt")).headers["etag"]
        unchanged = await client.get(deployment.url + "/report.txt", headers={"if-none-match": etag})
        assert (unchanged.status_code, unchanged.content) == (304, b"")
        head = await client.head(deployment.url + "/report.txt")
        assert (head.headers["content-length"], head.content) == ("500000", b"")


async def test_everything_is_in_the_log_and_nothing_that_is_secret(
    deployment: Deployment, browser: httpx.AsyncClient
) -> None:
    await log_in(deployment, browser, f"/ws/{ALLOWED}/logged?access_token=marker-of-a-token")

    def logged() -> list[dict[str, object]]:
        return [line for line in deployment.requests() if str(line["path"]).startswith(f"/ws/{ALLOWED}/logged")]

    lines = eventually(lambda: [line for line in logged() if line["status"] == 200])
    assert lines[0]["subject"] == "alice"
    assert lines[0]["workspaceId"] == ALLOWED
    assert lines[0]["upstream"] == deployment.nginx.origin
    assert re.fullmatch(r"[0-9a-f]{32}", str(lines[0]["traceId"]))
    text = json.dumps(deployment.requests())
    for secret in ("marker-of-a-token", browser.cookies["gateway_session"], ACCESS_TOKEN, client_secret("gateway")):
        assert secret not in text


async def test_the_metrics_tell_what_happened_to_whoever_holds_the_token(deployment: Deployment) -> None:
    async with httpx.AsyncClient(base_url=deployment.url, trust_env=False) as client:
        assert (await client.get("/metrics")).status_code == 401
        answer = await client.get("/metrics", headers={"authorization": f"Bearer {METRICS_TOKEN}"})
        assert answer.status_code == 200
        assert 'gateway_requests_total{method="GET",route="workspace"' in answer.text
        assert "gateway_access_requests_total" in answer.text
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (200, "ready")
