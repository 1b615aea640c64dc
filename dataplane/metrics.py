"""Every metric of the data plane, with bounded labels (§12.1, CONTRACT §12.1).

One attribute a metric, named after it without `gateway_` and without unit and `_total`. A route's id, a method and a
status may be passed as they are: each instrument bounds them itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from common.telemetry.metrics import AtMost, Bound, Counter, Gauge, Histogram, Instrument, Registry, one_of

ROUTES_MAX = 500
"""Routes with a series of their own; further ones share `overflow`."""

METHODS = (
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE",
    "PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH",
)  # fmt: skip

# The statuses registered for HTTP (RFC 9110 §15 and the RFCs that add to it), and 499, the gateway's own. An upstream
# may send any number: all others share a series.
STATUSES = (
    100, 101, 102, 103, 200, 201, 202, 203, 204, 205, 206, 207, 208, 226, 300, 301, 302, 303, 304, 305, 307, 308,
    400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418, 421, 422, 423, 424,
    425, 426, 428, 429, 431, 451, 499, 500, 501, 502, 503, 504, 505, 506, 507, 508, 511,
)  # fmt: skip

AUTH_FAILURE_REASONS = ("missing", "invalid", "expired", "missing_role", "access_denied", "cross_site")
LOGIN_RESULTS = ("started", "completed", "failed", "unavailable")
ACCESS_RESULTS = ("allow", "deny", "unavailable", "rejected")
ACCESS_CACHE_RESULTS = ("hit", "miss", "shared", "stale")
UPSTREAM_FAILURE_KINDS = ("connect", "tls", "timeout", "attempt", "reset", "malformed")
ABORTED_SIDES = ("downstream", "upstream")
RATE_LIMIT_SCOPES = ("deployment", "client", "route", "principal", "login")
RATE_LIMIT_FALLBACKS = ("local", "deny", "allow")
WEBSOCKET_CLOSE_REASONS = ("downstream", "upstream", "revalidation", "idle", "message_size", "drain", "error")
RELOAD_RESULTS = ("ok", "failed")
WORKER_STATES = ("ready", "silent", "starting", "waiting")
WORKER_END_REASONS = ("exit", "signal", "hang")
STATE_OPERATIONS = (
    "create_session", "read_session", "touch_session", "delete_session", "delete_subject_sessions",
    "check_budgets", "read_decision", "write_decision", "beat", "list_heartbeats", "take_lease", "renew_lease",
    "release_lease", "publish_challenge", "read_challenge", "withdraw_challenge", "read_table",
    "decisions_dropped", "read_sealed", "write_sealed",
)  # fmt: skip
STATE_RESULTS = ("ok", "unavailable", "foreign")

# An outage grace is minutes, not milliseconds.
STALE_AGE_BUCKETS = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)


class GatewayMetrics:
    """The data plane's instruments. Every label value comes from the configuration or from a fixed set."""

    def __init__(self) -> None:
        self.route_label: Bound = AtMost(ROUTES_MAX, always=("unmatched", "gateway"))
        """The bounded label of a route's id: itself, `unmatched`, `gateway`, or `overflow`."""
        self._define_requests()
        self._define_authentication()
        self._define_access()
        self._define_upstreams()
        self._define_limits()
        self._define_websockets()
        self._define_process()
        self._define_workers()
        self.registry = Registry(self.instruments())

    def render(self) -> bytes:
        """The Prometheus text of everything, the process's own figures included."""
        return self.registry.render()

    def instruments(self) -> Iterator[Instrument]:
        """Every instrument, in the order of definition."""
        return (value for value in vars(self).values() if isinstance(value, Counter | Gauge | Histogram))

    def _counter(self, name: str, description: str, **labels: Bound) -> Counter:
        return Counter(name, description, tuple(labels), bounds=labels)

    def _define_requests(self) -> None:
        route = self.route_label
        self.requests = self._counter(
            "gateway_requests_total",
            "Requests answered, by the status the caller saw (499: it left before a response head).",
            route=route,
            method=one_of(METHODS),
            status=one_of(STATUSES),
        )
        self.request_duration = Histogram(
            "gateway_request_duration_seconds",
            "From the first byte of a request to the last of its response.",
            ("route",),
            bounds={"route": route},
        )
        self.active_requests = Gauge("gateway_active_requests", "Requests inside the gateway.")
        self.active_exchanges = Gauge("gateway_active_exchanges", "Requests that hold an upstream exchange.")
        self.connections = Gauge("gateway_connections", "Open connections of callers.")
        self.aborted = self._counter(
            "gateway_aborted_total",
            "Exchanges that ended before their response did, by the side that broke off.",
            route=route,
            side=one_of(ABORTED_SIDES),
        )

    def _define_authentication(self) -> None:
        self.auth_failures = self._counter(
            "gateway_auth_failures_total",
            "Requests refused for who made them.",
            route=self.route_label,
            reason=one_of(AUTH_FAILURE_REASONS),
        )
        self.logins = self._counter("gateway_logins_total", "Browser logins.", result=one_of(LOGIN_RESULTS))
        self.logins.start(*((result,) for result in LOGIN_RESULTS))

    def _define_access(self) -> None:
        self.access_requests = self._counter(
            "gateway_access_requests_total", "Calls of Access, by what it answered.", result=one_of(ACCESS_RESULTS)
        )
        self.access_requests.start(*((result,) for result in ACCESS_RESULTS))
        self.access_duration = Histogram("gateway_access_duration_seconds", "Duration of the calls of Access.")
        self.access_cache = self._counter(
            "gateway_access_cache_total",
            "Decisions by where they came from: hit, miss, shared with a call in flight, or stale.",
            result=one_of(ACCESS_CACHE_RESULTS),
        )
        self.access_cache.start(*((result,) for result in ACCESS_CACHE_RESULTS))
        self.access_breaker_open = Gauge(
            "gateway_access_breaker_open", "1 while Access is not called, because calls of it failed.", joined="max"
        )
        self.access_stale = self._counter(
            "gateway_access_stale_total",
            "Requests served on a decision older than its lifetime.",
            route=self.route_label,
        )
        self.access_stale_age = Histogram(
            "gateway_access_stale_age_seconds",
            "Age of the decisions served while Access was away.",
            ("route",),
            STALE_AGE_BUCKETS,
            bounds={"route": self.route_label},
        )

    def _define_upstreams(self) -> None:
        route = self.route_label
        self.upstream_duration = Histogram(
            "gateway_upstream_duration_seconds",
            "From the choice of an upstream to the end of its response.",
            ("route",),
            bounds={"route": route},
        )
        self.upstream_failures = self._counter(
            "gateway_upstream_failures_total",
            "Attempts at an upstream that failed before a response head.",
            route=route,
            kind=one_of(UPSTREAM_FAILURE_KINDS),
        )
        self.upstreams_skipped = self._counter(
            "gateway_upstreams_skipped_total", "Requests sent past an upstream that failed recently.", route=route
        )

    def _define_limits(self) -> None:
        self.rate_limited = self._counter(
            "gateway_rate_limited_total",
            "Requests refused by a budget.",
            scope=one_of(RATE_LIMIT_SCOPES),
            route=self.route_label,
        )
        self.rate_limit_fallback = self._counter(
            "gateway_rate_limit_fallback_total",
            "Checks of budgets made without the shared state.",
            mode=one_of(RATE_LIMIT_FALLBACKS),
        )
        self.rate_limit_fallback.start(*((mode,) for mode in RATE_LIMIT_FALLBACKS))

    def _define_websockets(self) -> None:
        self.websockets = Gauge("gateway_websockets", "Open WebSockets.")
        self.websocket_closed = self._counter(
            "gateway_websocket_closed_total",
            "WebSockets that ended, by the side or the guard that ended them.",
            route=self.route_label,
            reason=one_of(WEBSOCKET_CLOSE_REASONS),
        )

    def _define_process(self) -> None:
        self.config_reloads = self._counter(
            "gateway_config_reloads_total",
            "Route tables read, by whether they were taken.",
            result=one_of(RELOAD_RESULTS),
        )
        self.config_reloads.start(*((result,) for result in RELOAD_RESULTS))
        self.config_revision = Gauge(
            "gateway_config_revision", "Revision of the route table; 0 for a file.", joined="min"
        )
        self.trusted_proxies = Gauge("gateway_trusted_proxies", "Trusted proxy ranges in force.", joined="max")
        self.certificate_expiry_timestamp = Gauge(
            "gateway_certificate_expiry_timestamp_seconds",
            "When the certificate that is served for a name expires, in seconds since 1970.",
            ("name",),
            joined="min",
        )
        self.state_up = Gauge("gateway_state_up", "1 while the shared state answers.", joined="min")
        self.state_operations = self._counter(
            "gateway_state_operations_total",
            "Operations of the shared state; foreign: one met a value that is not ours. A batch counts once.",
            operation=one_of(STATE_OPERATIONS),
            result=one_of(STATE_RESULTS),
        )
        self.state_duration = Histogram(
            "gateway_state_duration_seconds",
            "Duration of the operations of the shared state.",
            ("operation",),
            bounds={"operation": one_of(STATE_OPERATIONS)},
        )

    def _define_workers(self) -> None:
        self.workers = Gauge(
            "gateway_workers",
            "Workers of this gateway, where there are several; silent: its numbers are those of an earlier scrape.",
            ("state",),
            bounds={"state": one_of(WORKER_STATES)},
        )
        self.worker_ends = self._counter(
            "gateway_worker_ends_total",
            "Workers that ended while the gateway ran; each is replaced.",
            reason=one_of(WORKER_END_REASONS),
        )
