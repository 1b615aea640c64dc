"""`dns-01` through the deployment's writer, against a real authority that looks into a real zone (§11.5.2)."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from common.settings.secret import Secret
from dataplane.tls.acme.authority import AuthoritySettings
from dataplane.tls.acme.challenges import ZoneWriter
from tests.support.acme import Deployment, Replica
from tests.support.oidc_provider import OddProvider, OddRequest, Write, answers
from tests.support.pebble import Pebble, start_pebble
from tests.support.ports import closed_port
from tests.support.processes import Children

pytestmark = pytest.mark.real

TOKEN = Secret(secrets.token_hex(32))
WILDCARD = ("*.example.com", "example.com")


class Writer:
    """A writer as a deployment would build it: it knows the zone, and does what it is told by who knows the token."""

    def __init__(self, pebble: Pebble, server: OddProvider) -> None:
        self._pebble = pebble
        self.told: list[dict[str, str]] = []
        self.zone: list[tuple[str, str]] = []
        self.refuses = ""
        self.tokens = {TOKEN.reveal()}
        self.url = f"{server.origin}/records"
        server.behaviours["/records"] = self._do

    async def _do(self, request: OddRequest, write: Write) -> None:
        if request.headers.get("authorization", "").removeprefix("Bearer ") not in self.tokens:
            await answers(b"", status="401 Unauthorized")(request, write)
            return
        asked = json.loads(request.body)
        self.told.append(asked)
        if asked["action"] == self.refuses:
            await answers(b"", status="409 Conflict")(request, write)
            return
        record = asked["name"], asked["value"]
        self.zone = [each for each in self.zone if each != record]
        if asked["action"] == "publish":
            self.zone.append(record)
        await self._pebble.zone.clear_txt(asked["name"])
        for name, value in self.zone:
            await self._pebble.zone.set_txt(name, value)
        await answers(b"", status="204 No Content")(request, write)


@pytest.fixture
def pebble(children: Children, tmp_path: Path) -> Pebble:
    return start_pebble(children, tmp_path / "pebble", closed_port(), certificateValidityPeriod=90 * 86_400)


@pytest.fixture
async def writer(pebble: Pebble) -> AsyncIterator[Writer]:
    async with OddProvider() as server:
        yield Writer(pebble, server)


def replica(site: Deployment, pebble: Pebble, writer: Writer, token: Secret = TOKEN) -> Replica:
    authority = AuthoritySettings(pebble.directory, ca=pebble.ca)
    return site.replica(authority, names=WILDCARD, showing=ZoneWriter(writer.url, token))


async def test_a_wildcard_and_its_base_are_issued_and_both_records_are_withdrawn(
    pebble: Pebble, writer: Writer
) -> None:
    site = Deployment()
    one = replica(site, pebble, writer)

    await one.keeper.round()

    (served,) = one.served
    assert set(served.names) == set(WILDCARD)
    assert [asked["action"] for asked in writer.told] == ["publish", "publish", "withdraw", "withdraw"]
    assert {asked["name"] for asked in writer.told} == {"_acme-challenge.example.com"}
    assert len({asked["value"] for asked in writer.told}) == 2, "a name has two values at once"
    assert writer.zone == []


@pytest.mark.parametrize(
    ("refuses", "withdrawn", "says"),
    [
        ("publish", 1, "the DNS writer did not publish _acme-challenge.example.com: it answered 409"),
        ("withdraw", 2, ""),
    ],
)
async def test_a_writer_that_refuses_is_told_and_what_was_published_is_withdrawn_all_the_same(
    pebble: Pebble, writer: Writer, refuses: str, withdrawn: int, says: str
) -> None:
    site = Deployment()
    one = replica(site, pebble, writer)
    writer.refuses = refuses

    await one.keeper.round()

    assert sum(asked["action"] == "withdraw" for asked in writer.told) == withdrawn
    if refuses == "publish":
        assert one.logged("no certificate was obtained")[0]["error"] == says
        assert one.served == []
    else:
        assert len(one.logged("a challenge was not withdrawn")) == 2
        assert len(one.served) == 1, "the certificate is none the worse for it"
    assert TOKEN.reveal() not in json.dumps(one.lines)


async def test_a_wrong_token_is_told_as_the_writers_answer(pebble: Pebble, writer: Writer) -> None:
    one = replica(Deployment(), pebble, writer, Secret("another token"))

    await one.keeper.round()

    assert one.logged("no certificate was obtained")[0]["error"].endswith("it answered 401")
    assert pebble.count("/chalZ/") == 0, "the authority is not asked to look in vain"


async def test_gateways_change_their_token_one_by_one_while_the_writer_takes_both(
    pebble: Pebble, writer: Writer
) -> None:
    """docs/secrets.md: who was forgotten serves on, and says why it cannot renew."""
    site, new_token = Deployment(), Secret(secrets.token_hex(32))
    old, new = replica(site, pebble, writer), replica(site, pebble, writer, new_token)
    writer.tokens.add(new_token.reveal())
    await old.keeper.round()
    await new.keeper.round()
    assert new.served == old.served

    writer.tokens.remove(TOKEN.reveal())
    site.pass_days(61)
    await old.keeper.round()
    assert str(old.reports[-1]).endswith("it answered 401")
    assert len(old.served) == 1
    site.time.pass_s(60)
    await new.keeper.round()
    await old.keeper.round()
    assert old.served[-1] == new.served[-1] != old.served[0]
    assert (old.reports[-1], new.reports[-1]) == (None, None)


async def test_a_record_that_is_not_served_fails_with_the_authoritys_reason(
    pebble: Pebble, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(host: str, value: str) -> None:
        """The writer says that it is done, and the zone says nothing."""

    monkeypatch.setattr(pebble.zone, "set_txt", nothing)
    one = replica(Deployment(), pebble, writer)

    await one.keeper.round()

    (line,) = one.logged("no certificate was obtained")
    assert "example.com as shown: unauthorized: " in line["error"]
    assert writer.zone == []
