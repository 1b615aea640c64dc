"""Decisions that count their age from their question, read several at once (§6).

Beside it the release before works on: its functions are there, with the arguments that they had.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_FUNCTIONS = Path(__file__).parents[1] / "functions" / revision

DATA_ROLE, CONTROL_ROLE = "gateway_data", "gateway_control"

FUNCTIONS = {
    "read_decisions": "(bytea[])",
    "write_decision": "(bytea, bytea, bytea, boolean, text, bigint, bigint)",
}


def upgrade(schema: str) -> None:  # noqa: ARG001
    for name, arguments in FUNCTIONS.items():
        op.get_bind().exec_driver_sql((_FUNCTIONS / f"{name}.sql").read_text())
        op.execute(f"REVOKE ALL ON FUNCTION {name}{arguments} FROM PUBLIC")
        op.execute(f"GRANT EXECUTE ON FUNCTION {name}{arguments} TO {DATA_ROLE}, {CONTROL_ROLE}")


def downgrade(schema: str) -> None:  # noqa: ARG001
    for name, arguments in FUNCTIONS.items():
        op.execute(f"DROP FUNCTION {name}{arguments}")
