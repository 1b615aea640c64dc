"""Path confusion: no spelling reaches a public upstream that a careless reader there takes for a protected path.

The table has a public catch-all and protected routes beside it. Every spelling of the collection of public reports is
sent over a socket; Hypothesis makes more, against the matcher and, some of them, against a gateway.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.routetable.compiled import DeploymentDefaults
from common.routetable.load import load_route_table
from common.routetable.paths import AmbiguousPath
from common.routetable.table import RouteTable
from tests.support.gateway import Running, route, running, table
from tests.support.upstreams import Upstream, upstream
from tests.support.wire import Recorded, everything, responses

PUBLIC, PROTECTED = "public", "protected"
PROTECTED_PATHS = ("/admin", "/api/{tenant}/keys", "/static/private/")


def document(public: str, protected: str) -> dict[str, object]:
    """A public catch-all, protected routes beside it, and a public one below a protected one."""
    login = {"mode": "session"}
    return table(
        {"id": PUBLIC, **route(public)},
        {"id": "open", **route(public, "/admin/open/")},
        *({"id": f"{PROTECTED}-{n}", **route(protected, path, auth=login)} for n, path in enumerate(PROTECTED_PATHS)),
    )


# What careless readers do.


def decode(path: str) -> str:
    return unquote_to_bytes(path).decode("latin-1")


def backslashes(path: str) -> str:
    return path.replace("\\", "/")


def parameters(path: str) -> str:
    return re.sub(r";[^/]*", "", path)


def everything_behind_a_semicolon(path: str) -> str:
    return path.partition(";")[0]


def slashes(path: str) -> str:
    return re.sub(r"/{2,}", "/", path)


def dots(path: str) -> str:
    """RFC 3986 §5.2.4."""
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            if kept:
                kept.pop()
        elif segment != ".":
            kept.append(segment)
    if segments and segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


STEPS = (backslashes, parameters, everything_behind_a_semicolon, slashes, dots)


def readings(path: str) -> Iterator[tuple[str, str]]:
    """Every text that some careless reader makes of a path, and how: any steps in any order, decoding once at most."""
    untried = [(path, False, "")]
    seen = {(path, False)}
    while untried:
        text, decoded, how = untried.pop()
        yield text, how
        following = [(step(text), decoded, step) for step in STEPS]
        if not decoded:
            following.append((decode(text), True, decode))
        for made, is_decoded, step in following:
            if made and (made, is_decoded) not in seen:
                seen.add((made, is_decoded))
                untried.append((made, is_decoded, f"{how} {step.__name__}"))


def is_protected(path: str) -> bool:
    """Whether a plain path, with nothing left to decode, belongs to a protected route."""
    if path == "/admin" or (path.startswith("/admin/") and not path.startswith("/admin/open/")):
        return True
    return re.fullmatch(r"/api/[^/]+/keys(/.*)?|/static/private/.*", path, re.DOTALL) is not None


def open_to_careless_readers(path: str) -> str | None:
    """How a reader takes the path for a protected one; None where none does."""
    return next((f"{reader}: {text!r}" for text, reader in readings(path) if is_protected(text)), None)


def test_the_readers_find_what_they_are_for() -> None:
    for path in (
        "/admin", "/%61dmin", "//admin", "/admin%2fusers", "/admin;x", "/x/../admin", "/x/..;a/admin",
        "/x%2f..%5cadmin", "/admin/open/../x", "/api/a;b/keys", "/static%2fprivate/x", "/;/admin",
        "/%3b/admin", "/.;/admin",
    ):  # fmt: skip
        assert open_to_careless_readers(path) is not None, path
    for path in ("/", "/administrator", "/x/admin", "/admin/open/x", "/api/keys", "/static/privat/e", "/%2561dmin"):
        assert open_to_careless_readers(path) is None, path


@pytest.fixture(scope="module")
def matcher() -> RouteTable:
    written = document("http://127.0.0.1:1", "http://127.0.0.1:2")
    return load_route_table(json.dumps(written).encode(), DeploymentDefaults())


WORDS = ("admin", "open", "api", "keys", "static", "private", "x", "a", "Admin", "")
SEPARATORS = (
    "/", "/", "/", "//", "\\", "%2f", "%2F", "%5c", "%5C", "%252f", ";", ";/", "/;", "%3b", "%3B/", "/./", "/../",
    "/.;a/", "/..;/", "/%2e/", "/%2e%2e/", "/.%2E/", "/%252e%252e/", "%2f..%2f", "\\..\\", "/....//", "/.../", "?",
    "%3f", "%23", "%20", "%09", ".", "..", "%00", ",", ":", "@", "%", "%u002f", "%c0%af", "%ef%bc%8f",
)  # fmt: skip


@st.composite
def spelled_word(draw: st.DrawFn) -> str:
    """A word with some of its letters escaped, once or twice."""
    word = draw(st.sampled_from(WORDS))
    styles = draw(st.lists(st.sampled_from("    %%U2"), min_size=len(word), max_size=len(word)))
    made = []
    for letter, style in zip(word, styles, strict=True):
        escape = f"%{ord(letter):02x}"
        made.append({" ": letter, "%": escape, "U": escape.upper(), "2": escape.replace("%", "%25")}[style])
    return "".join(made)


@st.composite
def hostile_path(draw: st.DrawFn) -> str:
    pieces = ["/"]
    for _ in range(draw(st.integers(1, 5))):
        pieces += (draw(spelled_word()), draw(st.sampled_from(SEPARATORS)))
    return "".join(pieces[: draw(st.integers(2, len(pieces)))]).partition("?")[0]


def routed(matcher: RouteTable, path: str) -> str:
    """`public`, `protected`, or `refused`."""
    try:
        match = matcher.match("app.test", path, "GET")
    except AmbiguousPath:
        return "refused"
    assert match is not None, "the catch-all takes what nothing else does"
    return PROTECTED if match.route.id.startswith(PROTECTED) else PUBLIC


@settings(max_examples=400)
@given(path=hostile_path())
def test_what_matches_the_public_route_reads_as_protected_to_no_careless_reader(matcher: RouteTable, path: str) -> None:
    if routed(matcher, path) == PUBLIC:
        assert open_to_careless_readers(path) is None


@settings(max_examples=200)
@given(path=hostile_path())
def test_what_is_routed_holds_no_dot_segment_to_a_reader_that_decodes_once(matcher: RouteTable, path: str) -> None:
    """B20: no normalising happens, so there is nothing that could bring one back."""
    if routed(matcher, path) != "refused":
        for text, reader in readings(path):
            if "dots" not in reader:
                assert not {".", ".."} & set(text.split("/")), reader


@dataclass
class World:
    gw: Running
    public: Recorded
    protected: Upstream


@asynccontextmanager
async def world(tmp_path: Path, **top: object) -> AsyncIterator[World]:
    app = Recorded()
    async with (
        upstream(app.script) as public,
        upstream(Recorded().script) as protected,
        running(tmp_path, document(public.url, protected.url) | top) as gw,
    ):
        yield World(gw, app, protected)


async def outcome(here: World, target: str, *, host: str = "app.test", method: str = "GET") -> str:
    """What became of a request without a session: `refused`, `protected`, `reserved`, or `public` with its bytes."""
    here.public.clear()
    seen = len(here.gw.requests())
    raw = f"{method} {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode("latin-1")
    (answer,) = responses(await everything(here.gw, raw), (method,))
    line = await here.gw.request_line(seen + 1)
    assert line["status"] == answer.status
    assert here.protected.connections == 0, "nobody without a session reaches the protected upstream"
    if answer.status == 200:
        assert here.public.lines == [f"{method} {target} HTTP/1.1"], "the target is forwarded byte for byte"
        assert line["route"] in (PUBLIC, "open")
        return PUBLIC
    assert here.public.begun == []
    kinds = {400: "refused", 401: PROTECTED, 404: "reserved"}
    assert line["error"] == {400: "bad_request", 401: "unauthorized", 404: "not_found"}[answer.status]
    return kinds[answer.status]


REPORTED = {
    # B13
    "/admin%2F": "refused",
    "/admin%2fusers": "refused",
    "/x%2f..%2fadmin": "refused",
    "/admin%5C": "refused",
    "/admin%5cusers": "refused",
    "/admin\\": "refused",
    "/admin\\users": "refused",
    "\\admin": "refused",
    "/%5cadmin": "refused",
    "/%61dmin": PROTECTED,
    "/%61%64%6D%69%6e": PROTECTED,
    "/%41dmin": PUBLIC,
    # B14
    "/v2/group%2Fimage/tags": PUBLIC,
    "/projects/a%2Fb": PUBLIC,
    "/projects/%3B%23%3F%25": PUBLIC,
    "/projects/%2525": PUBLIC,
    # B16
    "/public/../admin/secrets": "refused",
    "/public/./../admin": "refused",
    "/public/%2e%2e/admin": "refused",
    "/public/.%2e/admin": "refused",
    "/public/%2E./admin": "refused",
    "/public/../admin?x=1": "refused",
    "/public/..?/admin": "refused",
    "/..": "refused",
    "/.": "refused",
    "/%2e": "refused",
    "/admin/open/../x": "refused",
    "/admin/open/..%2fx": "refused",
    "/admin/open%2f..%2fx": "refused",
    "/admin/open/%2e%2e/x": "refused",
    # B17
    "/admin?path=/admin/open/": PROTECTED,
    "/admin?/admin/open/": PROTECTED,
    "/admin?x=%2Fadmin%2Fopen%2F": PROTECTED,
    "/admin/?/open/": PROTECTED,
    # B19
    "/admin;x=1": "refused",
    "/admin;": "refused",
    "/admin%3bx": "refused",
    "/admin;x/users": "refused",
    "/admin/..;/x": "refused",
    "/x/..;a=b/admin": "refused",
    "/;/admin": "refused",
    "/;x/admin": "refused",
    "/%3b/admin": "refused",
    "/admin%00.png": "refused",
    "/admin%0d%0a": "refused",
    "/ADMIN": PUBLIC,
    "/admin/": PROTECTED,
    "/admin.": PUBLIC,
    "/admin/open;x/y": "refused",
    "/admin/open/;x/y": PUBLIC,
    # B20
    "/....//admin": PUBLIC,
    "/%2e%2e%2e%2e//admin": PUBLIC,
    "/.../..//admin": "refused",
    "/a/.//../admin": "refused",
    "//admin": "refused",
    "///admin": "refused",
    "/%2fadmin": "refused",
    "//%61dmin": "refused",
    # R07
    "/admin#/public": "refused",
    "/public#/../admin": "refused",
    "/admin%23/public": PUBLIC,
    "/admin/%23/public": PROTECTED,
    # R08: nothing is decoded a second time
    "/%252e%252e/admin": PUBLIC,
    "/x/%2E%2E/admin": "refused",
    "/%25%32%65": PUBLIC,
    "/%2561dmin": PUBLIC,
    "/admin/%252e%252e/x": PROTECTED,
    # malformed
    "/%": "refused",
    "/%a": "refused",
    "/%zz": "refused",
    "/%u0061dmin": "refused",
    "/admin%": "refused",
    # other forms of the target
    "http://app.test/admin": PROTECTED,
    "http://app.test//admin": "refused",
    "http://app.test/x/../admin": "refused",
    "http://app.test/%61dmin;": "refused",
    # a placeholder and a prefix
    "/api/a/keys": PROTECTED,
    "/api/a%2fkeys": "refused",
    "/api/a;b/keys": PROTECTED,
    "/api//a/keys": "refused",
    "/api/a//keys": "refused",
    "/api/a%2fb/keys": "refused",
    "/%61pi/a/k%65ys": PROTECTED,
    "/static/private/x": PROTECTED,
    "/static/private%2fx": "refused",
    "/static%2fprivate/x": "refused",
    "/static//private/x": "refused",
    "/static/private;/x": "refused",
}


async def test_every_reported_spelling_is_refused_protected_or_harmless(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        found = {target: await outcome(here, target) for target in REPORTED}
        assert found == REPORTED
        harmless = [target.partition("?")[0] for target, kind in REPORTED.items() if kind == PUBLIC]
        assert {target: open_to_careless_readers(target) for target in harmless} == dict.fromkeys(harmless)
        assert (await here.gw.get("/ordinary")).status == 200


@pytest.mark.parametrize("method", ["HEAD", "POST", "OPTIONS", "TRACE", "PROPFIND", "get"])
async def test_a_method_opens_no_spelling(tmp_path: Path, method: str) -> None:
    async with world(tmp_path) as here:
        expected = {
            "/admin": PROTECTED,
            "//admin": "refused",
            "/%61dmin": PROTECTED,
            "/admin;x": "refused",
            "/x/../admin": "refused",
        }
        assert {target: await outcome(here, target, method=method) for target in expected} == expected


async def test_a_sample_of_made_up_spellings_over_a_socket(tmp_path: Path) -> None:
    """The bytes that the public upstream really got, read by every careless reader."""
    examples: list[str] = []

    @settings(max_examples=250, database=None, suppress_health_check=list(HealthCheck))
    @given(path=hostile_path())
    def collect(path: str) -> None:
        examples.append(path)

    collect()
    async with world(tmp_path) as here:
        kinds = set()
        for path in dict.fromkeys(examples):
            kind = await outcome(here, path)
            kinds.add(kind)
            for request in here.public.whole:
                target = request.line.split(" ")[1]
                assert open_to_careless_readers(target.partition("?")[0]) is None
        assert kinds == {PUBLIC, PROTECTED, "refused"}


OWN = (
    "/auth/login",
    "/auth/callback",
    "/auth/logout",
    "/auth/session",
    "/healthz",
    "/readyz",
    "/metrics",
    "/.well-known/acme-challenge",
)


def spellings(path: str) -> Iterator[str]:
    """Ways to write a path of the gateway that a careless upstream could take for it."""
    head, tail = path[1], path[2:]
    escaped = "".join(f"%{ord(letter):02x}" for letter in path[1:])
    yield from (
        f"/%{ord(head):02x}{tail}",
        f"/%{ord(head):02X}{tail}",
        f"/{escaped}",
        f"//{path[1:]}",
        f"///{path[1:]}",
    )
    yield from (
        f"{path};x",
        f"{path};",
        f"{path}%3b",
        f"{path}/",
        f"{path}//",
        f"{path}/x",
        f"{path}%2f",
        f"{path}%2Fx",
    )
    yield from (f"{path}\\", f"{path}%5c", f"/\\{path[1:]}", f"/;{path}", f"/;x{path}", f"/%2f{path[1:]}")
    yield from (
        f"/.{path}",
        f"/x/..{path}",
        f"/%2e{path}",
        f"/x/%2e%2e{path}",
        f"/..;{path}",
        f"{path}/.",
        f"{path}/..",
    )
    yield from (f"http://app.test/{path}", f"http://app.test/%{ord(head):02x}{tail}")
    if "/" in tail:
        start, _, last = path.rpartition("/")
        yield from (
            f"{start}//{last}",
            f"{start}%2f{last}",
            f"{start}\\{last}",
            f"{start};x/{last}",
            f"{start}/;/{last}",
        )
        yield f"{start}/%{ord(last[0]):02x}{last[1:]}"


@pytest.mark.parametrize("path", OWN)
async def test_no_spelling_of_a_path_of_the_gateway_is_forwarded_on_its_names(tmp_path: Path, path: str) -> None:
    """Production risk: an application, or whoever writes there, plays the login page on the gateway's own name."""
    async with world(tmp_path) as here:
        for target in spellings(path):
            assert await outcome(here, target) in ("reserved", "refused"), target
        for method in ("PUT", "DELETE", "get", "OPTIONS"):
            assert await outcome(here, path, method=method) == "reserved", method


