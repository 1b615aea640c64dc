"""What `gatewayctl` says, and where its token goes, when something else than a healthy control plane answers."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from controlplane.ctl import client
from tests.support.ctl import TOKEN, gatewayctl
from tests.support.ports import closed_port
from tests.support.upstreams import (
    Peer,
    Script,
    answers_and_closes,
    answers_with,
    closes_without_answer,
    never_answers,
    resets_mid_body,
    upstream,
)


def answer(status: str, body: bytes | str, kind: str = "application/json", *more: str) -> bytes:
    content = body.encode() if isinstance(body, str) else body
    head = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status}", f"content-type: {kind}", *more))
    return head.encode() + b"content-length: %d\r\n\r\n%b" % (len(content), content)


def page(items: Any, cursor: str | None = None) -> bytes:
    return answer("200 OK", json.dumps({"items": items, "nextCursor": cursor}))


REVISION = {"revision": 1, "time": "2026-01-31T23:59:59.999Z", "operator": "alice", "action": "config.write"}
DELETE = ("sessions", "revoke", "0123456789abcdef", "--yes")


async def told_by(script: Script, *arguments: str) -> tuple[int, str]:
    """Exit code and message when this listens; standard output stays empty."""
    async with upstream(script) as peer:
        ended = await gatewayctl(*(arguments or ("config", "history")), url=peer.url)
    assert ended.stdout == ""
    return ended.exit_code, ended.stderr


async def test_a_port_that_nothing_listens_at_is_named() -> None:
    ended = await gatewayctl("replicas", url=f"http://127.0.0.1:{closed_port()}")
    assert ended.exit_code == 1
    assert "Nothing listens at http://127.0.0.1:" in ended.stderr
    assert "Does gateway-control run there" in ended.stderr


async def test_an_unknown_host_is_named() -> None:
    ended = await gatewayctl("replicas", url="https://control.invalid:8081")
    assert ended.exit_code == 1
    assert "The host of https://control.invalid:8081 is not known" in ended.stderr


async def test_a_redirect_is_told_and_the_token_does_not_go_along() -> None:
    async with upstream(answers_with(page([]))) as elsewhere:
        location = f"location: http://127.0.0.1:{elsewhere.port}/login?next=1"
        code, said = await told_by(answers_with(answer("307 Temporary Redirect", "", "text/html", location)))
        assert elsewhere.connections == 0
    assert code == 1
    assert f"redirects to http://127.0.0.1:{elsewhere.port}; the token was not sent there" in said


@pytest.mark.parametrize(
    ("response", "said"),
    [
        (answer("200 OK", "<html>welcome</html>", "text/html"), "answers 200 with text/html"),
        (answer("502 Bad Gateway", "<html>oops</html>", "text/html; charset=utf-8"), "answers 502 with text/html"),
        (answer("200 OK", "no json at all"), "answers 200 with application/json, as the control plane never does"),
        (answer("200 OK", "[1]"), "as the control plane never does"),
        (answer("404 Not Found", '{"detail":"Not Found"}'), "answers 404 in a form that the control plane does not"),
        (answer("200 OK", '{"items":{}}'), "in an unknown form"),
        (answer("200 OK", '{"items":[1]}'), "in an unknown form"),
        (answer("200 OK", '{"items":[{}],"nextCursor":null}'), "has no field"),
        (answer("200 OK", "{}", "text/html", "x: \x1b[31m"), "answers 200 with text/html"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "no content type"),
        (b"+OK dovecot ready\r\n", "does not speak HTTP"),
        (b"\x15\x03\x01\x00\x02\x02\x16", "Is it an https:// port?"),
    ],
)
async def test_what_is_not_the_control_plane_is_told_as_such(response: bytes, said: str) -> None:
    code, told = await told_by(answers_and_closes(response))
    assert code == 1
    assert said in told
    assert TOKEN not in told
    assert "Traceback" not in told


async def test_a_refusal_is_told_with_its_advice_and_in_json_with_its_code() -> None:
    refused = answer("401 Unauthorized", '{"error":"unauthorized","message":"Unknown token."}', "application/json")
    async with upstream(answers_with(refused)) as peer:
        plain = await gatewayctl("replicas", url=peer.url)
        as_json = await gatewayctl("replicas", "--json", url=peer.url)
    assert (plain.exit_code, as_json.exit_code) == (1, 1)
    assert plain.stderr.startswith("gatewayctl: Unknown token. Check GATEWAYCTL_TOKEN")
    assert as_json.failure["error"] == "unauthorized"
    assert as_json.failure["status"] == 401


@pytest.mark.parametrize("script", [closes_without_answer, resets_mid_body])
async def test_a_change_that_was_cut_off_says_that_it_may_have_been_made(script: Script) -> None:
    code, told = await told_by(script, *DELETE)
    assert code == 1
    assert "Whether the change was made is not known" in told
    code, told = await told_by(script)
    assert code == 1
    assert "is not known" not in told


@pytest.mark.parametrize(
    ("response", "doubtful"),
    [
        (answer("504 Gateway Timeout", "<html>", "text/html"), True),
        (answer("200 OK", "<html>", "text/html"), True),
        (answer("503 Service Unavailable", '{"error":"state_unavailable","message":"Away."}'), True),
        (answer("500 Internal Server Error", '{"detail":"oops"}'), True),
        (answer("403 Forbidden", "<html>", "text/html"), False),
        (answer("404 Not Found", '{"error":"not_found","message":"None."}'), False),
        (answer("302 Found", "", "text/html", "location: https://login.example/"), False),
    ],
)
async def test_a_change_that_a_proxy_or_a_failure_answers_may_have_been_made(response: bytes, doubtful: bool) -> None:
    code, told = await told_by(answers_with(response), *DELETE)
    assert code == 1
    assert ("Whether the change was made is not known" in told) is doubtful


async def test_silence_ends_and_says_how_long_it_lasted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ANSWER_TIMEOUT_S", 0.2)
    code, told = await told_by(never_answers, *DELETE)
    assert code == 1
    assert "did not answer within 0.2 seconds" in told
    assert "Whether the change was made is not known" in told


async def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ANSWER_MAX_BYTES", 1_000)
    code, told = await told_by(answers_with(answer("200 OK", b" " * 2_000)))
    assert code == 1
    assert "more than 1000 bytes" in told


async def test_pages_without_end_are_given_up() -> None:
    code, told = await told_by(answers_with(page([REVISION], "again")), "config", "history", "--limit", "0")
    assert code == 1
    assert "pages without an end" in told


async def test_a_connection_serves_one_call() -> None:
    """One that is kept while a person thinks may be closed just as the change is sent, and nobody knew its outcome."""
    async with upstream(answers_with(page([REVISION] * 200, "next"))) as peer:
        ended = await gatewayctl("config", "history", "--limit", "300", "--json", url=peer.url)
    assert ended.exit_code == 0
    assert (peer.connections, len(peer.requests)) == (2, 2)


async def test_the_token_goes_in_the_authorization_header_and_nowhere_else() -> None:
    async with upstream(answers_with(page([]))) as peer:
        await gatewayctl(
            "sessions", "list", "--subject", "a&b=c é", url=peer.url, HTTP_PROXY="http://127.0.0.1:1", ALL_PROXY="x://"
        )
    (request,) = peer.requests
    assert request.values(b"authorization") == [f"Bearer {TOKEN}".encode()]
    assert request.head.count(TOKEN.encode()) == 1
    assert (
        request.line.startswith("GET /v1/sessions?subject=a%26b%3Dc+%C3%A9&")
        or "subject=a%26b%3Dc%20%C3%A9" in request.line
    )


async def test_what_the_control_plane_says_steers_no_terminal() -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m[red]x[/red]\nrevision 9"
    refused = answer("403 Forbidden", json.dumps({"error": "forbidden", "message": hostile}))
    item = {**REVISION, "operator": hostile, "time": hostile, "action": hostile}
    for script in (answers_with(refused), answers_with(page([item]))):
        for form in ((), ("--json",)):
            async with upstream(script) as peer:
                ended = await gatewayctl("config", "history", *form, url=peer.url)
            shown = ended.stdout + ended.stderr
            assert "[red]x[/red]" in shown
            assert "".join(shown.split("\n")).isprintable()
            assert not any(line.startswith("revision 9") for line in shown.splitlines())


async def test_a_certificate_that_is_not_trusted_is_explained_and_a_private_authority_can_be(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    (tmp_path / "empty.pem").write_text("nothing")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(page([REVISION]))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    url = f"https://localhost:{port}"
    history = ("config", "history")
    try:
        doubted = await gatewayctl(*history, url=url)
        wrong_host = await gatewayctl(*history, url=f"https://127.0.0.1:{port}", GATEWAYCTL_CA=str(tmp_path / "ca.pem"))
        assert heads == []
        trusted = await gatewayctl(*history, url=url, GATEWAYCTL_CA=str(tmp_path / "ca.pem"))
        by_openssl = await gatewayctl(*history, url=url, SSL_CERT_FILE=str(tmp_path / "ca.pem"))
        missing = await gatewayctl(*history, url=url, GATEWAYCTL_CA=str(tmp_path / "none.pem"))
        empty = await gatewayctl(*history, url=url, GATEWAYCTL_CA=str(tmp_path / "empty.pem"))
    finally:
        server.close()
        await server.wait_closed()
    assert (trusted.exit_code, by_openssl.exit_code) == (0, 0)
    assert "alice" in trusted.stdout
    for refused in (doubted, wrong_host):
        assert refused.exit_code == 1
        assert f"The certificate of {url if refused is doubted else ''}" in refused.stderr
        assert "GATEWAYCTL_CA" in refused.stderr
    assert "none.pem cannot be read: No such file or directory" in missing.stderr
    assert "empty.pem cannot be read: it holds no PEM certificate" in empty.stderr


async def test_https_to_a_port_without_tls_is_explained() -> None:
    async def greets(peer: Peer) -> None:
        await peer.write(answer("400 Bad Request", "", "text/plain"))

    async with upstream(greets) as peer:
        ended = await gatewayctl("replicas", url=f"https://127.0.0.1:{peer.port}")
    assert ended.exit_code == 1
    assert "Is it a plain http:// port?" in ended.stderr


async def test_a_host_that_takes_no_connection_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener whose queue is full drops what comes, as a firewall does."""
    monkeypatch.setattr(client, "CONNECT_TIMEOUT_S", 0.2)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)), socket.socket() as second:
            second.setblocking(False)
            second.connect_ex(("127.0.0.1", port))
            ended = await gatewayctl("replicas", url=f"http://127.0.0.1:{port}")
    assert ended.exit_code == 1
    assert "gives no connection within 0.2 seconds" in ended.stderr


@pytest.mark.parametrize("form", [(), ("--json",)])
async def test_without_an_address_or_a_token_it_is_wrong_usage(form: tuple[str, ...]) -> None:
    ended = await gatewayctl("replicas", *form, token="")
    assert ended.exit_code == 2
    assert ended.stdout == ""
    assert "GATEWAYCTL_URL" in ended.stderr
    assert "GATEWAYCTL_TOKEN" in ended.stderr
    if form:
        assert [one["path"] for one in ended.failure["errors"]] == ["GATEWAYCTL_URL", "GATEWAYCTL_TOKEN"]


async def test_a_public_host_over_http_is_called_only_when_it_is_said() -> None:
    refused = await gatewayctl("replicas", url="http://control.example.invalid")
    assert refused.exit_code == 2
    assert "in clear" in refused.stderr
    allowed = await gatewayctl("--allow-http", "replicas", url="http://control.example.invalid")
    assert allowed.exit_code == 1
    assert "is not known" in allowed.stderr
