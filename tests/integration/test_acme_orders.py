"""Certificates from a real authority: issued once, shared, renewed, and what happens when something fails (§11.5)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from acme import messages
from acme.client import ClientV2
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from josepy.jwk import JWKEC

from common.settings.secret import Secret
from dataplane.tls.acme.authority import AuthoritySettings
from dataplane.tls.acme.keeper import renewal_asked
from dataplane.tls.acme.lease import LeaseLost
from dataplane.tls.acme.network import Network
from dataplane.tls.acme.plan import DAY_MS, renewal_at
from dataplane.tls.acme.records import Progress
from dataplane.tls.acme.vault import LEASE, MARK, Overtaken
from tests.support.acme import NAMES, Deployment, Replica, port_80
from tests.support.acme_front import Front, Told, front
from tests.support.gateway import DEADLINE_S
from tests.support.pebble import EAB_HMAC, EAB_KID, Pebble, start_pebble
from tests.support.ports import free_port
from tests.support.processes import Children

pytestmark = pytest.mark.real

DAY_S = 86_400
Start = Callable[..., Pebble]


@pytest.fixture
def port() -> int:
    """Where the authority looks for `http-01`."""
    return free_port()


@pytest.fixture
def start(children: Children, tmp_path: Path, port: int) -> Start:
    """Starts an authority whose certificates last 90 days."""

    def started(**options: object) -> Pebble:
        options = {"certificateValidityPeriod": 90 * DAY_S, **options}
        return start_pebble(children, tmp_path / "pebble", port, **options)

    return started


@pytest.fixture
async def site(port: int) -> AsyncIterator[Deployment]:
    """A deployment whose port 80 answers; at the end no line of its logs has held a key."""
    deployment = Deployment()
    async with port_80(deployment.state, port):
        yield deployment
    kept = "".join(json.dumps(line) for replica in deployment.replicas for line in replica.lines)
    assert "PRIVATE KEY" not in kept
    for replica in deployment.replicas:
        issued = (await replica.vault.read()).issued
        account, _ = await replica.vault.read_account()
        for pem in [held.key_pem for held in (issued, account) if held is not None]:
            assert not any(line in kept for line in pem.decode().splitlines()[1:-1])


def at(pebble: Pebble | Front, **more: object) -> AuthoritySettings:
    return replace(AuthoritySettings(pebble.directory, email="ops@example.com", ca=pebble.ca), **more)  # type: ignore[arg-type]


async def nothing_left(site: Deployment) -> None:
    """No answer is published any more, and nobody holds the lease."""
    assert site.state._challenges == {}
    assert await site.state.take_lease(LEASE, "the test", 1) is not None


async def test_the_first_certificate_is_issued_sealed_shared_and_served(start: Start, site: Deployment) -> None:
    pebble = start()
    replica = site.replica(at(pebble))

    await replica.keeper.round()

    (served,) = replica.served
    assert served.names == NAMES
    chain = x509.load_pem_x509_certificates(served.chain)
    assert len(chain) == 2, "the intermediate comes with it"
    root = x509.load_pem_x509_certificate((await pebble.root()).encode())
    chain[1].verify_directly_issued_by(root)
    key = load_pem_private_key(served.key.reveal().encode(), None)
    assert key.public_key().curve.name == "secp256r1"  # type: ignore[union-attr]
    (line,) = replica.logged("a certificate was obtained")
    assert line["names"] == list(NAMES)
    await nothing_left(site)


async def test_another_replica_serves_what_is_stored_and_orders_nothing(start: Start, site: Deployment) -> None:
    pebble = start()
    first, second = site.replica(at(pebble)), site.replica(at(pebble))
    await first.keeper.round()

    await second.keeper.start()
    await second.keeper.stop()

    assert second.served == first.served
    assert pebble.orders == 1


async def test_replicas_that_start_together_order_once(start: Start, site: Deployment) -> None:
    pebble = start()
    replicas = [site.replica(at(pebble)) for _ in range(4)]

    await asyncio.gather(*(replica.keeper.round() for replica in replicas))
    await asyncio.gather(*(replica.keeper.round() for replica in replicas))

    assert pebble.orders == 1
    assert all(replica.served == replicas[0].served for replica in replicas)


async def test_a_certificate_is_renewed_with_a_fresh_key_and_the_same_account(start: Start, site: Deployment) -> None:
    pebble = start()
    replica = site.replica(at(pebble))
    await replica.keeper.round()
    site.time.pass_s(56 * DAY_S)
    await replica.keeper.round()
    assert pebble.orders == 1, "30 days before the end, and up to three sooner"

    site.time.pass_s(4.1 * DAY_S)
    await replica.keeper.round()

    old, new = replica.served
    assert old.key.reveal() != new.key.reveal()
    assert pebble.orders == 2
    assert pebble.count("/sign-me-up") == 1


async def test_a_certificate_that_is_due_when_it_comes_is_not_ordered_again_and_again(
    start: Start, site: Deployment
) -> None:
    """A clock that is wrong by months must not use up in a minute what the authority allows in a week."""
    pebble = start()
    replica = site.replica(at(pebble))
    site.time.pass_s(70 * DAY_S)

    for _ in range(5):
        await replica.keeper.round()

    assert pebble.orders == 1


async def test_an_authority_that_is_down_costs_nothing_but_the_wait(start: Start, site: Deployment) -> None:
    pebble = start()
    replica = site.replica(at(pebble))
    pebble.child.kill()

    await replica.keeper.round()

    (line,) = replica.logged("no certificate was obtained")
    assert line["error"] == "the account: the authority cannot be reached: ConnectionError: connection refused"
    assert line["nextAttemptS"] == 10
    assert replica.reports[-1] == line["error"]
    pebble.start()
    await replica.keeper.round()
    assert replica.served == []
    site.time.pass_s(10)
    await replica.keeper.round()
    assert len(replica.served) == 1
    assert replica.reports[-1] is None


async def test_an_authority_that_is_down_for_a_renewal_leaves_the_old_certificate_and_is_reported(
    start: Start, site: Deployment
) -> None:
    pebble = start()
    replica = site.replica(at(pebble))
    await replica.keeper.round()
    pebble.child.kill()
    site.time.s = renewal_at(await replica.issued(), Progress(), 30 * DAY_MS) / 1000

    await replica.keeper.round()

    assert replica.logged("no certificate was obtained")
    assert "the authority cannot be reached" in str(replica.reports[-1])
    assert len(replica.served) == 1


async def test_an_authority_that_forgot_the_account_gets_a_new_one(start: Start, site: Deployment) -> None:
    pebble = start()
    replica = site.replica(at(pebble))
    await replica.keeper.round()
    pebble.child.kill()
    pebble.start()
    site.time.pass_s(61 * DAY_S)

    await replica.keeper.round()

    assert len(replica.served) == 2
    assert replica.logged("the authority does not know this deployment's account any more")


async def test_a_new_mail_address_reaches_the_authority(start: Start, site: Deployment) -> None:
    pebble = start()
    first = site.replica(at(pebble))
    await first.keeper.round()
    second = site.replica(at(pebble, email="others@example.com"))
    site.time.pass_s(61 * DAY_S)

    await second.keeper.round()

    account, _ = await second.vault.read_account()
    assert account is not None
    assert account.email == "others@example.com"
    assert pebble.count("/my-account/") == 1


async def test_a_challenge_that_fails_says_the_authoritys_reason_and_waits(
    start: Start, port: int, tmp_path: Path
) -> None:
    pebble, site = start(), Deployment()
    replica = site.replica(at(pebble))
    async with port_80(site.state, port, {"": b"something else\r\n\x1b[2J"}):
        await replica.keeper.round()
        assert site.state._challenges == {}
        await replica.keeper.round()

    (line,) = replica.logged("no certificate was obtained")
    assert "the authority does not take app.example.com as shown: unauthorized: " in line["error"] or (
        "the authority does not take www.example.com as shown: unauthorized: " in line["error"]
    )
    assert line["error"].isprintable()
    assert line["nextAttemptS"] == 15
    assert pebble.orders == 1
    async with port_80(site.state, port):
        site.time.pass_s(60)
        await replica.keeper.round()
    assert len(replica.served) == 1
    assert pebble.orders == 2, "the order that failed is begun anew"


async def test_a_nonce_that_the_authority_does_not_like_is_no_failure(
    children: Children, tmp_path: Path, port: int, site: Deployment
) -> None:
    pebble = start_pebble(children, tmp_path / "pebble", port, env={"PEBBLE_WFE_NONCEREJECT": "40"})
    replica = site.replica(at(pebble))

    await replica.keeper.round()

    assert len(replica.served) == 1


async def test_an_account_is_bound_to_one_at_the_authority(start: Start, site: Deployment) -> None:
    pebble = start(externalAccountBindingRequired=True, externalAccountMACKeys={EAB_KID: EAB_HMAC})
    without, wrong, right = (
        site.replica(at(pebble)),
        site.replica(at(pebble, eab_kid="other", eab_hmac=Secret(EAB_HMAC))),
        site.replica(at(pebble, eab_kid=EAB_KID, eab_hmac=Secret(EAB_HMAC))),
    )

    for replica in (without, wrong, right):
        # Who mends the setting does not wait out the back-off of the wrong one.
        await replica.keeper.round()

    (line,) = without.logged("no certificate was obtained")
    assert "set GATEWAY_ACME_EAB_KID and GATEWAY_ACME_EAB_HMAC" in line["error"]
    (line,) = wrong.logged("no certificate was obtained")
    assert "the account: the authority answered unauthorized: " in line["error"]
    assert EAB_HMAC not in json.dumps(wrong.lines)
    assert len(right.served) == 1


async def test_an_authority_that_limits_is_left_alone_for_as_long_as_it_says(
    start: Start, site: Deployment, tmp_path: Path
) -> None:
    problem = {"type": "urn:ietf:params:acme:error:rateLimited", "detail": "too many certificates for these names"}
    async with front(start(), tmp_path / "front") as before:

        async def limited(method: str, path: str) -> Told | None:
            return Told.json(problem, 429, **{"retry-after": "7200"}) if path == "/order-plz" else None

        before.rule = limited
        replica = site.replica(at(before))
        await replica.keeper.round()
        (line,) = replica.logged("no certificate was obtained")
        assert line["error"].endswith("answered rateLimited: too many certificates for these names")
        assert line["nextAttemptS"] == 7_200

        del before.rule
        before.rule = _pass_on
        site.time.pass_s(7_199)
        await replica.keeper.round()
        assert before.count("/order-plz") == 1
        site.time.pass_s(1)
        await replica.keeper.round()

    assert len(replica.served) == 1


async def _pass_on(method: str, path: str) -> Told | None:
    return None


async def revoke(pebble: Pebble, replica: Replica) -> None:
    """Revoke what is served, as its key's owner."""
    issued = await replica.issued()

    def do() -> None:
        network = Network(JWKEC(key=load_pem_private_key(issued.key_pem, None)), pebble.ca)
        client = ClientV2(ClientV2.get_directory(pebble.directory, network), network)
        client.revoke(x509.load_pem_x509_certificate(issued.chain_pem), 0)

    await asyncio.to_thread(do)
    assert (await pebble.status(issued.serial))["Status"] == "Revoked"