@pytest.mark.parametrize("host", ["GW.Test", "gw.test.", "gw.test:80", "gw.test:8443", "GW.TEST.:99"])
async def test_every_spelling_of_a_name_of_the_gateway_is_its_name(tmp_path: Path, host: str) -> None:
    async with world(tmp_path, hosts=["gw.test"]) as here:
        for target in ("/%61uth/login", "//auth/login", "/auth/login;x", "/auth/callback/", "/auth%2fsession"):
            assert await outcome(here, target, host=host) in ("reserved", "refused"), target


async def test_a_request_without_a_host_is_on_a_name_of_the_gateway(tmp_path: Path) -> None:
    async with world(tmp_path, hosts=["gw.test"]) as here:
        for target in (b"/auth/callback;x", b"/%61uth/login", b"/auth/login/"):
            (answer,) = responses(await everything(here.gw, b"GET " + target + b" HTTP/1.0\r\n\r\n"))
            assert answer.json["error"] == "not_found"
        assert here.public.begun == []


async def test_on_another_name_the_path_is_the_services_own_and_its_routes_guard_it(tmp_path: Path) -> None:
    async with world(tmp_path, hosts=["gw.test"]) as here:
        assert await outcome(here, "/auth/callback?x=1") == PUBLIC
        assert await outcome(here, "/auth/login") == PUBLIC
        assert await outcome(here, "//admin") == "refused"
        answer = await here.gw.get("/healthz")
        assert answer.json == {"status": "ok"}


