"""Budgets swept page by page, in rounds that all replicas share (§12.5).

Beside it the release before works on: what it sweeps is what it swept, but for the budgets.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_FUNCTIONS = Path(__file__).parents[1] / "functions"

ROLES = "gateway_data, gateway_control"


def upgrade(schema: str) -> None:  # noqa: ARG001
    op.create_table(
        "sweeps",
        sa.Column("id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.Column("began_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.CheckConstraint("id = 1", name="sweeps_is_one"),
        prefixes=["UNLOGGED"],
    )
    op.execute(f"GRANT SELECT, INSERT, UPDATE ON sweeps TO {ROLES}")
    _replace_sweep("0004")
    op.get_bind().exec_driver_sql((_FUNCTIONS / "0004" / "sweep_budgets.sql").read_text())
    op.execute("REVOKE ALL ON FUNCTION sweep_budgets(bigint, bigint) FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION sweep_budgets(bigint, bigint) TO {ROLES}")


def downgrade(schema: str) -> None:  # noqa: ARG001
    op.execute("DROP FUNCTION sweep_budgets(bigint, bigint)")
    _replace_sweep("0001")
    op.drop_table("sweeps")


def _replace_sweep(number: str) -> None:
    """Put a migration's form of the function in the place of another one's; its rights stay."""
    text = (_FUNCTIONS / number / "sweep.sql").read_text()
    op.get_bind().exec_driver_sql(text.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1))
