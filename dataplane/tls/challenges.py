"""`gateway-challenges`: answers an authority's `http-01` challenges from the shared state, and nothing else (§11.5.2).

For a deployment whose ingress publishes port 80 elsewhere than at the gateway. It stands at the edge, so it reads its
callers through the gateway's own listener: the same strict reader, budgets and bounds.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

import typer

from common.programs import run_program
from common.settings.challenges import ChallengesSettings, load_challenges_settings
from common.settings.errors import SettingsInvalid
from common.state.open import StateOptions, open_state
from common.state.ports import StateMisconfigured
from common.telemetry.log import Log
from common.telemetry.request_id import request_id
from common.telemetry.state_watch import StateMetrics
from common.telemetry.trace import continue_trace
from dataplane.accept import prefers_html
from dataplane.endpoints.challenges import CHALLENGE_PREFIX, challenge_reply
from dataplane.endpoints.operations import healthz
from dataplane.errors import GatewayError
from dataplane.metrics import GatewayMetrics
from dataplane.net.listener import HttpListener
from dataplane.net.shared import ConnectionLimits
from dataplane.net.tasks import TaskKeeper
from dataplane.net.timers import TimerWheel
from dataplane.record import Recorder
from dataplane.replies import Reply, error_reply, json_reply

if TYPE_CHECKING:
    from common.state.ports import State
    from dataplane.exchange import Exchange
    from dataplane.http1.heads import ProtocolError

HELP = """Answer an authority's http-01 challenges from the shared state of the gateways.

\b
Examples:
  GATEWAY_STATE_URL=redis://redis:6379/0 gateway-challenges
  GATEWAY_STATE_URL_FILE=/run/secrets/state GATEWAY_CHALLENGES_PORT=80 gateway-challenges

\b
GET /.well-known/acme-challenge/<token>   the published answer; 404 for another token, 503 while the state is away
GET /healthz                              200 while the process runs
GET /readyz                               200 while the state answers, else 503

