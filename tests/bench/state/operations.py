"""What is timed: the operations that requests make, each about one of a thousand callers."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable

from common.state.budgets import BudgetCheck
from common.state.ports import ControlState, DecisionKey, NewSession
from dataplane.access.keys import decision_key, service_digest
from dataplane.access.protocol import question

CALLERS = 1_000
_OFTEN = 10**9
_WINDOW = (_OFTEN, 60_000, 1_000)

HASHES = [hashlib.sha256(b"%d" % number).hexdigest() for number in range(CALLERS)]
SUBJECTS = [digest[:32] for digest in HASHES]
WORKSPACE = "6f1c2a58-93b4-4c0e-8a27-5d0be1f4c973"
_SERVICE = service_digest("http://access.internal:8090")
_DECISIONS = [
    DecisionKey(decision_key(_SERVICE, question(subject, WORKSPACE, "app", ("developer",))), subject, WORKSPACE)
    for subject in SUBJECTS
]  # fmt: skip
_ONE = [(BudgetCheck(f"app:10.0.{n >> 8}.{n & 255}", *_WINDOW),) for n in range(CALLERS)]
_FOUR = [
    (
        BudgetCheck("deployment:total", *_WINDOW),
        BudgetCheck(f"client:10.0.{n >> 8}.{n & 255}", *_WINDOW),
        BudgetCheck(f"app:10.0.{n >> 8}.{n & 255}", *_WINDOW),
        BudgetCheck(f"app:sub:{SUBJECTS[n]}", *_WINDOW),
    )
    for n in range(CALLERS)
]

Operation = Callable[[ControlState, int], Awaitable[object]]


async def _session_and_budget(state: ControlState, n: int) -> object:
    """What most requests ask for: both are on their way before either is answered."""
    session = state.read_session(HASHES[n])
    await state.check_budgets(_ONE[n])
    return await session


OPERATIONS: dict[str, Operation] = {
    "session read": lambda state, n: state.read_session(HASHES[n]),
    "one budget": lambda state, n: state.check_budgets(_ONE[n]),
    "four budgets": lambda state, n: state.check_budgets(_FOUR[n]),
    "session and one budget": _session_and_budget,
    "session touched": lambda state, n: state.touch_session(HASHES[n], 28_800_000),
    "decision read": lambda state, n: state.read_decision(_DECISIONS[n]),
    "decision written": lambda state, n: state.write_decision(
        _DECISIONS[n], allow=True, reason_code="", asked_at_ms=state.now_ms(), keep_ms=3_600_000
    ),
}


async def fill(state: ControlState) -> None:
    """The sessions and decisions that are read."""
    for n in range(CALLERS):
        await state.create_session(
            NewSession(
                HASHES[n], SUBJECTS[n], f"person-{n}@example.com", ("developer",), 28_800_000, 86_400_000
            )
        )  # fmt: skip
        await OPERATIONS["decision written"](state, n)
