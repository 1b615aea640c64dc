"""The identity signature is frozen: applications out there verify it (§7.4, CONTRACT §14.1)."""

from __future__ import annotations

from typing import Any

import pytest

from common.identity import headers, signature
from common.identity.headers import IdentityFields, written_identity
from common.identity.principal import Principal
from common.identity.signature import IdentityInvalid, IdentitySigner, identity_payload, verify_identity
from tests.support.identity_cases import Case, cases, vector

REQUEST = {"method": "GET", "path": "/base/ws/123", "query": "?x=1", "host": "api.example.com"}
CALLER = Principal("user-1", "user@example.com", ("dev", "admin"))
WORKSPACE = "11111111-1111-4111-8111-111111111111"
PAYLOAD = (
    b'{"v":"v5","method":"GET","path":"/base/ws/123","query":"?x=1","host":"api.example.com","subject":"user-1",'
    b'"workspaceId":"11111111-1111-4111-8111-111111111111","email":"user@example.com","roles":["admin","dev"]}'
)


def test_the_payload_of_the_vector_is_pinned() -> None:
    assert identity_payload(written_identity(CALLER, WORKSPACE).fields, **REQUEST) == PAYLOAD


def test_the_payload_always_has_all_nine_fields() -> None:
    payload = identity_payload(IdentityFields("a"), method="HEAD", path="*", query="", host="")
    assert payload == (
        b'{"v":"v5","method":"HEAD","path":"*","query":"","host":"","subject":"a","workspaceId":"","email":"","roles":[]}'
    )


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ('"', b'\\"'),
        ("\\", b"\\\\"),
        ("/", b"/"),
        ("<&>'", b"<&>'"),
        ("\u00e9", b"\xc3\xa9"),
        ("\u2028", b"\xe2\x80\xa8"),
        ("\U0001f600", b"\xf0\x9f\x98\x80"),
        ("\x7f", b"\x7f"),
        ("\t\n\x00\x1f", b"\\t\\n\\u0000\\u001f"),
    ],
)
def test_strings_escape_what_json_must_and_nothing_else(text: str, written: bytes) -> None:
    payload = identity_payload(IdentityFields(text), method="GET", path="/", query="", host="")
    assert b'"subject":"' + written + b'",' in payload


def test_the_protected_header_is_pinned() -> None:
    assert signature.PROTECTED_HEADER == b'{"alg":"ES256","typ":"gateway-identity"}'
    value = IdentitySigner().sign(PAYLOAD)
    assert value.startswith(b"v5=eyJhbGciOiJFUzI1NiIsInR5cCI6ImdhdGV3YXktaWRlbnRpdHkifQ..")
    assert len(value.rpartition(b".")[2]) == 86


def test_the_names_of_the_headers_are_pinned() -> None:
    names = (
        headers.AUTHENTICATED,
        headers.USER_ID,
        headers.EMAIL,
        headers.ROLES,
        headers.WORKSPACE_ID,
        headers.SIGNATURE,
    )
    assert names == (
        b"x-gateway-authenticated",
        b"x-gateway-user-id",
        b"x-gateway-email",
        b"x-gateway-roles",
        b"x-gateway-workspace-id",
        b"x-gateway-signature",
    )


def test_the_published_vector_still_verifies() -> None:
    published = vector()
    assert published["payload"].encode() == PAYLOAD
    assert published["protectedHeader"].encode() == signature.PROTECTED_HEADER
    request = published["request"]
    sent = [(name.encode(), value.encode()) for name, value in request["headers"]]
    path, mark, query = request["target"].partition("?")
    told: dict[str, Any] = {"method": request["method"], "path": path, "query": mark + query}
    found = verify_identity(published["publicKey"], sent, **told)
    assert found == written_identity(CALLER, WORKSPACE).fields
    assert published["caller"] == {
        "subject": found.subject,
        "email": found.email,
        "workspaceId": found.workspace_id,
        "roles": list(found.roles),
    }
    with pytest.raises(IdentityInvalid):
        verify_identity(published["publicKey"], sent, **{**told, "method": "POST"})


SIGNER = IdentitySigner()


@pytest.mark.parametrize("case", list(cases(SIGNER)), ids=lambda case: case.name)
def test_the_gateways_own_verifier_accepts_and_refuses(case: Case) -> None:
    path, mark, query = case.target.partition("?")
    told = {"method": case.method, "path": path, "query": mark + query}
    if case.caller is not None:
        assert verify_identity(SIGNER.public_key_pem, case.headers, **told) == case.caller
        return
    with pytest.raises(IdentityInvalid):
        verify_identity(SIGNER.public_key_pem, case.headers, **told)
