"""The identity signature: made by the key alone, for one request of one caller."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from joserfc import jws
from joserfc.jwk import ECKey, OctKey

from common.identity import signature
from common.identity.headers import IdentityFields, written_identity
from common.identity.principal import Principal
from common.identity.signature import (
    IdentityInvalid,
    IdentitySigner,
    SigningKeyInvalid,
    _raw,
    identity_payload,
    load_key,
    new_private_key_pem,
    verify_identity,
)

PEM = new_private_key_pem()
SIGNER = IdentitySigner(PEM)
TOLD = {"method": "GET", "path": "/base/ws/123", "query": "?x=1"}
HOST = "api.example.com"
WRITTEN = written_identity(Principal("user-1", "user@example.com", ("dev", "admin")), "w-1")
PAYLOAD = identity_payload(WRITTEN.fields, **TOLD, host=HOST)
Headers = dict[bytes, bytes]


def signed(signer: IdentitySigner = SIGNER) -> Headers:
    return {**dict(WRITTEN.headers), b"x-forwarded-host": HOST.encode(), b"x-gateway-signature": signer.sign(PAYLOAD)}


def verified(headers: Headers, **told: str) -> IdentityFields:
    return verify_identity(SIGNER.public_key_pem, headers.items(), **{**TOLD, **told})


def test_a_signature_verifies_with_the_public_key() -> None:
    assert verified(signed()) == WRITTEN.fields


def test_a_signature_is_a_jws_that_another_library_verifies() -> None:
    value = SIGNER.sign(PAYLOAD).decode()
    assert value.startswith("v5=")
    protected, payload, mark = value.removeprefix("v5=").split(".")
    assert payload == ""
    assert json.loads(base64.urlsafe_b64decode(protected + "==")) == {"alg": "ES256", "typ": "gateway-identity"}
    whole = f"{protected}.{base64.urlsafe_b64encode(PAYLOAD).rstrip(b'=').decode()}.{mark}"
    assert (
        jws.deserialize_compact(whole, ECKey.import_key(SIGNER.public_key_pem), algorithms=["ES256"]).payload == PAYLOAD
    )


@pytest.mark.parametrize("told", [{"method": "POST"}, {"path": "/base/ws/124"}, {"query": "?x=2"}, {"query": ""}])
def test_a_signature_of_another_request_is_refused(told: dict[str, str]) -> None:
    with pytest.raises(IdentityInvalid):
        verified(signed(), **told)


@pytest.mark.parametrize(
    "name",
    [b"x-gateway-user-id", b"x-gateway-email", b"x-gateway-roles", b"x-gateway-workspace-id", b"x-forwarded-host"],
)
@pytest.mark.parametrize("change", [lambda value: value + b"x", lambda value: b"", lambda value: None])
def test_a_changed_or_missing_header_is_refused(name: bytes, change: Callable[[bytes], bytes | None]) -> None:
    headers = signed()
    value = change(headers.pop(name))
    with pytest.raises(IdentityInvalid):
        verified(headers if value is None else {**headers, name: value})


@pytest.mark.parametrize("name", sorted(set(signed()) - {b"x-gateway-authenticated"}))
def test_a_repeated_header_is_refused(name: bytes) -> None:
    headers = [*signed().items(), (name, signed()[name])]
    with pytest.raises(IdentityInvalid, match="repeated"):
        verify_identity(SIGNER.public_key_pem, headers, **TOLD)


def test_a_header_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(IdentityInvalid, match="UTF-8"):
        verified({**signed(), b"x-gateway-email": b"\xff"})


def test_anothers_key_is_refused() -> None:
    with pytest.raises(IdentityInvalid):
        verified(signed(IdentitySigner(new_private_key_pem())))


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def forged(header: dict[str, object], *, key: object = None) -> bytes:
    """A value whose protected header is the attacker's, signed with the attacker's key where one is given."""
    own = key or ECKey.import_key(PEM)
    algorithm = str(header.get("alg", "none"))
    token = jws.serialize_compact(header, PAYLOAD, own, algorithms=[algorithm])  # type: ignore[arg-type]
    protected, _, mark = token.split(".")
    return f"v5={protected}..{mark}".encode()


def test_only_the_algorithm_of_the_version_is_accepted() -> None:
    """R19: the public key as an HMAC secret, and no algorithm at all."""
    public = OctKey.import_key(b64(SIGNER.public_key_pem.encode()) + "x" * 8)
    for value in (
        forged({"alg": "HS256", "typ": "gateway-identity"}, key=public),
        b"v5=" + b64(b'{"alg":"none","typ":"gateway-identity"}').encode() + b"..",
        b"v5=" + b64(b'{"alg":"none","typ":"gateway-identity"}').encode() + b"..AA",
        b"v5=" + b64(b'{"alg":"ES256","typ":"gateway-identity"}').encode() + b".." + b64(bytes(64)).encode(),
    ):
        with pytest.raises(IdentityInvalid):
            verified({**signed(), b"x-gateway-signature": value})


@pytest.mark.parametrize("header", [{"alg": "ES256"}, {"alg": "ES256", "typ": "JWT"}])
def test_a_signature_of_another_type_is_refused(header: dict[str, object]) -> None:
    """A token that the same key signed for another purpose."""
    with pytest.raises(IdentityInvalid, match="type"):
        verified({**signed(), b"x-gateway-signature": forged(header)})


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"v5",
        b"v5=",
        b"v4=a..b",
        b"V5=a..b",
        b" v5=a..b",
        b"v5=a.b",
        b"v5=a..b.c",
        b"v5=...",
        b"v5=..",
        b"v5=a..",
        b"v5=..b",
        b"v5=a.payload.b",
        b"v5=!..!",
        b"v5=e30..AA",
        b"v5=W10..AA",
        b"v5=IngI..AA",
        b"v5=bnVsbA..AA",
        b"v5=\xc3\xa9..AA",
    ],
)
def test_a_value_that_is_no_detached_signature_is_refused(value: bytes) -> None:
    with pytest.raises(IdentityInvalid):
        verified({**signed(), b"x-gateway-signature": value})


def test_a_payload_inside_the_value_is_refused_even_when_it_is_signed() -> None:
    protected, _, mark = signed()[b"x-gateway-signature"].removeprefix(b"v5=").split(b".")
    value = b"v5=" + protected + b"." + b64(PAYLOAD).encode() + b"." + mark
    with pytest.raises(IdentityInvalid, match="detached"):
        verified({**signed(), b"x-gateway-signature": value})


def test_a_request_without_a_subject_states_no_caller() -> None:
    payload = identity_payload(IdentityFields(""), **TOLD, host="")
    with pytest.raises(IdentityInvalid, match="subject"):
        verify_identity(SIGNER.public_key_pem, [(b"x-gateway-signature", SIGNER.sign(payload))], **TOLD)


def test_what_says_the_same_is_signed_once_and_the_rest_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signature, "CACHED_SIGNATURES", 2)
    signer = IdentitySigner(PEM)

    def lines(subject: str) -> bytes:
        return signer.lines(Principal(subject), None, **TOLD, host=HOST)

    first = lines("a")
    assert lines("a") == first
    assert lines("b") != first
    lines("c")  # the bound is two: the oldest goes
    assert lines("a") != first


@pytest.mark.parametrize("part", ["subject", "email", "roles", "workspace_id", "method", "path", "query", "host"])
def test_whatever_part_differs_is_signed_by_itself(part: str) -> None:
    """A remembered signature of another request or caller would be refused, or would name the wrong one."""
    said: dict[str, Any] = {"subject": "a", "email": "b", "roles": ("c",), "workspace_id": "d", **TOLD, "host": HOST}
    for values in (said, said | {part: ("x",) if part == "roles" else "x"}):
        caller = Principal(values["subject"], values["email"], values["roles"])
        told = {name: values[name] for name in ("method", "path", "query")}
        for _ in range(2):
            lines = SIGNER.lines(caller, values["workspace_id"], **told, host=values["host"])
            headers = [tuple(line.split(b": ", 1)) for line in lines.split(b"\r\n")[:-1]]
            headers.append((b"x-forwarded-host", values["host"].encode()))
            fields = verify_identity(SIGNER.public_key_pem, headers, **told)
            assert fields == written_identity(caller, values["workspace_id"]).fields


def test_a_long_payload_is_not_remembered() -> None:
    empty = len(identity_payload(IdentityFields("a"), method="GET", path="", query="", host=""))
    longest = signature.CACHED_MAX_BYTES - empty

    def remembered(path: str, *roles: str) -> bool:
        one, other = (SIGNER.lines(Principal("a", roles=roles), None, "GET", path, "", "") for _ in range(2))
        return one == other

    assert remembered("/" * longest)
    assert not remembered("/" * (longest + 1))
    assert not remembered("/", "a role, which no header carries" * 100)


def test_replicas_with_one_key_accept_each_others_signatures() -> None:
    assert IdentitySigner(PEM).public_key_pem == SIGNER.public_key_pem
    assert verified(signed(IdentitySigner(PEM))) == WRITTEN.fields


def test_without_a_key_each_process_has_its_own() -> None:
    one, other = IdentitySigner(), IdentitySigner()
    assert one.public_key_pem != other.public_key_pem
    with pytest.raises(IdentityInvalid):
        verify_identity(other.public_key_pem, signed(one).items(), **TOLD)


def test_a_key_may_have_its_line_ends_escaped() -> None:
    assert IdentitySigner(PEM.replace("\n", "\\n")).public_key_pem == SIGNER.public_key_pem
    assert IdentitySigner(PEM.rstrip("\n")).public_key_pem == SIGNER.public_key_pem


def pkcs8(
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey, password: bytes = b""
) -> str:
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption).decode()


UNUSABLE = {
    "empty": "",
    "a password": "secret",
    "cut": PEM[:-60],
    "mislabelled": PEM.replace("PRIVATE KEY", "PUBLIC KEY"),
    "public": SIGNER.public_key_pem,
    "P-384": pkcs8(ec.generate_private_key(ec.SECP384R1())),
    "secp256k1": pkcs8(ec.generate_private_key(ec.SECP256K1())),
    "RSA": pkcs8(rsa.generate_private_key(65_537, 2_048)),
    "Ed25519": pkcs8(ed25519.Ed25519PrivateKey.generate()),
    "encrypted": pkcs8(ec.generate_private_key(ec.SECP256R1()), b"password"),
    "not ASCII": "\u00e9",
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_a_key_that_cannot_sign_is_refused_without_being_quoted(kind: str) -> None:
    pem = UNUSABLE[kind]
    with pytest.raises(SigningKeyInvalid) as raised:
        load_key(pem)
    assert not pem or pem not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


def test_no_part_of_the_key_is_in_a_repr() -> None:
    body = "".join(PEM.splitlines()[1:-1])
    assert body[:20] not in repr(SIGNER)
    assert body[:20] not in repr(vars(SIGNER))


@pytest.mark.parametrize("r", [1, 0x7F, 0x80, 2**248 - 1, 2**255, 2**256 - 1])
@pytest.mark.parametrize("s", [1, 0x80, 2**255 - 1, 2**256 - 1])
def test_a_signatures_integers_are_written_at_full_length(r: int, s: int) -> None:
    assert _raw(encode_dss_signature(r, s)) == r.to_bytes(32, "big") + s.to_bytes(32, "big")