async def test_a_revoked_certificate_is_replaced_when_the_authority_suggests_it(
    start: Start, site: Deployment, tmp_path: Path
) -> None:
    """RFC 9773: how an authority tells that a certificate will not be good any longer."""
    pebble = start()
    async with front(pebble, tmp_path / "front") as before:
        windows = {"Valid": ("2099-01-01T00:00:00Z", "2099-01-02T00:00:00Z"),
                   "Revoked": ("2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z")}  # fmt: skip

        def with_renewal_info(path: str, answer: httpx.Response) -> bytes:
            if path != "/dir":
                return answer.content
            return json.dumps({**answer.json(), "renewalInfo": f"https://127.0.0.1:{before.port}/ari"}).encode()

        async def renewal_info(method: str, path: str) -> Told | None:
            if not path.startswith("/ari/"):
                return None
            status = (await pebble.status((await replica.issued()).serial))["Status"]
            begin, end = windows[status]
            return Told.json({"suggestedWindow": {"start": begin, "end": end}}, **{"retry-after": "3600"})

        before.changed, before.rule = with_renewal_info, renewal_info
        replica = site.replica(at(before))
        await replica.keeper.round()
        await replica.keeper.round()
        assert before.count("/ari/") == 1
        await revoke(pebble, replica)
        site.time.pass_s(3_601)
        await replica.keeper.round()
        await replica.keeper.round()

    assert before.count("/ari/") == 2
    assert len(replica.served) == 2
    assert replica.logged("ordering a certificate")[1]["why"] == "the authority suggests it"


