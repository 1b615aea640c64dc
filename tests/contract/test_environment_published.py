"""Whatever secret the repository shows is on the list of published values, which production refuses (§4.3)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from common.settings.keys import key_fingerprint
from common.settings.published import PUBLISHED_KEYS, is_published
from common.settings.strength import weakness

ROOT = Path(__file__).parents[2]
# Where people copy from: documents, deployment files, examples, the development program, and helpers of tests.
SHOWN = ("README.md", "deploy", "docs", "dataplane", "openapi", "tests/support", "Makefile")
ASSIGNMENT = re.compile(
    r"""(?:GATEWAY_(?:SESSION_SECRET|ACCESS_TOKEN|OIDC_CLIENT_SECRET|METRICS_TOKEN|TLS_STORE_SECRET|
        ACME_DNS_WRITER_TOKEN|ACME_EAB_HMAC)|ACCESS_TOKEN)
        ["'`]? \s* [:=] \s* ["'`]? (?P<value> [!#%-~]{8,})""",
    re.VERBOSE,
)
PEM = re.compile(r"-----BEGIN (?:EC |RSA )?PRIVATE KEY-----[A-Za-z0-9+/=\s\\]+-----END (?:EC |RSA )?PRIVATE KEY-----")


def shown_texts() -> list[tuple[str, str]]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *SHOWN], cwd=ROOT, check=True, capture_output=True, timeout=60
    ).stdout.decode()
    texts = []
    for name in filter(None, listed.split("\0")):
        content = (ROOT / name).read_bytes() if (ROOT / name).is_file() else b""
        if b"\0" not in content:
            texts.append((name, content.decode("utf-8", "replace")))
    return texts


def unlisted(texts: list[tuple[str, str]]) -> list[str]:
    """Where a value stands that production would take for a secret; weak ones it refuses anyhow."""
    found = []
    for name, text in texts:
        for match in ASSIGNMENT.finditer(text):
            value = match["value"].rstrip("\"'`,;)")
            if not value.startswith(("$", "<", "{")) and weakness(value) is None:
                found.append(f"{name}: {match[0]}")
        keys = (match[0].replace("\\n", "\n") for match in PEM.finditer(text))
        found += [f"{name}: a private key" for key in keys if key_fingerprint(key) not in PUBLISHED_KEYS]
    return found


def test_every_secret_that_the_repository_shows_is_refused_in_production() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout: what is published cannot be listed")
    assert unlisted(shown_texts()) == []


def test_the_search_finds_what_it_is_for() -> None:
    from tests.support.environments import P256_PEM

    secret = "kJ8vN2qR5tY7wZ1xC4bM6nL9pS3dF0gH-" + "x"
    for line in (
        f"export GATEWAY_SESSION_SECRET={secret}",
        f"GATEWAY_METRICS_TOKEN: '{secret}'",
        f'"GATEWAY_OIDC_CLIENT_SECRET": "{secret}",',
        f"ACCESS_TOKEN={secret} gateway-access policy.json",
        P256_PEM,
        P256_PEM.replace("\n", "\\n"),
    ):
        assert len(unlisted([("example", line)])) == 1, line
    for line in (
        "GATEWAY_SESSION_SECRET=$(openssl rand -hex 32)",
        "GATEWAY_ACCESS_TOKEN=replace-this-by-a-strong-token-of-yours",
        "GATEWAY_ACCESS_TOKEN=dev",
    ):
        assert unlisted([("example", line)]) == [], line
    assert is_published("replace-this-by-a-strong-token-of-yours")
