"""`gateway run` with several workers: what is made once for all of them, then the supervisor."""

from __future__ import annotations

import gc
import os
import socket
from dataclasses import replace
from typing import TYPE_CHECKING

from common.identity.signature import new_private_key_pem
from common.settings.secret import Secret
from common.state.open import open_state
from common.telemetry.line_writer import LineWriter
from common.telemetry.log import Log
from common.telemetry.turn import Turn
from dataplane.gateway import UNVERIFIABLE
from dataplane.workers.port import reserve_port
from dataplane.workers.supervisor import HANG_AFTER_S, Supervisor
from dataplane.workers.worker import work

if TYPE_CHECKING:
    from common.settings.gateway import GatewaySettings


def serve_several(settings: GatewaySettings, stdout: int, *, hang_after_s: float = HANG_AFTER_S) -> int:
    """Serve with `settings.workers` processes until SIGTERM or SIGINT, drain, and return the exit code.

    Call it before the process has a thread or an event loop: workers are forked from it, later too. The settings are
    those of all of them, for as long as the program runs.
    """
    turn = Turn()
    log = Log(LineWriter(stdout, turn=turn).write, level=settings.log_level)
    try:
        port = reserve_port(settings.host, settings.port)
        tls_port = reserve_port(settings.host, settings.tls_port) if settings.terminates_tls else None
    except OSError as error:
        log.error("cannot listen: free the address or set GATEWAY_HOST, GATEWAY_PORT and GATEWAY_TLS_PORT", exc=error)
        return 1
    if settings.identity_signing_key is None:
        log.warning(UNVERIFIABLE)
        settings = replace(settings, identity_signing_key=Secret(new_private_key_pem()))
    settings = replace(settings, replica_id=settings.replica_id or f"{socket.gethostname()}-{os.getpid()}")
    # Its modules are loaded once for all; nothing is dialled.
    open_state(settings.state_url.reveal())
    # What is shared with the workers stays shared: a collection writes to every object that it looks at.
    gc.collect()
    gc.freeze()
    supervisor = Supervisor(
        settings.workers,
        port,
        lambda place: work(place, settings, stdout, turn),
        log,
        shutdown_timeout_s=settings.shutdown_timeout_s,
        tls_port=tls_port,
        hang_after_s=hang_after_s,
    )
    return supervisor.run()