async def test_a_revoked_certificate_is_replaced_when_an_operator_asks_for_it(start: Start, site: Deployment) -> None:
    """For authorities that do not suggest; whatever back-off there is does not hold it up."""
    pebble = start()
    replica = site.replica(at(pebble))
    await replica.keeper.round()
    await revoke(pebble, replica)
    lease = await site.state.take_lease(LEASE, "an operator", 10_000)
    assert lease is not None
    await replica.vault.write_progress(renewal_asked(await replica.vault.read()), lease)
    await site.state.release_lease(lease)

    await replica.keeper.round()
    await replica.keeper.round()

    assert len(replica.served) == 2
    assert pebble.orders == 2


async def test_an_authority_without_an_answer_to_when_is_asked_again_in_an_hour(
    start: Start, site: Deployment, tmp_path: Path
) -> None:
    async with front(start(), tmp_path / "front") as before:
        replica = site.replica(at(before))
        await replica.keeper.round()

        async def broken(method: str, path: str) -> Told | None:
            return Told(500)

        before.rule = broken
        await replica.keeper.round()
        await replica.keeper.round()
        asked = before.count("/dir")
        site.time.pass_s(3_601)
        await replica.keeper.round()

    assert len(replica.logged("the authority did not say when to renew")) == 2
    assert before.count("/dir") == asked + 1
    assert len(replica.served) == 1


