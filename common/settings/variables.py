"""Every variable of the data plane as one table: the loader reads it, and the reference is written from it."""

from __future__ import annotations

from common.settings import parsers as p
from common.settings.acme import ACME
from common.settings.parsers import Boolean, Choice, Integer, Milliseconds, Seconds
from common.settings.variable import Section, Variable
from common.settings.variable import named as _named

DAY_MS = 86_400_000
YEAR_MS = 365 * DAY_MS


TIMEOUT = Seconds(1, DAY_MS)
COUNT = Integer(1, 1_000_000)
COUNT_OR_OFF = Integer(0, 1_000_000_000)
SIZE_OR_OFF = Integer(0, 1 << 50)

PROCESS = Section(
    "Process",
    (
        Variable(
            "GATEWAY_ENV",
            "production",
            "development",
            Choice("development", "production"),
            "In `production` the gateway refuses to start with what its column of this page does not allow.",
        ),
        _named("GATEWAY_HOST", "0.0.0.0", p.HOST, "Address to listen on."),  # noqa: S104
        _named("GATEWAY_PORT", "8080", Integer(0, 65_535), "Port to listen on; 0 takes any free one, and logs it."),
        _named(
            "GATEWAY_PUBLIC_URL",
            "",
            p.PUBLIC_URL,
            "Where browsers reach the gateway. The provider sends them back to `/auth/callback` below it; with https, "
            "cookies are `Secure`.",
            default_words="`http://localhost:<GATEWAY_PORT>`",
            production="required, https",
        ),
        _named(
            "GATEWAY_LOG_LEVEL", "info", Choice("debug", "info", "warning", "error"), "The least level that is logged."
        ),
        _named(
            "GATEWAY_HTTP_FAST_LANE",
            "on",
            p.Switch(),
            "Read plain heads by the gateway's own grammar, and only the others by h11. Both read alike; `off` leaves "
            "every head to h11, which takes far more CPU time.",
        ),
        _named(
            "GATEWAY_METRICS_TOKEN",
            "",
            p.SECRET_TOKEN,
            "Bearer token of `/metrics`. Without one the endpoint is off: 404.",
            default_words="off",
            production="strong, where set",
            secret=True,
        ),
        _named(
            "GATEWAY_SHUTDOWN_TIMEOUT_MS",
            "15000",
            Seconds(0, 3_600_000),
            "How long open connections may take to finish after SIGTERM or SIGINT.",
        ),
        _named(
            "GATEWAY_WORKERS",
            "1",
            Integer(1, 256),
            "Processes that serve the port, with one more that supervises them. Several need a shared state. Bounds on "
            "connections and requests are those of one worker, and so are breakers and cached decisions.",
        ),
    ),
)

TABLE = Section(
    "Route table",
    (
        _named(
            "GATEWAY_CONFIG",
            "",
            p.PATH,
            "File of the route table. It is watched; a change is taken whole or not at all.",
            required="name the file of the route table, such as /etc/wicketgate/gateway.json",
        ),
        _named(
            "GATEWAY_CONFIG_SOURCE",
            "file",
            Choice("file", "store"),
            "Where the route table comes from: the file, or the shared state, which the control plane writes. While "
            "that holds no table yet, the file serves.",
        ),
    ),
)

