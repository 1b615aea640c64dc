"""The two demo accounts and the one demo workspace: one may see it, the other may not."""

from __future__ import annotations

from dataclasses import dataclass

WORKSPACE_ID = "6f1c2a58-93b4-4c0e-8a27-5d0be1f4c973"


@dataclass(frozen=True, slots=True)
class Account:
    """Someone who can sign in at the development provider. There is no password: choosing an account is signing in."""

    name: str
    subject: str
    email: str
    roles: tuple[str, ...]
    summary: str
    """What the sign-in page says of the account."""


MEMBER = Account("member", "demo-member", "member@example.test", ("developer",), "may open the demo workspace")
GUEST = Account("guest", "demo-guest", "guest@example.test", (), "is refused by Access at the demo workspace")

ACCOUNTS: dict[str, Account] = {account.name: account for account in (MEMBER, GUEST)}