async def test_reserved_paths_of_the_table_are_kept_in_every_spelling(tmp_path: Path) -> None:
    async with world(tmp_path, reservedPaths=["/internal/"]) as here:
        for target in ("/internal/x", "/%69nternal/x", "//internal/x", "/internal%2fx", "/internal;a/x", "/internal/"):
            assert await outcome(here, target) in ("reserved", "refused"), target


async def test_health_is_by_exact_path_and_a_user_agent_opens_nothing(tmp_path: Path) -> None:
    """R10."""
    async with world(tmp_path) as here:
        for agent in ("GoogleHC/1.0", "kube-probe/1.2", "ELB-HealthChecker/2.0"):
            for path in ("/admin", "/admin/healthz", "/api/healthz/keys"):
                answer = await here.gw.get(path, f"user-agent: {agent}")
                assert (answer.status, answer.json["error"]) == (401, "unauthorized")
        assert here.protected.connections == 0
        answer = await here.gw.get("/healthz?/admin", "user-agent: x")
        assert answer.json == {"status": "ok"}, "nothing about the inside"


async def test_an_options_star_goes_to_the_catch_all_under_its_own_rules(tmp_path: Path) -> None:
    async with upstream(Recorded().script) as app:
        login = {"mode": "session"}
        async with running(tmp_path, table(route(app.url, auth=login), route(app.url, "/open"))) as gw:
            (answer,) = responses(await everything(gw, b"OPTIONS * HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"))
            assert answer.status == 401
            assert app.connections == 0


