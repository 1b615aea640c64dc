"""Access as tests need it: transports under the test's hand, one over httpx, and a raw-socket service."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import httpx

from common.routetable.compiled import Route
from dataplane.access.client import AccessTransportError
from dataplane.access.protocol import ANSWER_MAX_BYTES, DECISIONS_PATH
from tests.support.forwarding import route as any_route

ALLOW = b'{"allow": true}'
DENY = b'{"allow": false}'


class ManualClock:
    """Monotonic seconds that move only when a test says so."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


def route(
    route_id: str = "app",
    *,
    ttl_ms: int = 5_000,
    grace_ms: int = 0,
    workspace_param: str | None = "workspaceId",
    require_uuid: bool = True,
    access_check: bool = True,
) -> Route:
    """A compiled route of which only what concerns Access matters."""
    return any_route(
        id=route_id,
        path="/w/{workspaceId}/",
        auth_mode="session",
        workspace_param=workspace_param,
        require_uuid=require_uuid,
        access_check=access_check,
        access_cache_ttl_ms=ttl_ms,
        access_stale_grace_ms=grace_ms,
    )


@dataclass
class Pending:
    """A call that a test answers when it likes."""

    body: bytes
    answer: asyncio.Future[tuple[int, bytes]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    cancelled: bool = False

    def allow(self) -> None:
        self.answer.set_result((200, ALLOW))

    def deny(self) -> None:
        self.answer.set_result((200, DENY))

    def fail(self) -> None:
        self.answer.set_exception(AccessTransportError("connect", "refused"))


class HeldTransport:
    """Every call waits for the test."""

    def __init__(self) -> None:
        self.calls: list[Pending] = []
        self._arrived = asyncio.Condition()

    async def post_decision(self, body: bytes) -> tuple[int, bytes]:
        call = Pending(body)
        self.calls.append(call)
        async with self._arrived:
            self._arrived.notify_all()
        try:
            return await call.answer
        except asyncio.CancelledError:
            call.cancelled = True
            raise

    async def reached(self, count: int) -> Pending:
        """The call number `count`, once it was made."""
        async with asyncio.timeout(5), self._arrived:
            await self._arrived.wait_for(lambda: len(self.calls) >= count)
        return self.calls[count - 1]


class AnsweringTransport:
    """Answers at once with what `answer` says: status and body, or an error to raise. Counts its calls."""

    def __init__(self, answer: tuple[int, bytes] | Exception = (200, ALLOW)) -> None:
        self.answer: tuple[int, bytes] | Exception = answer
        self.bodies: list[bytes] = []

    @property
    def count(self) -> int:
        return len(self.bodies)

    async def post_decision(self, body: bytes) -> tuple[int, bytes]:
        self.bodies.append(body)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@dataclass
class Asked:
    """One call of Access: what it was about, when it was sent, what came of it (None: an outage, or nothing yet)."""

    body: bytes
    at: float
    order: int
    answer: asyncio.Future[tuple[int, bytes]]
    allow: bool | None = None
    answered_at: float | None = None


class Recorder:
    """A transport whose answers the machine gives, and the record of what was asked."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.asked: list[Asked] = []

    async def post_decision(self, body: bytes) -> tuple[int, bytes]:
        call = Asked(body, self.clock.now, len(self.asked), asyncio.get_running_loop().create_future())
        self.asked.append(call)
        return await call.answer

    def open_calls(self) -> list[Asked]:
        return [call for call in self.asked if not call.answer.done()]

    def about(self, subject: str) -> list[Asked]:
        return [call for call in self.asked if b'"subject":"%b"' % subject.encode() in call.body]


class HttpxTransport:
    """The protocol over httpx, bounded as the contract asks."""

    def __init__(self, url: str, token: str, client: httpx.AsyncClient) -> None:
        self._url = url.rstrip("/") + DECISIONS_PATH
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        self._client = client

    async def post_decision(self, body: bytes) -> tuple[int, bytes]:
        try:
            async with self._client.stream("POST", self._url, content=body, headers=self._headers) as response:
                answer = b""
                async for piece in response.aiter_raw():
                    answer += piece
                    if len(answer) > ANSWER_MAX_BYTES:
                        raise AccessTransportError("too_large", "the answer is over its bound")
                return response.status_code, answer
        except httpx.ConnectError as error:
            tls = isinstance(error.__context__, ssl.SSLError) or "SSL" in str(error)
            raise AccessTransportError("tls" if tls else "connect", str(error)) from error
        except httpx.TimeoutException as error:
            raise AccessTransportError("timeout", str(error)) from error
        except httpx.RemoteProtocolError as error:
            raise AccessTransportError("malformed", str(error)) from error
        except httpx.TransportError as error:
            raise AccessTransportError("reset", str(error)) from error


@contextlib.asynccontextmanager
async def httpx_transport(url: str, token: str = "access-token") -> AsyncIterator[HttpxTransport]:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        yield HttpxTransport(url, token, client)


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def http_answer(status: int, body: bytes = b"", *headers: str) -> bytes:
    """The bytes of a whole answer."""
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", "connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class RawAccess:
    """A service on a raw socket. `reply` is written to every request as it is; None leaves the request unanswered until
    the caller goes. `requests` holds head and body of each; `gone` is set when a caller left an unanswered one.
    """

    def __init__(self) -> None:
        self.reply: bytes | None = http_answer(200, ALLOW)
        self.requests: list[tuple[bytes, bytes]] = []
        self.gone = asyncio.Event()
        self.asked = asyncio.Event()
        self.url = ""
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
            )
            self.requests.append((head, await reader.readexactly(length)))
            self.asked.set()
            if self.reply is None:
                await reader.read()
                self.gone.set()
            else:
                writer.write(self.reply)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            self.gone.set()
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            del self._open[task]

    async def cut(self) -> None:
        """Cut every connection and wait until nobody serves any more."""
        for writer in self._open.values():
            writer.transport.abort()
        if self._open:
            await asyncio.wait(list(self._open))


@contextlib.asynccontextmanager
async def raw_access() -> AsyncIterator[RawAccess]:
    service = RawAccess()
    server = await asyncio.start_server(service.serve, "127.0.0.1", 0)
    service.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield service
    finally:
        server.close()
        await service.cut()
        await server.wait_closed()


class RecordedLog:
    """Stands where a `Log` stands and keeps what it was told: level, message, fields."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, object]]] = []

    def debug(self, msg: str, **fields: object) -> None:
        self.lines.append(("debug", msg, fields))

    def info(self, msg: str, **fields: object) -> None:
        self.lines.append(("info", msg, fields))

    def warning(self, msg: str, **fields: object) -> None:
        self.lines.append(("warning", msg, fields))

    def error(self, msg: str, **fields: object) -> None:
        self.lines.append(("error", msg, fields))

    def messages(self) -> list[str]:
        return [msg for _, msg, _ in self.lines]
