"""The data plane put together: every part built once, with what it needs handed to it, and an orderly start and end."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Literal

from common.identity.signature import IdentitySigner
from common.routetable.paths import AmbiguousPath
from common.routetable.upstreams import parse_upstream
from common.state.budgets import BudgetTable
from common.state.open import StateOptions, open_state
from common.telemetry.state_watch import StateMetrics
from common.telemetry.trace import not_sampled
from dataplane.access.breaker import Breaker
from dataplane.access.client import AccessClient
from dataplane.access.drops import DecisionDrops
from dataplane.access.shared import SharedDecisions
from dataplane.access.transport import PooledAccessTransport
from dataplane.admission import Admission
from dataplane.authentication.build import build_authentication
from dataplane.crosssite import CrossSiteGuard
from dataplane.dispatcher import Dispatcher
from dataplane.endpoints.operations import healthz, metrics_reply, open_metrics, readyz
from dataplane.endpoints.router import Endpoints
from dataplane.limits import DeploymentBudgets, Limiter, LoginLimit, PrincipalLimit, RequestLimits
from dataplane.metrics import GatewayMetrics
from dataplane.net.listener import HttpListener
from dataplane.net.shared import ConnectionLimits
from dataplane.net.tasks import TaskKeeper
from dataplane.net.timers import TimerWheel
from dataplane.record import Recorder
from dataplane.reload.file_table import FileTable
from dataplane.reload.store_table import StoreTable
from dataplane.tls.redirect import TlsRedirect
from dataplane.tls.termination import Termination
from dataplane.upstream.breaker import UpstreamBreaker
from dataplane.upstream.client import PooledClient
from dataplane.upstream.exchange import Forwarder
from dataplane.upstream.pool import UpstreamPool
from dataplane.upstream.tls import UpstreamTls
from dataplane.websocket.connections import Connections
from dataplane.websocket.opened import Surroundings
from dataplane.websocket.revalidation import Revalidation
from dataplane.websocket.step import Guards, WebSocketStep
from dataplane.workspace import WorkspaceStep

if TYPE_CHECKING:
    from common.settings.gateway import GatewaySettings
    from common.state.ports import State
    from common.telemetry.log import Log
    from dataplane.exchange import Exchange
    from dataplane.reload.source import TableSource
    from dataplane.replies import Reply
    from dataplane.spans import Spans
    from dataplane.tls.acme.termination import AuthorityTermination


UNVERIFIABLE = (
    "identities are signed with a key made for this process: upstreams cannot verify them. "
    "Set GATEWAY_IDENTITY_SIGNING_KEY (gateway identity-key makes one)."
)


class Gateway:
    """One data plane in this process. `start`, then `stop` once; requests are served in between."""

    def __init__(
        self,
        settings: GatewaySettings,
        log: Log,
        *,
        clock: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        collect: Callable[[], Awaitable[bytes]] | None = None,
        spans: Spans | None = None,
    ) -> None:
        """`collect` gives the metrics of several processes, in place of this one's; `spans` takes those of requests."""
        self.settings = settings
        self.log = log
        self.metrics = GatewayMetrics()
        self._collect = collect
        self._spans = spans
        self.wheel = TimerWheel(clock)
        self.state = self._open_state(now_ms)
        self.tasks = TaskKeeper(self._task_died)
        self.configuration = self._build_table()
        self.termination = self._build_termination(now_ms)
        self._upstream_tls = UpstreamTls(settings, log, self.metrics, now_ms=now_ms)
        self._pool = UpstreamPool(
            self.wheel,
            tls=self._upstream_tls.context,
            max_idle=settings.upstream_pool_max,
            idle_s=settings.upstream_pool_idle_s,
            fast_lane=settings.http_fast_lane,
        )
        self._access = self._build_access(clock)
        self._drops = None
        if self._access is not None and self.state.shared:
            self._drops = DecisionDrops(self.state, self._access.forget, log)
        self._signer = self._build_signer()
        self.websockets = Connections(settings.ws_max_connections, settings.ws_max_per_principal)
        self._dispatcher = self._build_dispatcher(clock)
        self._listener = HttpListener(
            self._dispatcher,
            ConnectionLimits(
                head_max_bytes=settings.max_head_bytes,
                max_headers=settings.max_headers,
                head_timeout_s=settings.head_timeout_s,
                keepalive_timeout_s=settings.keepalive_timeout_s,
                max_connections=settings.max_connections,
            ),
            self.wheel,
            self.tasks,
            fast_lane=settings.http_fast_lane,
        )
        self.metrics.connections.read_from(lambda: self._listener.open_connections)
        self.metrics.websockets.read_from(lambda: len(self.websockets.open))
        self.metrics.state_up.read_from(lambda: int(self.state.up))

    @property
    def port(self) -> int:
        """The port that is listened on; after `start`."""
        return self._listener.port

    @property
    def tls_port(self) -> int:
        """The port of TLS; after `start`, where the gateway has certificates."""
        return self._listener.tls_port

    @property
    def draining(self) -> bool:
        return self._listener.draining

    async def start(self, sockets: Sequence[socket.socket] = (), tls_sockets: Sequence[socket.socket] = ()) -> None:
        """Connect to the state, load the table where there is a valid one, read the certificates, then listen; on
        sockets where they are given, which are bound already.

        Raises `CertificateRefused` for one that cannot be served, `OSError` when an address is taken and
        `StateMisconfigured` when the state refuses this process. A state that is away is none of these: readiness
        says so until it answers.
        """
        self.wheel.start()
        await self._upstream_tls.start()
        await self.state.start()
        if self._drops is not None:
            await self._drops.start()
        await self.configuration.start()
        if self.termination is not None:
            await self.termination.start()
        settings = self.settings
        await self._listener.start(settings.host, settings.port, sockets)
        if self.termination is not None:
            store = self.termination.store
            await self._listener.start_tls(
                settings.host, settings.tls_port, tls_sockets, context=lambda: store.context, log=self.log
            )
            self.log.info("listening for TLS", host=settings.host, port=self.tls_port)
        self.log.info("listening", host=settings.host, port=self.port, production=settings.production)

    async def reload(self) -> None:
        """Read anew what the settings name: the route table, the certificates. What is not valid changes nothing and is
        reported.
        """
        await self.configuration.reload_now()
        if self.termination is not None:
            await self.termination.reload()
        await self._upstream_tls.reload()

    async def stop(self) -> None:
        """Drain within `GATEWAY_SHUTDOWN_TIMEOUT_MS`, then release everything."""
        self.log.info("draining", timeoutMs=round(self.settings.shutdown_timeout_s * 1000))
        # An order that is under way is ended beside the drain, while the state can still be written.
        ending = asyncio.gather(self.termination.stop()) if self.termination is not None else None
        await self._listener.drain(self.settings.shutdown_timeout_s, self.websockets.close_all)
        if ending is not None:
            await ending
        await self.configuration.stop()
        await self._upstream_tls.stop()
        if self._drops is not None:
            await self._drops.stop()
        if self._access is not None:
            await self._access.close()
        await self._authentication.close()
        self._pool.close()
        await self.state.close()
        if self._spans is not None:
            await self._spans.close()
        self.wheel.stop()
        self.log.info("stopped")

    def _build_termination(self, now_ms: Callable[[], int]) -> Termination | AuthorityTermination | None:
        settings = self.settings
        if settings.tls_cert:
            return Termination(settings, self.log, self.metrics, now_ms=now_ms)
        if settings.acme_directory:
            # Its library takes a quarter of a second to import, which others need not wait for.
            from dataplane.tls.acme.termination import AuthorityTermination

            return AuthorityTermination(settings, self.state, self.log, self.metrics, now_ms=now_ms)
        return None

    def _open_state(self, now_ms: Callable[[], int]) -> State:
        settings = self.settings
        url = settings.state_url.reveal()
        options = StateOptions(
            prefix=settings.state_prefix,
            timeout_s=settings.state_timeout_s,
            redis_sentinel_master=settings.redis_sentinel_master,
            postgres_pool_max=settings.postgres_pool_max,
            postgres_synchronous_commit=settings.postgres_synchronous_commit == "on",
        )
        watch = StateMetrics(self.metrics, self.log, url.partition(":")[0])
        return open_state(url, options, watch=watch, now_ms=now_ms)

    def _build_table(self) -> TableSource:
        if self.settings.config_source == "file":
            return FileTable(self.settings, self.log, self.metrics)
        replica = self.settings.replica_id or f"{socket.gethostname()}-{os.getpid()}"
        return StoreTable(self.settings, self.state, self.log, self.metrics, replica=replica)

    def _build_access(self, clock: Callable[[], float]) -> AccessClient | None:
        settings = self.settings
        if not settings.access_url:
            return None
        client = PooledClient(
            self._pool, self.wheel, parse_upstream(settings.access_url, version=2), timeout_s=settings.access_timeout_s
        )
        return AccessClient(
            PooledAccessTransport(client, settings.access_token),
            url=settings.access_url,
            timeout_s=settings.access_timeout_s,
            cache_max=settings.access_cache_max,
            breaker=Breaker(settings.access_breaker_failures, settings.access_breaker_cooldown_s),
            metrics=self.metrics,
            log=self.log,
            shared=SharedDecisions(self.state, clock) if self.state.shared else None,
            clock=clock,
        )

    def _build_signer(self) -> IdentitySigner:
        key = self.settings.identity_signing_key
        if key is None:
            self.log.warning(UNVERIFIABLE)
            return IdentitySigner()
        return IdentitySigner(key.reveal())

    def _build_dispatcher(self, clock: Callable[[], float]) -> Dispatcher:
        settings, metrics, log = self.settings, self.metrics, self.log
        budgets = DeploymentBudgets.of(settings)
        limiter = Limiter(
            self.state, BudgetTable(), fallback=settings.rate_limit_fallback, metrics=metrics, log=log, clock=clock
        )
        cross_site = CrossSiteGuard(settings.allowed_origins, strict=settings.csrf_strict, metrics=metrics)
        self._authentication = build_authentication(
            settings,
            self.state,
            metrics,
            log,
            login_limit=LoginLimit(limiter, budgets),
            lands_strict=lambda x, target: lands_strict(x, target, cross_site),
            clock=clock,
        )
        admission = Admission(settings.max_pending_requests, "requests inside the gateway")
        slots = Admission(settings.max_concurrent_requests, "exchanges with upstreams")
        metrics.active_requests.read_from(lambda: admission.active)
        metrics.active_exchanges.read_from(lambda: slots.active)
        breaker = UpstreamBreaker(settings.upstream_breaker_failures, settings.upstream_breaker_cooldown_s)
        forward = Forwarder(
            pool=self._pool,
            breaker=breaker,
            wheel=self.wheel,
            slots=slots,
            signer=self._signer,
            metrics=metrics,
            log=log,
            on_response=admission.leave_once,
        )
        return Dispatcher(
            settings=settings,
            configuration=self.configuration,
            endpoints=Endpoints(
                operations={"/healthz": lambda _: healthz(), "/readyz": self._readyz, "/metrics": self._metrics_text},
                challenges=self.state if settings.acme_directory and settings.acme_challenge == "http-01" else None,
                authentication=self._authentication.endpoints,
            ),
            admission=admission,
            limits=RequestLimits(limiter, budgets),
            ask_ahead=self._authentication.step.ask_ahead,
            authenticate=self._authentication.step,
            principal_limit=PrincipalLimit(limiter, budgets),
            cross_site=cross_site,
            workspace=WorkspaceStep(self._access, metrics),
            forward=forward,
            open_websocket=self._build_websockets(breaker, slots, admission),
            to_tls=self._build_redirect(),
            metrics=metrics,
            recorder=Recorder(log.requests(), metrics, clock, self._spans),
            new_flags=not_sampled if self._spans is None else self._spans.new_flags,
            log=log,
        )

    def _build_redirect(self) -> TlsRedirect | None:
        if self.termination is None:
            return None
        certifies = self.termination.store.certifies
        return TlsRedirect(certifies, self.settings.public_url, lambda: self.tls_port)

    def _build_websockets(self, breaker: UpstreamBreaker, slots: Admission, admission: Admission) -> WebSocketStep:
        settings = self.settings
        return WebSocketStep(
            pool=self._pool,
            breaker=breaker,
            slots=slots,
            signer=self._signer,
            connections=self.websockets,
            guards=Guards(
                handshake_s=settings.ws_handshake_timeout_s,
                max_message_bytes=settings.ws_max_message_bytes,
                idle_s=settings.ws_idle_timeout_s,
            ),
            around=Surroundings(
                wheel=self.wheel,
                tasks=self.tasks,
                revalidation=Revalidation(self.configuration, self.state, self._access),
                revalidate_s=settings.ws_revalidate_interval_s,
                metrics=self.metrics,
                log=self.log,
            ),
            on_response=admission.leave_once,
        )

    def _readyz(self, _: Exchange) -> Reply:
        return readyz(
            ServedConfiguration(self.configuration),
            self.state,
            draining=self.draining,
            certificates=None if self.termination is None else self.termination.status(),
        )

    def _metrics_text(self, x: Exchange) -> Reply | Awaitable[Reply]:
        open_metrics(x.head.values(b"authorization"), self.settings.metrics_token)
        return metrics_reply(self.metrics.render()) if self._collect is None else self._metrics_of_all(self._collect)

    async def _metrics_of_all(self, collect: Callable[[], Awaitable[bytes]]) -> Reply:
        return metrics_reply(await collect())

    def _task_died(self, name: str, error: BaseException) -> None:
        self.log.error("a task died", task=name, exc=error)


def lands_strict(x: Exchange, target: str, guard: CrossSiteGuard) -> bool:
    """Whether the route of `target`, a path of the gateway's own origin, refuses navigations from other sites."""
    path = target.partition("#")[0].partition("?")[0]
    try:
        match = x.snapshot.table.match(x.forwarding.hostname, path, "GET")
    except AmbiguousPath:
        return False
    return match is not None and guard.is_strict(match.route)


class ServedConfiguration:
    """What readiness says of a table source."""

    def __init__(self, source: TableSource) -> None:
        snapshot = source.current
        self.loaded = snapshot is not None
        self.source: Literal["file", "store"] = "file" if snapshot is None else snapshot.source
        self.revision = 0 if snapshot is None else snapshot.revision
        self.generation = source.generation
        self.last_error = source.last_error