async def test_a_rewrite_builds_no_dot_segment_and_no_other_route(tmp_path: Path) -> None:
    app = Recorded()
    async with upstream(app.script) as public:
        rewritten = route(public.url, "/files/{name}/", rewrite="/store/{name}/{rest}")
        async with running(tmp_path, table(rewritten)) as gw:
            for name in ("..", "%2e%2e", ".%2e", "a%2f..%2f..", "..;x", "a\\..", "a%5c..", "a%2f."):
                assert (await gw.get(f"/files/{name}/x")).status == 400, name
                assert (await gw.get(f"/files/a/{name}")).status == 400, name
            assert app.begun == []
            for given_path, got in (
                ("/files/a%2Fb/c", "/store/a%2Fb/c"),
                ("/files/a//b", "/store/a//b"),
                ("/files/%2561/b?c", "/store/%2561/b?c"),
            ):
                app.clear()
                assert (await gw.get(given_path)).status == 200
                assert app.lines == [f"GET {got} HTTP/1.1"]


WORKSPACE = "11111111-1111-4111-8111-111111111111"
OTHER = "22222222-2222-4222-8222-222222222222"


@pytest.mark.parametrize(
    "target",
    [
        f"/ws/{WORKSPACE}%2f{OTHER}/x",
        f"/ws/{WORKSPACE};{OTHER}/x",
        f"/ws/{WORKSPACE}%2f..%2f{OTHER}/x",
        f"/ws/{WORKSPACE}/../{OTHER}/x",
        f"/ws/{WORKSPACE}\\..\\{OTHER}/x",
        f"/ws//{WORKSPACE}/x",
        f"/ws/;/{WORKSPACE}/x",
        f"/ws/%2f{WORKSPACE}/x",
        f"/ws/{WORKSPACE}%00/x",
        f"/ws/{WORKSPACE}%0a/x",
        f"/ws/{WORKSPACE}%20/x",
        f"/ws/{WORKSPACE}%2531/x",
        "/ws//x",
        "/ws/%20/x",
        f"/ws/{WORKSPACE}x/x",
        f"/ws/{{{WORKSPACE}}}/x",
        f"/ws/urn:uuid:{WORKSPACE}/x",
        f"/ws/{WORKSPACE.replace('-', '')}/x",
    ],
)
async def test_no_spelling_makes_access_judge_another_workspace_than_the_upstream_reads(
    tmp_path: Path, target: str
) -> None:
    app, access = Recorded(), Recorded()
    async with upstream(app.script) as public, upstream(access.script) as decides:
        guarded = route(public.url, "/ws/{id}/", auth={"mode": "session", "workspace": {"param": "id"}})
        async with running(tmp_path, table(guarded), access_url=decides.url) as gw:
            answer = await gw.get(target, await gw.session())
            assert answer.json["error"] in ("bad_request", "no_route")
            assert app.begun == []
            assert access.begun == []


