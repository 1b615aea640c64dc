"""Who a credential names."""

from __future__ import annotations

from typing import Literal

from common.values import hot_value


@hot_value
class Principal:
    """An authenticated caller.

    `subject` is the provider's `sub`, unchanged. `email` is as the credential carries it, `""` when it carries none.
    `roles` are as the provider gave them (Access sees these; headers and signature see the filtered ones, §7.4).
    """

    subject: str
    email: str = ""
    roles: tuple[str, ...] = ()
    credential: Literal["session", "bearer"] = "session"