PROVIDER = Section(
    "Identity provider",
    (
        _named(
            "GATEWAY_OIDC_ISSUER",
            "",
            p.ISSUER,
            "The provider's issuer, exactly as it names itself. Its discovery document is read below it.",
            default_words="none: no login, no bearer tokens",
            production="required, https",
        ),
        _named("GATEWAY_OIDC_CLIENT_ID", "", p.PRINTABLE, "This client at the provider.", production="required"),
        _named(
            "GATEWAY_OIDC_CLIENT_SECRET",
            "",
            p.SECRET_TEXT,
            "Its secret.",
            production="required, unless `private_key_jwt`",
            secret=True,
        ),
        _named(
            "GATEWAY_OIDC_CLIENT_AUTH",
            "client_secret_basic",
            Choice("client_secret_basic", "client_secret_post", "private_key_jwt"),
            "How the client proves itself at the token endpoint.",
        ),
        _named(
            "GATEWAY_OIDC_CLIENT_KEY",
            "",
            p.CLIENT_KEY,
            "Private key of `private_key_jwt`: RSA of at least 2048 bits, or EC on P-256 or P-384. Its certificate may "
            "stand behind it, for a provider that goes by the thumbprint.",
            production="required with `private_key_jwt`",
            secret=True,
        ),
        _named("GATEWAY_OIDC_SCOPES", "openid email profile", p.SCOPES, "Scopes that a login asks for."),
        _named(
            "GATEWAY_OIDC_AUDIENCE",
            "",
            p.PRINTABLE,
            "What a bearer token's `aud` must hold.",
            default_words="the client id",
            production="required",
        ),
        _named(
            "GATEWAY_OIDC_ROLES_CLAIM", "roles", p.DOTTED, "Claim of the caller's roles: a text or a list of texts."
        ),
        _named(
            "GATEWAY_OIDC_MAX_TOKEN_AGE_MS",
            str(DAY_MS),
            Milliseconds(0, YEAR_MS),
            "Longest lifetime of a bearer token, from issue to expiry; 0 sets no bound.",
        ),
        _named(
            "GATEWAY_OIDC_REJECT_NONCE_TOKEN",
            "true",
            Boolean(),
            "Refuse a bearer token that has a `nonce`: it is an ID token.",
        ),
        _named(
            "GATEWAY_OIDC_REQUIRED_TOKEN_CLAIMS",
            "",
            p.CLAIMS,
            "Claims that a bearer token must have, with their values.",
            default_words="none",
        ),
        _named("GATEWAY_OIDC_TIMEOUT_MS", "5000", TIMEOUT, "Budget of one call of the provider."),
        _named(
            "GATEWAY_OIDC_JWKS_CACHE_MS", "600000", Seconds(1, DAY_MS), "How long the provider's keys are used unasked."
        ),
        _named(
            "GATEWAY_OIDC_JWKS_STALE_MS",
            "3600000",
            Seconds(0, YEAR_MS),
            "How long the last good keys serve beyond that, while the provider gives none.",
        ),
        _named(
            "GATEWAY_OIDC_CA",
            "",
            p.PATH,
            "PEM file of the authorities behind the provider's certificate, in place of the system's.",
            default_words="the system's authorities",
        ),
    ),
)

SESSIONS = Section(
    "Sessions",
    (
        _named(
            "GATEWAY_SESSION_SECRET",
            "",
            p.SECRET_TEXT,
            "What the cookie of a pending login is signed with.",
            default_words="random, for the life of the process",
            production="required, strong",
            secret=True,
        ),
        _named(
            "GATEWAY_SESSION_IDLE_MS", "28800000", Milliseconds(1_000, YEAR_MS), "A session unused for so long is over."
        ),
        _named(
            "GATEWAY_SESSION_MAX_AGE_MS",
            str(DAY_MS),
            Milliseconds(1_000, YEAR_MS),
            "A session this old is over, used or not.",
        ),
        _named(
            "GATEWAY_SESSION_MAX_PER_SUBJECT",
            "0",
            COUNT_OR_OFF,
            "Sessions that one subject may have; the oldest goes. 0 sets no bound.",
        ),
    ),
)

