"""What every contender of a run shares: the upstream, the request, and a way to start programs on the right core."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from dataplane.dev.accounts import WORKSPACE_ID
from tests.bench.machine import BenchError, cores, cpu_s, find, pinned
from tests.support.ports import free_port
from tests.support.processes import Child, ChildFailed, Children

ROOT = Path(__file__).parents[2]

PREFIX = f"/workspaces/{WORKSPACE_ID}"
"""Every request is one of the demo workspace, which the reference Access service lets the demo's member use."""
SMALL, TEN_KB, ONE_MB, ECHO = (f"{PREFIX}/{name}" for name in ("items", "10kB", "1MB", "echo"))

SMALL_BODY = ("An answer of one hundred and ninety-one bytes, as many an API gives. " * 3)[:191]

# What a browser's script sends with a request, beside the credential.
REQUEST_HEADERS = (
    "accept: application/json",
    "accept-encoding: gzip, br",
    "accept-language: en",
    "user-agent: Mozilla/5.0 (X11; Linux x86_64) bench",
)

ECHOED = (
    "host", "x-request-id", "traceparent", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host",
    "x-gateway-authenticated", "x-gateway-user-id", "x-gateway-email", "x-gateway-roles", "x-gateway-workspace-id",
    "x-gateway-signature", "cookie", "authorization",
)  # fmt: skip

NGINX = """\
daemon off;
master_process off;
{user}
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 16384; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  scgi_temp_path {folder}/scgi;
  uwsgi_temp_path {folder}/uwsgi;
  sendfile on;
  tcp_nopush on;
  open_file_cache max=16;
  keepalive_timeout 600s;
  keepalive_requests 1000000000;
  default_type text/plain;
  {http}
  server {{
    listen 127.0.0.1:{port};
    location = /bench-status {{ stub_status; }}
    {server}
  }}
}}
"""


@dataclass
class Started:
    """A contender that runs. `headers` are what its request carries beside `REQUEST_HEADERS`."""

    child: Child
    origin: str
    headers: tuple[str, ...] = ()
    log: Path | None = None
    """Where it writes a line a request, if it does."""

    @property
    def pid(self) -> int:
        return self.child.pid

    def get(self, path: str, *, credential: bool = True) -> httpx.Response:
        """One request as wrk sends it, or without what identifies its caller."""
        lines = (*REQUEST_HEADERS, *(self.headers if credential else ()))
        sent = dict(line.split(": ", 1) for line in lines)
        with httpx.Client(trust_env=False, timeout=10) as client:
            return client.get(self.origin + path, headers=sent)


@dataclass
class Nginx:
    """An nginx of the benchmark's own configuration, one process."""

    child: Child
    port: int
    _asked: int = field(default=0, repr=False)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def requests(self) -> int:
        """How many requests it has read, those for this number left out."""
        numbers = httpx.get(f"{self.origin}/bench-status", trust_env=False).text.split("\n")[2].split()
        self._asked += 1
        return int(numbers[2]) - self._asked


@dataclass
class Stage:
    """One run's processes, folder and cores."""

    children: Children
    folder: Path
    upstream: Nginx = field(init=False)
    groups: list[int] = field(default_factory=list)
    """The process groups of everything that was started."""

    def __post_init__(self) -> None:
        pair = cores()
        self.contender_core = None if pair is None else pair[0]
        self.other_core = None if pair is None else pair[1]
        self.upstream = self.nginx("upstream", self.other_core, _upstream_server(self._files()))

    def start(
        self,
        name: str,
        argv: Sequence[str | Path],
        core: int | None,
        *,
        port: int,
        env: Mapping[str, str] | None = None,
        output: Path | None = None,
    ) -> Child:
        """Start a program on a core; returns once it accepts on `port`. `output` takes its standard output."""
        command = pinned(argv, core)
        if output is not None:
            command = ["sh", "-c", 'out=$0; exec "$@" >>"$out"', str(output), *command]
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("GATEWAY_", "ACCESS_"))}
        child = self.children.start(command, name=name, env={**inherited, **(env or {})}, cwd=ROOT)
        self.groups.append(child.pid)
        try:
            child.wait_for_port(port, within_s=30)
        except ChildFailed as failed:
            raise BenchError(str(failed)) from failed
        return child

    def spent_s(self) -> float:
        """CPU seconds that the benchmark itself has used: this process, the load, and everything on the stage."""
        return sum(os.times()[:4]) + sum(map(cpu_s, self.groups))

    def nginx(self, name: str, core: int | None, server: str, http: str = "") -> Nginx:
        folder = self.folder / name
        folder.mkdir()
        port = free_port()
        # As root its worker would become `nobody`, who may not enter a private folder.
        user = "user root;" if os.geteuid() == 0 else ""
        configuration = folder / "nginx.conf"
        configuration.write_text(NGINX.format(user=user, folder=folder, port=port, http=http, server=server))
        argv: list[str | Path] = [find("nginx", "nginx-light"), "-p", folder, "-c", configuration, "-e", "stderr"]
        return Nginx(self.start(name, argv, core, port=port), port)

    def _files(self) -> Path:
        folder = self.folder / "files"
        folder.mkdir()
        (folder / "10kB").write_bytes(b"x" * 10_000)
        (folder / "1MB").write_bytes(b"x" * 1_000_000)
        return folder


def _upstream_server(files: Path) -> str:
    echoed = ",".join(f'"{name}":"$http_{name.replace("-", "_")}"' for name in ECHOED)
    return f"""
    location / {{ return 200 "{SMALL_BODY}"; }}
    location = {ECHO} {{ default_type application/json; return 200 '{{{echoed}}}'; }}
    location = {TEN_KB} {{ alias {files}/10kB; }}
    location = {ONE_MB} {{ alias {files}/1MB; }}
    """


@contextlib.contextmanager
def stage() -> Iterator[Stage]:
    """A stage for the length of a `with` block; everything started on it is stopped."""
    with TemporaryDirectory(prefix="wicketgate-bench-") as folder, Children() as children:
        yield Stage(children, Path(folder))
