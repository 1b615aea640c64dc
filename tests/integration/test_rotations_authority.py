"""A changed binding to an authority's account: which certificate and account stay.

docs/secrets.md promises it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from common.settings.secret import Secret
from dataplane.tls.acme.authority import AuthoritySettings
from tests.support.acme import Deployment, port_80
from tests.support.pebble import EAB_HMAC, EAB_KID, Pebble, start_pebble
from tests.support.ports import free_port
from tests.support.processes import Children

pytestmark = pytest.mark.real

LIFETIME_DAYS = 90
OTHER_KID, OTHER_HMAC = "kid-that-comes-after-it", EAB_HMAC[::-1]


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def pebble(children: Children, tmp_path: Path, port: int) -> Pebble:
    """An authority that binds accounts to one of two that it knows."""
    return start_pebble(
        children,
        tmp_path / "pebble",
        port,
        certificateValidityPeriod=LIFETIME_DAYS * 86_400,
        externalAccountBindingRequired=True,
        externalAccountMACKeys={EAB_KID: EAB_HMAC, OTHER_KID: OTHER_HMAC},
    )


@pytest.fixture
async def site(port: int) -> AsyncIterator[Deployment]:
    deployment = Deployment()
    async with port_80(deployment.state, port):
        yield deployment


def bound(pebble: Pebble, kid: str, hmac: str) -> AuthoritySettings:
    return AuthoritySettings(pebble.directory, ca=pebble.ca, eab_kid=kid, eab_hmac=Secret(hmac))


async def test_a_new_external_account_keeps_the_certificate_until_its_renewal_which_makes_an_account(
    pebble: Pebble, site: Deployment
) -> None:
    old = site.replica(bound(pebble, EAB_KID, EAB_HMAC))
    new = site.replica(bound(pebble, OTHER_KID, OTHER_HMAC))
    await old.keeper.round()
    await new.keeper.round()
    assert new.served == old.served
    assert (pebble.orders, pebble.count("/sign-me-up")) == (1, 1)

    site.pass_days(LIFETIME_DAYS * 2 / 3 + 1)
    await new.keeper.round()
    assert (pebble.orders, pebble.count("/sign-me-up")) == (2, 2)
    assert new.reports[-1] is None
    assert new.served[-1] != new.served[0]
    # A gateway that still has the old pair serves the new certificate too.
    await old.keeper.round()
    assert new.served[-1] in old.served


async def test_a_renewal_does_not_need_the_key_that_bound_its_account(pebble: Pebble, site: Deployment) -> None:
    """It is shown once by the authority, and may be lost by the time of the renewal."""
    old = site.replica(bound(pebble, EAB_KID, EAB_HMAC))
    await old.keeper.round()
    site.pass_days(LIFETIME_DAYS * 2 / 3 + 1)

    new = site.replica(bound(pebble, EAB_KID, "bm8ga2V5IG9mIHRoZSBhY2NvdW50"))
    await new.keeper.round()

    assert (pebble.orders, pebble.count("/sign-me-up")) == (2, 1)
    assert new.served[-1] != old.served[-1]