STATE = Section(
    "Shared state",
    (
        _named(
            "GATEWAY_STATE_URL",
            "memory://local",
            p.STATE_URL,
            "Where sessions, budgets and the route table's revisions are kept. In memory they end with the process. "
            "Several hosts (`redis://a,b,c`) are a cluster, or the sentinels of `GATEWAY_REDIS_SENTINEL_MASTER`.",
            secret=True,
        ),
        Variable(
            "GATEWAY_SINGLE_REPLICA",
            "",
            "false",
            Boolean(),
            "This deployment runs one process, so state in memory is all there is.",
            production="`true` with `memory://local`",
        ),
        _named(
            "GATEWAY_STATE_PREFIX",
            "gateway",
            p.STATE_PREFIX,
            "What every key on Redis begins with; on Postgres, the schema.",
        ),
        _named(
            "GATEWAY_STATE_TIMEOUT_MS",
            "500",
            Seconds(10, 60_000),
            "Budget of one operation of the state. What is not answered by then counts as unreachable.",
        ),
        _named(
            "GATEWAY_REDIS_SENTINEL_MASTER",
            "",
            p.PRINTABLE,
            "The name of the master that the sentinels in `GATEWAY_STATE_URL` are asked for.",
        ),
        _named(
            "GATEWAY_POSTGRES_POOL_MAX",
            "10",
            Integer(2, 1_000),
            "Connections of one worker to Postgres, opened as they are needed.",
        ),
        _named(
            "GATEWAY_POSTGRES_SYNCHRONOUS_COMMIT",
            "off",
            Choice("off", "on"),
            "Whether Postgres waits for its disk. With `off` a crash of the server may cost the last moments' sessions "
            "and counts. Route-table revisions and the audit trail always wait.",
        ),
        _named(
            "GATEWAY_REPLICA_ID",
            "",
            p.REPLICA_ID,
            "What this gateway is called among the replicas. Of several workers each adds its number: `a-1`, `a-2`.",
            default_words="host name and process id",
        ),
    ),
)

ACCESS = Section(
    "Access",
    (
        _named(
            "GATEWAY_ACCESS_URL",
            "",
            p.SERVICE_URL,
            "The service that is asked who may use a workspace; decisions are asked for at `/v1/decisions` below it.",
            default_words="none: routes that ask it answer 503",
            production="where a route asks: required, https or a private address",
        ),
        _named(
            "GATEWAY_ACCESS_TOKEN",
            "",
            p.SECRET_TOKEN,
            "Bearer token that the gateway shows Access.",
            production="where a route asks: required, strong",
            secret=True,
        ),
        _named("GATEWAY_ACCESS_TIMEOUT_MS", "3000", TIMEOUT, "Budget of one decision."),
        _named(
            "GATEWAY_ACCESS_CACHE_TTL_MS",
            "5000",
            Milliseconds(0, DAY_MS),
            "How long a decision is used again: how late a revocation works. 0 asks each time.",
        ),
        _named(
            "GATEWAY_ACCESS_STALE_GRACE_MS",
            "0",
            Milliseconds(0, DAY_MS),
            "How long beyond that an allowing decision serves while Access is away.",
        ),
        _named("GATEWAY_ACCESS_CACHE_MAX", "100000", Integer(1, 10_000_000), "Decisions that a worker keeps."),
        _named(
            "GATEWAY_ACCESS_BREAKER_FAILURES",
            "5",
            COUNT_OR_OFF,
            "Failures in a row after which Access is left alone; 0 never leaves it alone.",
        ),
        _named("GATEWAY_ACCESS_BREAKER_COOLDOWN_MS", "5000", TIMEOUT, "For how long."),
    ),
)

IDENTITY = Section(
    "Identity signature, other sites, proxies in front",
    (
        _named(
            "GATEWAY_IDENTITY_SIGNING_KEY",
            "",
            p.IDENTITY_KEY,
            "The key that identities are signed with, the same on every replica; `gateway identity-key` makes one. "
            "Line feeds may be written as `\\n`.",
            default_words="one made for the process, which no upstream knows",
            production="required",
            secret=True,
        ),
        _named(
            "GATEWAY_ALLOWED_ORIGINS",
            "",
            p.ORIGINS,
            "Origins besides the gateway's own that may send state-changing requests with a session.",
            default_words="none",
        ),
        _named(
            "GATEWAY_CSRF_STRICT",
            "false",
            Boolean(),
            "Refuse navigations from other sites too, where a route does not allow them.",
        ),
        _named(
            "GATEWAY_TRUSTED_PROXIES",
            "",
            p.RANGES,
            "Proxies whose forwarding headers are believed, in place of the table's.",
            default_words="the table's `trustedProxies`",
            production="ranges of at most 16 addresses",
        ),
        _named("GATEWAY_TRUSTED_PROXY_HOPS", "1", Integer(1, 32), "How many proxies stand in front."),
    ),
)