Lead port 80 of the certificate's names here where it does not lead to the gateway. Variables: GATEWAY_CHALLENGES_HOST,
GATEWAY_CHALLENGES_PORT (8082), GATEWAY_LOG_LEVEL, and the gateway's of the shared state; docs/configuration.md has them
all. SIGTERM and SIGINT drain. Exit codes: 0 done, 1 refused or failed, 2 wrong usage.
"""

DRAIN_S = 5.0
"""An answer takes no time; what is still open after this sends nothing."""
# An authority asks with a small head, a few times in a minute, and keeps no connection.
LIMITS = ConnectionLimits(
    head_max_bytes=8_192, max_headers=50, head_timeout_s=5.0, keepalive_timeout_s=5.0, max_connections=1_000
)

app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)


def main() -> None:
    """The program `gateway-challenges`."""
    run_program(app, "gateway-challenges")


@app.command(help=HELP)
def gateway_challenges() -> None:
    from common.telemetry.line_writer import LineWriter

    try:
        settings = load_challenges_settings(os.environ)
    except SettingsInvalid as invalid:
        for problem in invalid.problems:
            typer.echo(f"gateway-challenges: {problem}", err=True)
        raise typer.Exit(1) from None
    writer = LineWriter(sys.stdout.fileno())
    log = Log(writer.write, level=settings.log_level)

    async def run() -> int:
        loop = asyncio.get_running_loop()
        writer.attach(loop)
        ended = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ended.set)
        return await serve(settings, log, ended)

    try:
        code = asyncio.run(run())
    finally:
        writer.close()
    raise typer.Exit(code)


async def serve(settings: ChallengesSettings, log: Log, ended: asyncio.Event) -> int:
    """Answer until `ended` is set, then drain; the exit code."""
    responder = Responder(settings, log)
    try:
        await responder.start()
    except StateMisconfigured as refused:
        log.error(f"the shared state refuses this responder: {refused}")
        await responder.stop()
        return 1
    except OSError as error:
        log.error(
            "cannot listen: free the address or set GATEWAY_CHALLENGES_HOST and GATEWAY_CHALLENGES_PORT", exc=error
        )
        await responder.stop()
        return 1
    await ended.wait()
    await responder.stop()
    return 0


class Responder:
    """A `Handler` of three paths over one listener. `start`, then `stop` once."""

    def __init__(self, settings: ChallengesSettings, log: Log) -> None:
        self._settings = settings
        self._log = log
        metrics = GatewayMetrics()
        url = settings.state_url.reveal()
        options = StateOptions(
            prefix=settings.state_prefix,
            timeout_s=settings.state_timeout_s,
            redis_sentinel_master=settings.redis_sentinel_master,
        )
        self._state: State = open_state(url, options, watch=StateMetrics(metrics, log, url.partition(":")[0]))
        self._wheel = TimerWheel(time.monotonic)
        self._tasks = TaskKeeper(lambda name, error: log.error("a task died", task=name, exc=error))
        self._listener = HttpListener(self, LIMITS, self._wheel, self._tasks, fast_lane=True)
        self._recorder = Recorder(log.requests(), metrics, time.monotonic)

    @property
    def port(self) -> int:
        """The port that is listened on; after `start`."""
        return self._listener.port

    async def start(self) -> None:
        """Connect and listen. `OSError` when the address is taken, `StateMisconfigured` when the state refuses this."""
        self._wheel.start()
        await self._state.start()
        await self._listener.start(self._settings.challenges_host, self._settings.challenges_port)
        self._log.info("listening", host=self._settings.challenges_host, port=self.port)

    async def stop(self) -> None:
        """Drain, then release everything."""
        await self._listener.drain(DRAIN_S, _nothing)
        await self._state.close()
        self._wheel.stop()
        self._log.info("stopped")

    async def handle(self, x: Exchange) -> None:
        """See `dataplane.net.connection.Handler`."""
        self._identify(x)
        try:
            reply = await self._reply(x)
        except GatewayError as error:
            reply = self._refusal(x, error)
        except asyncio.CancelledError:
            x.outcome = "aborted"
            raise
        except Exception as error:  # noqa: BLE001 (a bug answers 500 and is told; the next request is served)
            self._log.error("unexpected failure", requestId=x.request_id, error=type(error).__name__)
            reply = self._refusal(x, GatewayError("internal_error", f"{type(error).__name__} in the responder"))
        self._answer(x, reply)

    def refuse_head(self, x: Exchange, error: ProtocolError) -> None:
        """See `dataplane.net.connection.Handler`."""
        self._identify(x)
        self._answer(x, self._refusal(x, GatewayError(error.code, error.reason)))

    async def _reply(self, x: Exchange) -> Reply:
        path = x.head.path
        if x.head.method not in ("GET", "HEAD"):
            raise GatewayError("not_found", "only GET and HEAD are answered")
        if path.startswith(CHALLENGE_PREFIX):
            return await challenge_reply(self._state, path)
        if path == "/healthz":
            return healthz()
        if path == "/readyz":
            up = self._state.up
            body = {"status": "ready" if up else "not_ready", "state": {"up": up, "backend": self._state.backend}}
            return json_reply(200 if up else 503, body, () if up else ((b"retry-after", b"5"),))
        raise GatewayError("not_found", "neither a challenge nor a probe")

    def _identify(self, x: Exchange) -> None:
        x.request_id = request_id(x.head.values(b"x-request-id"))
        x.trace = continue_trace(x.head.values(b"traceparent"), x.head.values(b"tracestate"))
        x.route_id = "gateway"

    def _refusal(self, x: Exchange, error: GatewayError) -> Reply:
        x.error = error.code
        x.error_detail = error.detail
        x.outcome = "failed" if error.spec.status >= 500 else "refused"
        return error_reply(error, x.request_id, as_page=prefers_html(x.head.values(b"accept")))

    def _answer(self, x: Exchange, reply: Reply) -> None:
        x.status = reply.status
        x.bytes_out += x.connection.send_reply(reply, [(b"x-request-id", x.request_id.encode("ascii"))])
        self._recorder.record(x)


async def _nothing() -> None:
    """There is nothing to end in order before what is left is cut."""
