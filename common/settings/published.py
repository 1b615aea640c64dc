"""Secret values that this repository publishes: everybody knows them, so production refuses them (§4.3).

A test reads the examples, the development program and the deployment files, and holds this list to what they show.
"""

from __future__ import annotations

PUBLISHED_SECRETS = frozenset[str]()
"""Values of secrets in examples and fixtures."""

PUBLISHED_KEYS = frozenset[str]()
"""SHA-256 (hex) of the DER SubjectPublicKeyInfo of published private keys."""

# What an example says where a person is to put a value.
_PLACEHOLDERS = ("replace-this", "replace_this", "change-me", "changeme", "change_me")


def is_published(text: str) -> bool:
    """Whether a value is one of the repository's, or still its placeholder."""
    lower = text.lower()
    return text in PUBLISHED_SECRETS or any(word in lower for word in _PLACEHOLDERS)
