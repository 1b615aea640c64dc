"""`gateway-access POLICY`: listen, answer, watch the policy, and end without cutting anyone off."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from dataplane.accessservice.app import access_app
from dataplane.accessservice.policy_file import PolicyFile

if TYPE_CHECKING:
    from common.settings.access_service import AccessServiceSettings
    from common.telemetry.log import Log

DRAIN_S = 5
"""A decision takes no time; what is still open after this is a connection that sends nothing."""
_BACKLOG = 1_024


class _Server(uvicorn.Server):
    """A uvicorn server whose signals are handled here: a stop that was asked for ends with exit code 0."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


async def serve(settings: AccessServiceSettings, path: Path, log: Log) -> int:
    """Run until SIGTERM or SIGINT; the exit code. A second signal does not wait for open connections.

    `PolicyInvalid` or `OSError` when the policy cannot be used; a taken address is logged, with 1.
    """
    policy = PolicyFile(path, log)
    try:
        sock = _listen(settings.host, settings.port)
    except OSError as error:
        reason = error.strerror or str(error)
        log.error("cannot listen: free the address or set ACCESS_HOST and ACCESS_PORT", error=reason)
        return 1
    with sock:
        host, port = sock.getsockname()[:2]
        server = _Server(
            uvicorn.Config(
                access_app(policy.current, settings.token, log),
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=DRAIN_S,
            )
        )
        log.info("listening", host=host, port=port, policy=str(path), grants=len(policy.current().grants))
        await _run(server, sock, policy)
    log.info("stopped")
    return 0


async def _run(server: uvicorn.Server, sock: socket.socket, policy: PolicyFile) -> None:
    stop = asyncio.Event()

    def end() -> None:
        server.force_exit = server.should_exit
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(policy.watch(stop))
        await server.serve(sockets=[sock])
        stop.set()


def _listen(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock
