"""Limits of requests (§9): which budgets a request meets, under which keys, and what a refusal says.

    exchange -> RequestLimits   deployment, client, route (or none)   ┐
             -> PrincipalLimit  principal on this route               ├─> Limiter ─> BudgetStore
    /auth/login -> LoginLimit   login                                 ┘      └── fallback while that is away

The budgets of a step are checked in one operation of the store. The first that refuses, in the contract's order, is
the answer: 429 with `retry-after`. What answers any other request says what is left of the caller's budgets.

Concurrency: steps keep nothing of a request; counts live in the store. Failure: a store that is away raises
`StateUnavailable`, and `GATEWAY_RATE_LIMIT_FALLBACK` says what then holds.
"""

from __future__ import annotations

from dataplane.limits.limiter import Limiter
from dataplane.limits.steps import DeploymentBudgets, LoginLimit, PrincipalLimit, RequestLimits

__all__ = ["DeploymentBudgets", "Limiter", "LoginLimit", "PrincipalLimit", "RequestLimits"]
