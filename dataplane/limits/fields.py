"""What a response says of budgets: `RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers-11."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from common.state.budgets import MAX_COUNT
from dataplane.errors import GatewayError

if TYPE_CHECKING:
    from common.routetable.compiled import Budget
    from common.state.budgets import BudgetResult


class BudgetFields:
    """The budgets of one step as the fields `RateLimit-Policy` (§3) and `RateLimit` (§4) name them.

    `deployment` is told only to whom it refuses: what is left of it would show every caller the load of all others,
    and when to strike (§8.2 of the draft).
    """

    __slots__ = ("limit_format", "policies", "policy_header", "scopes", "untold")

    def __init__(self, budgets: Sequence[tuple[str, Budget]]) -> None:
        self.scopes = tuple(scope for scope, _ in budgets)
        self.policies = tuple(_policy(scope, budget) for scope, budget in budgets)
        self.untold = 1 if self.scopes[:1] == ("deployment",) else 0
        self.policy_header = (b"ratelimit-policy", b", ".join(self.policies[self.untold :]))
        self.limit_format = b", ".join(b'"%s";r=%%d;t=%%d' % scope.encode() for scope in self.scopes[self.untold :])

    def add_to(self, headers: list[tuple[bytes, bytes]], results: Sequence[BudgetResult]) -> None:
        """Say what is left of each, and for how many seconds no more than that."""
        if not self.limit_format:
            return
        values: list[int] = []
        for _, remaining, _, reset_ms in results[self.untold :]:
            values += (remaining, -(-reset_ms // 1000))
        headers.append((b"ratelimit", self.limit_format % tuple(values)))
        headers.append(self.policy_header)

    def refusal(self, place: int, retry_after_s: int) -> GatewayError:
        """The answer of the budget at `place`: `t` and `retry-after` name the same moment (§6 of the draft)."""
        scope, policy = self.scopes[place], self.policies[place]
        return GatewayError(
            "too_many_requests",
            f"budget {policy.decode()}",
            headers=(
                (b"ratelimit", b'"%s";r=0;t=%d' % (scope.encode(), retry_after_s)),
                (b"ratelimit-policy", policy),
            ),
            retry_after_s=retry_after_s,
        )


def _policy(scope: str, budget: Budget) -> bytes:
    # A window is whole seconds there; one under a second is told as one.
    quota, window_s = min(budget.max_requests, MAX_COUNT), -(-budget.window_ms // 1000)
    return b'"%s";q=%d;w=%d' % (scope.encode(), quota, window_s)