async def held_up(before: Front, path: str) -> tuple[asyncio.Event, asyncio.Event]:
    """The front holds the first request for a path: set when it came; set it to let it go."""
    came, go = asyncio.Event(), asyncio.Event()

    async def hold(method: str, asked: str) -> Told | None:
        if asked.startswith(path) and not came.is_set():
            came.set()
            await go.wait()
        return None

    before.rule = hold
    return came, go


async def test_an_order_whose_lease_passes_on_is_given_up_and_overwrites_nothing(
    start: Start, site: Deployment, tmp_path: Path
) -> None:
    async with front(start(), tmp_path / "front") as before:
        came, go = await held_up(before, "/chalZ/")
        late, next_one = site.replica(at(before)), site.replica(at(before))
        working = asyncio.create_task(late.keeper.round())
        await asyncio.wait_for(came.wait(), DEADLINE_S)
        site.time.pass_s(3)

        await next_one.keeper.round()
        with pytest.raises(LeaseLost):
            await asyncio.wait_for(working, DEADLINE_S)
        go.set()

    assert late.served == []
    assert (await late.issued()).key_pem.decode().strip() == next_one.served[0].key.reveal()
    await late.keeper.round()
    assert late.served == next_one.served
    await nothing_left(site)


async def test_a_writer_that_wakes_late_is_refused_by_the_store(start: Start, site: Deployment) -> None:
    """A process that was stopped for a minute does not know that its lease is gone: the fence does."""
    replica = site.replica(at(start()))
    stale = await site.state.take_lease(LEASE, "stopped", 1_000)
    assert stale is not None
    site.time.pass_s(2)
    await replica.keeper.round()
    kept = await replica.vault.read()
    assert kept.issued is not None

    for write in (
        replica.vault.write_certificate(kept.issued, stale),
        replica.vault.write_progress(kept.progress, stale),
    ):
        with pytest.raises(Overtaken):
            await write


async def test_a_stop_in_the_middle_withdraws_the_challenge_and_gives_the_lease_up(
    start: Start, site: Deployment, tmp_path: Path
) -> None:
    async with front(start(), tmp_path / "front") as before:
        came, _ = await held_up(before, "/chalZ/")
        replica = site.replica(at(before))
        await replica.keeper.start()
        await asyncio.wait_for(came.wait(), DEADLINE_S)
        assert len(site.state._challenges) == 2

        await asyncio.wait_for(replica.keeper.stop(), DEADLINE_S)

        await nothing_left(site)


async def test_another_secret_is_told_and_begins_anew_beside_the_old(start: Start, site: Deployment) -> None:
    pebble = start()
    old, new = site.replica(at(pebble)), site.replica(at(pebble), secret=Secret("another secret of thirty-two bytes!"))
    await old.keeper.round()

    await new.keeper.start()
    await new.keeper.stop()
    await new.keeper.round()

    (line,) = new.logged("the certificates in the shared state are sealed under another")
    assert "Give every replica the same one" in line["msg"]
    assert new.served[0].key.reveal() != old.served[0].key.reveal()
    # Going back finds what was there: replicas of both kinds order once each, however often they start.
    for replica in (old, new, old, new):
        again = (
            site.replica(at(pebble), secret=Secret("another secret of thirty-two bytes!"))
            if replica is new
            else (site.replica(at(pebble)))
        )
        await again.keeper.round()
        assert again.served == replica.served
    assert pebble.orders == 2


