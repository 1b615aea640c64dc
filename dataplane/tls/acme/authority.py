"""The authority, as the few things that an order asks of it (RFC 8555), each awaited beside the loop.

The library's client blocks, so each call runs in a thread, with a budget; one at a time, since it is not made for more.
Whatever goes wrong comes out as `OrderFailed`, in words for the operator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from acme import challenges, errors, messages
from acme.client import ClientV2
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from josepy.jwk import JWKEC

from common.settings.secret import Secret
from dataplane.tls.acme.failure import AccountGone, OrderFailed
from dataplane.tls.acme.network import Network
from dataplane.tls.acme.records import Account
from dataplane.tls.acme.thread import in_thread

CALL_BUDGET_S = 90.0
"""Of one step: a few requests, each of which may wait for the authority."""
FINALIZE_BUDGET_S = 120.0
"""An authority signs within seconds; some take their time to log the certificate publicly first."""
ASK_APART_S = 60.0
"""The least between two questions when to renew, whatever the authority says."""
POLL_S = 2.0
"""Between looks at a challenge where the authority does not say."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AuthoritySettings:
    """Which authority, and who this deployment is there. `email` may be `""`; `eab_kid` `""`: no external account."""

    directory: str
    email: str = ""
    ca: Path | None = None
    eab_kid: str = ""
    eab_hmac: Secret | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """What shows the authority that a name is ours: published before the challenge is accepted, withdrawn after.

    `token` and `answer` are those of `http-01`; `record` and `value` those of `dns-01`.
    """

    name: str
    token: str
    answer: str
    record: str
    value: str
    challenge: messages.ChallengeBody
    authorization: messages.AuthorizationResource


