"""`gateway-access POLICY`: listen, answer, watch the policy, and end without cutting anyone off."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from common.serving import Server, hand_on_logs, listening_socket
from dataplane.accessservice.app import access_app
from dataplane.accessservice.policy_file import PolicyFile

if TYPE_CHECKING:
    from common.settings.access_service import AccessServiceSettings
    from common.telemetry.log import Log

DRAIN_S = 5
"""A decision takes no time; what is still open after this is a connection that sends nothing."""


async def serve(settings: AccessServiceSettings, path: Path, log: Log) -> int:
    """Run until SIGTERM or SIGINT; the exit code. A second signal does not wait for open connections.

    `PolicyInvalid` or `OSError` when the policy cannot be used; a taken address is logged, with 1.
    """
    policy = PolicyFile(path, log)
    hand_on_logs(log)
    try:
        sock = listening_socket(settings.host, settings.port)
    except OSError as error:
        reason = error.strerror or str(error)
        log.error("cannot listen: free the address or set ACCESS_HOST and ACCESS_PORT", error=reason)
        return 1
    with sock:
        host, port = sock.getsockname()[:2]
        server = Server(access_app(policy.current, settings.token, log), drain_s=DRAIN_S)
        log.info("listening", host=host, port=port, policy=str(path), grants=len(policy.current().grants))
        await _run(server, sock, policy)
    log.info("stopped")
    return 0


async def _run(server: Server, sock: socket.socket, policy: PolicyFile) -> None:
    stop = asyncio.Event()
    server.end_at_signals()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(policy.watch(stop))
        await server.serve(sockets=[sock])
        stop.set()
