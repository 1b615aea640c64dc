"""What can go wrong with a provider, a token and a login: three kinds, answered in three ways."""

from __future__ import annotations

from typing import Literal


class ProviderUnavailable(Exception):
    """The provider gave no usable answer: unreachable, too slow, an error, or nonsense. Answered 503.

    The text is for the log: it names addresses and kinds of failure, never a credential.
    """


class TokenRefused(Exception):
    """A token is not accepted. `reason` is the label of the failure metric; the text is for the log."""

    def __init__(self, detail: str, reason: Literal["invalid", "expired"] = "invalid") -> None:
        super().__init__(detail)
        self.reason = reason


class LoginFailed(Exception):
    """A login cannot be completed: the provider refused it, or its answer does not belong to it. Answered 400."""