class Authority:
    """One conversation with the authority. Made for an attempt, and closed at its end."""

    def __init__(self, settings: AuthoritySettings, account: Account | None) -> None:
        """`account` is the stored one; None to make one."""
        self._settings = settings
        self._account = account
        self._key = _load_key(account.key_pem) if account else generate_private_key(SECP256R1())
        self._jwk = JWKEC(key=self._key)
        self._network = Network(self._jwk, settings.ca)
        self._client: ClientV2 | None = None
        self._busy = asyncio.Lock()

    def close(self) -> None:
        """Close the connections that are kept. A call that was left behind closes its own when it ends."""
        self._network.session.close()

    async def account(self) -> Account:
        """This deployment's account, registered or brought up to date as needed: keep what comes back."""
        return await self._call(self._enter, "the account")

    async def order(self, csr_pem: bytes) -> messages.OrderResource:
        """A new order for the names of a certificate request, with its authorizations."""
        return await self._call(lambda: self._connected().new_order(csr_pem), "the order")

    def proofs(self, order: messages.OrderResource, kind: str) -> list[Proof]:
        """What has to be shown by challenges of one kind; nothing for names that the authority still takes as shown."""
        return [
            self._proof(authorization, kind)
            for authorization in order.authorizations
            if authorization.body.status != messages.STATUS_VALID
        ]

    async def accept(self, proof: Proof) -> None:
        """Tell the authority to look."""
        body = proof.challenge
        await self._call(
            lambda: self._connected().answer_challenge(body, body.chall.response(self._jwk)),
            f"the challenge of {proof.name}",
        )

    async def shown(self, proof: Proof) -> float | None:
        """None once the authority is convinced, else the seconds until the next look. Its refusal is `OrderFailed`."""
        authorization, _ = await self._call(
            lambda: self._connected().poll(proof.authorization), f"the challenge of {proof.name}"
        )
        status = authorization.body.status
        if status == messages.STATUS_VALID:
            return None
        if status in (messages.STATUS_PENDING, messages.STATUS_PROCESSING):
            return self._network.retry_after_s or POLL_S
        raise OrderFailed(f"the authority does not take {proof.name} as shown: {_reason(authorization.body)}")

    async def finalize(self, order: messages.OrderResource) -> bytes:
        """The full chain, PEM."""

        def finish() -> str:
            # The library compares local times without a zone.
            deadline = datetime.now() + timedelta(seconds=FINALIZE_BUDGET_S - 2 * POLL_S)  # noqa: DTZ005
            return self._connected().finalize_order(order, deadline).fullchain_pem

        chain = await self._call(finish, "the certificate", budget_s=FINALIZE_BUDGET_S)
        return chain.encode()

    async def renewal_time(self, chain_pem: bytes) -> tuple[float | None, float]:
        """When it wants a certificate renewed, POSIX seconds, None where it does not say; in how many to ask again."""
        leaf = chain_pem.partition(b"-----END CERTIFICATE-----")

        def ask() -> tuple[datetime | None, datetime]:
            self._enter_directory()
            return self._connected().renewal_time(leaf[0] + leaf[1])

        renew_at, ask_at = await self._call(ask, "the time of renewal")
        ask_in_s = (ask_at - datetime.now()).total_seconds()  # noqa: DTZ005 - as above
        return None if renew_at is None else renew_at.timestamp(), max(ask_in_s, ASK_APART_S)

    def _enter_directory(self) -> ClientV2:
        if self._client is None:
            self._client = ClientV2(ClientV2.get_directory(self._settings.directory, self._network), self._network)
        return self._client

    def _enter(self) -> Account:
        client, known, email = self._enter_directory(), self._account, self._settings.email
        contact = (f"mailto:{email}",) if email else ()
        if known is None:
            url = self._register(client, contact)
            return Account(_pem(self._key), url, email)
        resource = messages.RegistrationResource(body=messages.Registration(), uri=known.url)
        self._network.account = resource
        if known.email != email:
            client.update_registration(resource, messages.Registration(contact=contact))
        return Account(known.key_pem, known.url, email)

    def _register(self, client: ClientV2, contact: tuple[str, ...]) -> str:
        settings = self._settings
        binding = None
        if settings.eab_kid and settings.eab_hmac is not None:
            binding = messages.ExternalAccountBinding.from_data(
                self._jwk.public_key(), settings.eab_kid, settings.eab_hmac.reveal(), client.directory
            )
        elif client.external_account_required():
            raise OrderFailed(
                "the authority wants accounts bound to one that you have there: set GATEWAY_ACME_EAB_KID and "
                "GATEWAY_ACME_EAB_HMAC"
            )
        new = messages.NewRegistration(contact=contact, terms_of_service_agreed=True, external_account_binding=binding)
        return client.new_account(new).uri

    def _connected(self) -> ClientV2:
        assert self._client is not None  # noqa: S101 - `account` or `renewal_time` came first
        return self._client

    def _proof(self, authorization: messages.AuthorizationResource, kind: str) -> Proof:
        name = authorization.body.identifier.value
        shown = f"*.{name}" if authorization.body.wildcard else name
        if authorization.body.status != messages.STATUS_PENDING:
            raise OrderFailed(f"the authority's authorization for {shown} is {authorization.body.status.name}")
        for body in authorization.body.challenges:
            chall = body.chall
            if isinstance(chall, challenges.HTTP01 | challenges.DNS01) and chall.typ == kind:
                return Proof(
                    name=shown,
                    token=chall.encode("token"),
                    answer=chall.key_authorization(self._jwk),
                    record=f"{challenges.DNS01.LABEL}.{name}",
                    value=chall.validation(self._jwk),
                    challenge=body,
                    authorization=authorization,
                )
        offered = ", ".join(sorted(str(body.chall.typ) for body in authorization.body.challenges)) or "none"
        raise OrderFailed(f"the authority offers no {kind} challenge for {shown}; it offers {offered}")

    async def _call(self, call: Callable[[], T], what: str, *, budget_s: float = CALL_BUDGET_S) -> T:
        async with self._busy:
            self._network.forget()
            try:
                return await in_thread(call, timeout_s=budget_s, name=f"acme: {what}")
            except TimeoutError:
                raise OrderFailed(f"{what}: the authority took longer than {budget_s:g} s", unreachable=True) from None
            except OrderFailed:
                raise
            except Exception as error:
                raise self._failure(what, error) from error

    def _failure(self, what: str, error: Exception) -> OrderFailed:
        network = self._network
        if isinstance(error, errors.IssuanceError):
            error = error.error
        if isinstance(error, messages.Error):
            kind = AccountGone if error.code == "accountDoesNotExist" else OrderFailed
            return kind(
                f"{what}: the authority answered {_problem(error)}",
                unreachable=network.status >= 500,
                retry_after_s=network.retry_after_s,
            )
        if isinstance(error, errors.TimeoutError):
            return OrderFailed(f"{what}: the authority was not done in time")
        if isinstance(error, OSError):  # every failure of `requests` is one
            return OrderFailed(f"{what}: the authority cannot be reached: {_network_fault(error)}", unreachable=True)
        answered = f"answered {network.status}, and not as RFC 8555 says" if network.status else "did not answer"
        return OrderFailed(
            f"{what}: the authority {answered} ({type(error).__name__})",
            unreachable=True,
            retry_after_s=network.retry_after_s,
        )


def make_key() -> bytes:
    """A fresh P-256 key, PKCS#8 PEM."""
    return _pem(generate_private_key(SECP256R1()))


def _pem(key: EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _load_key(pem: bytes) -> EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise OrderFailed("the stored key of the account cannot be read") from None
    assert isinstance(key, EllipticCurvePrivateKey)  # noqa: S101 - what `_enter` stored
    return key


def _reason(authorization: messages.Authorization) -> str:
    problems = [_problem(body.error) for body in authorization.challenges if body.error is not None]
    return "; ".join(problems) or f"it is {authorization.status.name}"


def _problem(error: messages.Error) -> str:
    """A problem document (RFC 7807) in one line: its kind, then the authority's words."""
    kind = str(error.typ).removeprefix(messages.ERROR_PREFIX)
    parts = [str(part) for part in (error.detail, error.title) if part]
    text = f"{kind}: {parts[0]}" if parts else kind
    below = [_problem(each) for each in error.subproblems or ()]
    return f"{text} ({'; '.join(below)})" if below else text


def _network_fault(error: OSError) -> str:
    """What happened, without the address: `SSLError: certificate verify failed`."""
    text = str(error)
    for known in ("certificate verify failed", "Connection refused", "Name or service not known", "timed out"):
        if known.lower() in text.lower():
            return f"{type(error).__name__}: {known.lower()}"
    return type(error).__name__