HOSTS = {
    # B64, B08, R28: whose route it is, None where the request is refused
    "app.example.com": PROTECTED,
    "APP.Example.COM": PROTECTED,
    "app.example.com.": PROTECTED,
    "app.example.com:443": PROTECTED,
    "app.example.com:80": PROTECTED,
    "App.Example.com.:08443": PROTECTED,
    "[::1]": PROTECTED,
    "[0:0:0:0:0:0:0:1]:8443": PROTECTED,
    "[0000::0001]": PROTECTED,
    "x.wild.example": PROTECTED,
    "a.b.wild.example.": PROTECTED,
    "wild.example": PUBLIC,
    "xwild.example": PUBLIC,
    "app.example.com.evil.example": PUBLIC,
    "evil-app.example.com": PUBLIC,
    "xn--pp-example-com-x.test": PUBLIC,
    "app.example.com..": None,
    "app.example.com:99999": None,
    "app.example.com:": None,
    "app.example.com:x": None,
    "app%2eexample.com": None,
    "app.example.com%00.evil": None,
    "app.example.com/": None,
    "app.example.com,evil.example": None,
    "app.example.com evil.example": None,
    "evil@app.example.com": None,
    "::1": None,
    "[::1": None,
    "[::1]x": None,
    "[fe80::1%25eth0]:80": None,
}


