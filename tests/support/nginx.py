"""A real nginx on loopback, under a folder of its own: no file outside it is read or written, no service is touched."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.counterparts import require_program
from tests.support.ports import free_port
from tests.support.processes import Child, Children

_CONFIGURATION = """\
daemon off;
master_process off;
worker_processes 1;
{user}
pid {prefix}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 512; }}
http {{
  access_log {prefix}/access.log combined;
  client_body_temp_path {prefix}/body;
  proxy_temp_path {prefix}/proxy;
  fastcgi_temp_path {prefix}/fastcgi;
  scgi_temp_path {prefix}/scgi;
  uwsgi_temp_path {prefix}/uwsgi;
  default_type application/octet-stream;
  types {{ text/html html; application/json json; text/plain txt; }}
  server_tokens off;
  {http}
  server {{
    listen 127.0.0.1:{port};
    root {prefix}/www;
    {server}
  }}
}}
"""


@dataclass(frozen=True, slots=True)
class Nginx:
    """A running nginx. `www` is what it serves where the configuration says nothing else."""

    port: int
    prefix: Path
    child: Child

    @property
    def origin(self) -> str:
        """Its address as an upstream: `http://127.0.0.1:PORT`."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def www(self) -> Path:
        """The folder it serves files from."""
        return self.prefix / "www"

    def access_log(self) -> list[str]:
        """The requests it has finished, one line each."""
        log = self.prefix / "access.log"
        return log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []


def start_nginx(children: Children, folder: Path, *, server: str = "", http: str = "") -> Nginx:
    """Start nginx with `server` inside its one `server` block and `http` before it; returns once it accepts.

    `folder` must be this instance's own. A configuration that nginx refuses fails the test with nginx's words.
    """
    program = require_program("nginx")
    prefix = folder.resolve()
    (prefix / "www").mkdir(parents=True, exist_ok=True)
    port = free_port()
    # Workers of a root nginx would run as `nobody`, who may not enter a private temporary folder.
    user = "user root;" if os.geteuid() == 0 else ""
    configuration = prefix / "nginx.conf"
    configuration.write_text(_CONFIGURATION.format(user=user, prefix=prefix, port=port, http=http, server=server))
    argv = [program, "-p", str(prefix), "-c", str(configuration), "-e", "stderr"]
    check = subprocess.run([*argv, "-t", "-q"], capture_output=True, text=True, timeout=20, check=False)
    assert check.returncode == 0, f"nginx refused its configuration:\n{check.stderr}"
    child = children.start(argv, name="nginx")
    child.wait_for_port(port)
    return Nginx(port, prefix, child)
