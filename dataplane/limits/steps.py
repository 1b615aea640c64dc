"""The steps that check budgets: 6 and 9 of the dispatcher, and that of `/auth/login` (§2.3, §5.2)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from common.ready import DONE
from common.routetable.compiled import Budget
from common.state.budgets import BudgetCheck
from common.values import remember
from dataplane.limits.fields import BudgetFields
from dataplane.limits.keys import address_part, key_part, route_part

if TYPE_CHECKING:
    from common.settings.gateway import GatewaySettings
    from dataplane.exchange import Exchange
    from dataplane.limits.limiter import Limiter

_Numbers: TypeAlias = tuple[int, int, int]
_Known: TypeAlias = "OrderedDict[tuple[_Plan, str, str], Sequence[BudgetCheck]]"
"""What counts the requests of the last callers, by plan, route and caller."""
LoginPart: TypeAlias = Literal["login", "callback"]

_KNOWN_MAX = 1024
_KNOWN_SUBJECT_MAX = 512
_PLANS_MAX = 1024  # Different budgets that routes had, across reloads: far more than a table has.


@dataclass(frozen=True, slots=True)
class DeploymentBudgets:
    """The deployment's budgets. None and a maximum of 0 turn a limiter off."""

    deployment: Budget | None = None
    client: Budget | None = None
    route: Budget | None = None
    principal: Budget | None = None
    login: Budget | None = None

    @staticmethod
    def of(settings: GatewaySettings) -> DeploymentBudgets:
        """The budgets that the environment names."""

        def budget(max_requests: int) -> Budget:
            return Budget(max_requests, settings.rate_limit_window_ms, settings.rate_limit_bucket_ms)

        return DeploymentBudgets(
            deployment=budget(settings.rate_limit_deployment_max),
            client=budget(settings.rate_limit_client_max),
            route=budget(settings.rate_limit_route_max),
            principal=budget(settings.rate_limit_principal_max),
            login=budget(settings.rate_limit_login_max),
        )


class RequestLimits:
    """Step 6: the deployment's budget, the caller's across routes, and the caller's on the route that matched.

    A request that matched none is counted for `none`, with the deployment's budget for a route, so that a flood of
    unknown paths is limited like any other.
    """

    def __init__(self, limiter: Limiter, budgets: DeploymentBudgets) -> None:
        self._limiter = limiter
        self._plans = _Plans(
            lambda route: _Plan(("deployment", budgets.deployment), ("client", budgets.client), ("route", route)),
            budgets.route,
        )
        self._known: _Known = OrderedDict()

    def __call__(self, x: Exchange) -> Awaitable[None]:
        """Count the request. Raises `too_many_requests`, or what the fallback says (`rate_limit_unavailable`)."""
        match = x.match
        plan = self._plans.default if match is None else self._plans.of(match.route.rate_limits.client)
        if plan.off:
            return DONE
        key = plan, "none" if match is None else route_part(match.route.id), x.forwarding.client
        checks = self._known.get(key)
        if checks is None:
            checks = remember(self._known, key, _checks(*key), _KNOWN_MAX)
        return self._limiter.enforce(x, checks, plan.fields, x.route_id)


def _checks(plan: _Plan, first: str, client: str) -> Sequence[BudgetCheck]:
    """What counts a request of this caller; `first` is the first part of the route's key."""
    keys = ("deployment:total", "client:" + (address := address_part(client)), f"{first}:{address}")
    return [BudgetCheck(key, *numbers) for key, numbers in zip(keys, plan.numbers, strict=True) if numbers is not None]


class PrincipalLimit:
    """Step 9: the authenticated caller's budget on the route. A request without a principal has none."""

    def __init__(self, limiter: Limiter, budgets: DeploymentBudgets) -> None:
        self._limiter = limiter
        self._plans = _Plans(lambda principal: _Plan(("principal", principal)), budgets.principal)
        self._known: _Known = OrderedDict()

    def __call__(self, x: Exchange) -> Awaitable[None]:
        """Count the request. Raises as `RequestLimits` does."""
        if x.principal is None:
            return DONE
        route = x.matched.route
        plan = self._plans.of(route.rate_limits.principal)
        numbers = plan.numbers[0]
        if numbers is None:
            return DONE
        subject = x.principal.subject
        known = plan, route.id, subject
        checks = self._known.get(known)
        if checks is None:
            checks = (BudgetCheck(f"{route_part(route.id)}:sub:{key_part(subject)}", *numbers),)
            if len(subject) <= _KNOWN_SUBJECT_MAX:
                remember(self._known, known, checks, _KNOWN_MAX)
        return self._limiter.enforce(x, checks, plan.fields, route.id)


class LoginLimit:
    """The budget of logins that one address may start, and as many that it may finish.

    One signed state cookie can be sent again and again, and each callback with it asks the provider: without a count a
    caller could turn the gateway against it.
    """

    def __init__(self, limiter: Limiter, budgets: DeploymentBudgets) -> None:
        self._limiter = limiter
        self._plan = _Plan(("login", budgets.login))

    async def __call__(self, x: Exchange, part: LoginPart) -> None:
        """Count a part of a login by the caller's address. Raises as `RequestLimits` does."""
        numbers = self._plan.numbers[0]
        if numbers is not None:
            check = BudgetCheck(f"{part}:{address_part(x.forwarding.client)}", *numbers)
            await self._limiter.enforce(x, (check,), self._plan.fields, "gateway")


class _Plan:
    """The budgets of a step, with everything about them that does not depend on the caller.

    `numbers` are the three of each budget as a check takes them, None for one that is off.
    """

    __slots__ = ("fields", "numbers", "off")

    def __init__(self, *budgets: tuple[str, Budget | None]) -> None:
        on = [(scope, budget) for scope, budget in budgets if budget is not None and budget.max_requests > 0]
        self.fields = BudgetFields(on)
        scopes = dict(on)
        self.off = not on
        self.numbers = tuple(_numbers(scopes[scope]) if scope in scopes else None for scope, _ in budgets)


class _Plans:
    """The plans of a step by the route's own budget: made once, looked up by its numbers."""

    __slots__ = ("_made", "_make", "default")

    def __init__(self, make: Callable[[Budget | None], _Plan], deployment: Budget | None) -> None:
        self._make = make
        self._made: dict[_Numbers, _Plan] = {}
        self.default = make(deployment)

    def of(self, own: Budget | None) -> _Plan:
        """The plan for a route's own budget; None follows the deployment's."""
        if own is None:
            return self.default
        numbers = _numbers(own)
        plan = self._made.get(numbers)
        if plan is None:
            if len(self._made) >= _PLANS_MAX:
                self._made.clear()
            plan = self._made[numbers] = self._make(own)
        return plan


def _numbers(budget: Budget) -> _Numbers:
    return budget.max_requests, budget.window_ms, budget.bucket_ms