@pytest.mark.parametrize("absolute", [False, True])
async def test_no_spelling_of_a_host_misses_the_route_of_its_name(tmp_path: Path, absolute: bool) -> None:
    login = {"mode": "session"}
    app = Recorded()
    async with upstream(app.script) as public, upstream(Recorded().script) as protected:
        names = ("app.example.com", "[::1]", "*.wild.example")
        guarded = [
            {"id": f"{PROTECTED}-{n}", **route(protected.url, auth=login, match={"host": name})}
            for n, name in enumerate(names)
        ]
        async with running(tmp_path, table({"id": PUBLIC, **route(public.url)}, *guarded)) as gw:
            for host, expected in HOSTS.items():
                app.clear()
                target = f"http://{host}/x" if absolute and " " not in host else "/x"
                answer = await gw.get(target, host=host)
                status = {PROTECTED: 401, PUBLIC: 200, None: 400}[expected]
                assert answer.status == status, host
                assert len(app.begun) == (status == 200)
            assert protected.connections == 0


async def test_an_upstream_given_as_ipv6_is_called_by_its_name_in_brackets(tmp_path: Path) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6 loopback")
    app = Recorded()
    async with upstream(app.script, "::1") as inside:
        name = f"[::1]:{inside.port}"
        async with running(tmp_path, table(route(f"http://{name}"))) as gw:
            assert (await gw.get("/x", host="[::1]:8443")).status == 200
            (request,) = app.whole
            assert request.values(b"host") == [name.encode()]
            assert request.values(b"x-forwarded-host") == [b"[::1]:8443"]