DOWNSTREAM = Section(
    "Callers",
    (
        _named("GATEWAY_MAX_CONNECTIONS", "10000", COUNT, "Open connections of a worker; one more gets 503."),
        _named("GATEWAY_MAX_PENDING_REQUESTS", "1000", COUNT_OR_OFF, "Requests inside a worker; 0 sets no bound."),
        _named(
            "GATEWAY_MAX_CONCURRENT_REQUESTS",
            "1000",
            COUNT_OR_OFF,
            "Requests of a worker that talk to an upstream; 0 sets no bound.",
        ),
        _named("GATEWAY_MAX_HEAD_BYTES", "32768", Integer(1_024, 1_048_576), "Bytes of a request head."),
        _named("GATEWAY_MAX_HEADERS", "100", Integer(1, 10_000), "Header lines of a request."),
        _named(
            "GATEWAY_MAX_BODY_BYTES",
            "10485760",
            SIZE_OR_OFF,
            "Bytes of a request body, where the route says nothing; 0 sets no bound.",
        ),
        _named("GATEWAY_HEAD_TIMEOUT_MS", "10000", TIMEOUT, "Budget of a whole request head, from its first byte."),
        _named("GATEWAY_KEEPALIVE_TIMEOUT_MS", "75000", TIMEOUT, "How long an idle connection stays open."),
    ),
)

TLS = Section(
    "TLS of the callers",
    (
        _named(
            "GATEWAY_TLS_CERT",
            "",
            p.PATHS,
            "PEM file of the certificate that callers are shown, with its chain: the server's certificate first. "
            "Several files are several certificates, chosen by the name that a caller asks for; the first serves the "
            "others. A change is picked up, and closes no connection.",
            default_words="none: no TLS",
        ),
        _named("GATEWAY_TLS_KEY", "", p.PATHS, "PEM file of its private key, not encrypted; one for each certificate."),
        _named("GATEWAY_TLS_PORT", "8443", Integer(0, 65_535), "Port of TLS; 0 takes any free one, and logs it."),
        _named("GATEWAY_TLS_MIN_VERSION", "1.2", Choice("1.2", "1.3"), "The oldest version of TLS that is spoken."),
    ),
)

UPSTREAMS = Section(
    "Upstreams",
    (
        _named(
            "GATEWAY_UPSTREAM_TLS_CA",
            "",
            p.PATH,
            "PEM file of the authorities behind the certificates of https upstreams and of Access, in place of the "
            "system's. A change is picked up.",
            default_words="the system's authorities",
        ),
        _named(
            "GATEWAY_UPSTREAM_TLS_CERT",
            "",
            p.PATH,
            "PEM file of the certificate, with its chain, that the gateway presents to an upstream that asks for one. "
            "A change is picked up.",
            default_words="none",
        ),
        _named("GATEWAY_UPSTREAM_TLS_KEY", "", p.PATH, "PEM file of its private key, not encrypted."),
        _named(
            "GATEWAY_UPSTREAM_POOL_MAX",
            "256",
            Integer(1, 100_000),
            "Idle connections that a worker keeps to one upstream.",
        ),
        _named("GATEWAY_UPSTREAM_POOL_IDLE_MS", "30000", TIMEOUT, "How long an idle one is kept."),
        _named(
            "GATEWAY_UPSTREAM_ATTEMPT_TIMEOUT_MS",
            "2000",
            TIMEOUT,
            "Budget of an attempt that has another upstream behind it, where the route says nothing.",
        ),
        _named(
            "GATEWAY_REPLAY_MAX_BYTES",
            "65536",
            Integer(0, 1 << 30),
            "Longest body that is held to be sent to a second upstream, where the route says nothing.",
        ),
        _named(
            "GATEWAY_UPSTREAM_BREAKER_FAILURES",
            "3",
            COUNT_OR_OFF,
            "Failures in a row after which an upstream is tried last; 0 keeps the order of the table.",
        ),
        _named("GATEWAY_UPSTREAM_BREAKER_COOLDOWN_MS", "30000", TIMEOUT, "For how long."),
    ),
)

