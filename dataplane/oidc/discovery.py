"""The provider's metadata (OpenID Connect Discovery 1.0 §4), read strictly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from common.settings.urls import is_private_host
from dataplane.oidc.errors import ProviderUnavailable

_WELL_KNOWN = "/.well-known/openid-configuration"


@dataclass(frozen=True, slots=True)
class ProviderMetadata:
    """What a client needs to know of its provider. Every address was checked by `read_metadata`."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    end_session_endpoint: str | None
    sends_issuer: bool
    """An authorization response carries `iss` (RFC 9207 §3), so one without it is refused."""


def metadata_address(issuer: str) -> str:
    """Where an issuer's metadata is: only here does a trailing slash of the issuer not matter (§4.1)."""
    return issuer.rstrip("/") + _WELL_KNOWN


def read_metadata(document: Mapping[str, Any], issuer: str) -> ProviderMetadata:
    """The metadata in `document`, which must name exactly this `issuer`, character for character (§4.3).

    Issuer and endpoints must be https. The exception is a development provider: an http issuer on the deployment's own
    network (which the settings admit outside production alone), whose endpoints may be http there too. A document that
    is anything else is `ProviderUnavailable`, with a text that says what to correct.
    """
    named = document.get("issuer")
    if named != issuer:
        raise ProviderUnavailable(
            f"the provider calls itself {_shown(named)}, but GATEWAY_OIDC_ISSUER is {issuer!r}: they must be equal"
        )
    plain = _checked("issuer", issuer, plain=True).scheme == "http"
    end_session = document.get("end_session_endpoint")
    return ProviderMetadata(
        issuer=issuer,
        authorization_endpoint=_endpoint(document, "authorization_endpoint", plain=plain),
        token_endpoint=_endpoint(document, "token_endpoint", plain=plain),
        jwks_uri=_endpoint(document, "jwks_uri", plain=plain),
        end_session_endpoint=(
            None if end_session is None else _endpoint(document, "end_session_endpoint", plain=plain)
        ),
        sends_issuer=document.get("authorization_response_iss_parameter_supported") is True,
    )


def _endpoint(document: Mapping[str, Any], name: str, *, plain: bool) -> str:
    value = document.get(name)
    _checked(name, value, plain=plain)
    return str(value)


def _checked(name: str, value: object, *, plain: bool) -> SplitResult:
    # Looked at before it is parsed: urlsplit drops tabs and line feeds without a word.
    if not isinstance(value, str) or not value.isascii() or not value.isprintable() or " " in value:
        raise ProviderUnavailable(f"the provider's {name} is no address: {_shown(value)}")
    try:
        parts = urlsplit(value)
        usable = bool(parts.hostname) and parts.username is None and not parts.fragment and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ProviderUnavailable(f"the provider's {name} is no address: {_shown(value)}")
    if parts.scheme != "https" and not (plain and parts.scheme == "http" and is_private_host(parts.hostname or "")):
        raise ProviderUnavailable(f"the provider's {name} must be https: {_shown(value)}")
    return parts


def _shown(value: object) -> str:
    return repr(value)[:200]