async def test_a_damaged_certificate_in_the_store_is_told_and_replaced_but_not_again_and_again(
    start: Start, site: Deployment
) -> None:
    pebble = start()
    replica = site.replica(at(pebble))
    await replica.keeper.round()
    site.time.pass_s(7_200)

    async def damage() -> None:
        name = replica.vault._certificate
        sealed = await site.state.read_sealed(name)
        lease = await site.state.take_lease(LEASE, "somebody", 1)
        assert sealed is not None
        assert lease is not None
        assert await site.state.write_sealed(name, sealed.blob[:-1] + b"\0", lease)
        await site.state.release_lease(lease)

    await damage()
    await replica.keeper.round()
    await damage()
    for _ in range(3):
        await replica.keeper.round()

    assert pebble.orders == 2
    assert len(replica.served) == 2
    assert len(replica.logged("a stored record is of no use")) == 2
    assert "is damaged" in replica.logged("a stored record is of no use")[0]["error"]
    site.time.pass_s(3_600)
    await replica.keeper.round()
    assert pebble.orders == 3


async def test_other_names_begin_anew_beside_the_old(start: Start, site: Deployment) -> None:
    """While a change of the names rolls out, replicas of both kinds must not take turns in ordering."""
    pebble = start()
    old = site.replica(at(pebble))
    new = site.replica(at(pebble), names=(*NAMES, "new.example.com"))
    for replica in (old, new, old, new):
        await replica.keeper.round()

    assert pebble.orders == 2
    assert new.served[0].names == (*NAMES, "new.example.com")
    assert old.served[0].names == NAMES
    assert pebble.count("/sign-me-up") == 1, "they share the account"


async def test_nothing_in_the_store_is_readable_without_the_secret(start: Start, site: Deployment) -> None:
    replica = site.replica(at(start()))
    await replica.keeper.round()
    account, _ = await replica.vault.read_account()
    assert account is not None

    blobs = {name: sealed.blob for name, sealed in site.state._sealed.items()}

    assert len(blobs) == 4
    assert MARK in blobs
    assert_sealed(b"".join(blobs.values()), (await replica.issued()).key_pem, account.key_pem)


def assert_sealed(store: bytes, *keys: bytes) -> None:
    from base64 import b64decode

    for pem in keys:
        lines = pem.splitlines()[1:-1]
        der = b64decode(b"".join(lines))
        assert not any(line in store for line in lines)
        assert der not in store
        assert der[-40:] not in store


async def test_the_library_logs_no_key_either(start: Start, site: Deployment, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    replica = site.replica(at(start()))

    await replica.keeper.round()

    account, _ = await replica.vault.read_account()
    assert account is not None
    for pem in (account.key_pem, (await replica.issued()).key_pem):
        # The lines with the private number; what follows is the public key, which the certificate shows to everybody.
        assert not any(line in caplog.text for line in pem.decode().splitlines()[1:3])


async def test_an_account_that_the_authority_closed_is_told(start: Start, site: Deployment) -> None:
    pebble = start()
    replica = site.replica(at(pebble))
    await replica.keeper.round()
    account, _ = await replica.vault.read_account()
    assert account is not None
    url, key = account.url, load_pem_private_key(account.key_pem, None)

    def close() -> None:
        network = Network(JWKEC(key=key), pebble.ca)
        client = ClientV2(ClientV2.get_directory(pebble.directory, network), network)
        network.account = messages.RegistrationResource(body=messages.Registration(), uri=url)
        client.net.post(url, messages.UpdateRegistration(status=messages.STATUS_DEACTIVATED),
                        new_nonce_url=client.directory["newNonce"])  # fmt: skip

    await asyncio.to_thread(close)
    site.time.pass_s(61 * DAY_S)
    await replica.keeper.round()

    (line,) = replica.logged("no certificate was obtained")
    assert "the authority answered" in line["error"]
    assert len(replica.served) == 1