LIMITS = Section(
    "Rate limits",
    (
        _named("GATEWAY_RATE_LIMIT_DEPLOYMENT_MAX", "0", COUNT_OR_OFF, "Requests of everybody in a window; 0 is off."),
        _named("GATEWAY_RATE_LIMIT_CLIENT_MAX", "0", COUNT_OR_OFF, "Requests of one address, all routes; 0 is off."),
        _named("GATEWAY_RATE_LIMIT_ROUTE_MAX", "6000", COUNT_OR_OFF, "Requests of one address on one route; 0 is off."),
        _named(
            "GATEWAY_RATE_LIMIT_PRINCIPAL_MAX", "0", COUNT_OR_OFF, "Requests of one subject on one route; 0 is off."
        ),
        _named("GATEWAY_RATE_LIMIT_LOGIN_MAX", "20", COUNT_OR_OFF, "Logins started from one address; 0 is off."),
        _named("GATEWAY_RATE_LIMIT_WINDOW_MS", "60000", Milliseconds(1, DAY_MS), "The sliding window of every limit."),
        _named(
            "GATEWAY_RATE_LIMIT_BUCKET_MS",
            "1000",
            Milliseconds(1, DAY_MS),
            "How finely it slides; a window holds at most 60 buckets.",
        ),
        _named(
            "GATEWAY_RATE_LIMIT_FALLBACK",
            "local",
            Choice("local", "deny", "allow"),
            "While the shared state cannot be read: count in the process, refuse, or let pass.",
        ),
    ),
)

WEBSOCKETS = Section(
    "WebSockets",
    (
        _named(
            "GATEWAY_WS_MAX_CONNECTIONS",
            "1000",
            COUNT_OR_OFF,
            "WebSockets of a worker, handshakes included; one more gets 503. 0 sets no bound.",
        ),
        _named(
            "GATEWAY_WS_MAX_PER_PRINCIPAL",
            "50",
            COUNT_OR_OFF,
            "WebSockets of one subject at a worker, or of one address where nobody is authenticated; one more gets "
            "429. 0 sets no bound.",
        ),
        _named("GATEWAY_WS_HANDSHAKE_TIMEOUT_MS", "10000", TIMEOUT, "Budget of the handshake with the upstream."),
        _named(
            "GATEWAY_WS_MAX_MESSAGE_BYTES",
            "1048576",
            Integer(1, 1 << 50),
            "Bytes of a message over all its frames, as they are sent; a longer one closes with 1009.",
        ),
        _named(
            "GATEWAY_WS_IDLE_TIMEOUT_MS",
            "300000",
            TIMEOUT,
            "A connection on which nothing comes for so long, from either side, closes with 1001.",
        ),
        _named(
            "GATEWAY_WS_REVALIDATE_INTERVAL_MS",
            "60000",
            Seconds(0, DAY_MS),
            "How often an open connection's route, session and Access are checked again; it closes with 1008 when "
            "one fails. 0 never checks again.",
        ),
    ),
)

SECTIONS = (
    PROCESS, TABLE, PROVIDER, SESSIONS, STATE, ACCESS, IDENTITY, DOWNSTREAM, TLS, ACME, UPSTREAMS, LIMITS, WEBSOCKETS,
)  # fmt: skip
VARIABLES: tuple[Variable, ...] = tuple(variable for section in SECTIONS for variable in section.variables)
