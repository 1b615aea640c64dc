"""What operators do to sessions and decisions, failed authentication, and sealed values (§12.7, §11.5).

Beside it the release before works on: its functions are there, with the arguments that they had.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_FUNCTIONS = Path(__file__).parents[1] / "functions"

DATA_ROLE, CONTROL_ROLE = "gateway_data", "gateway_control"

_ENTRY = "text, text, text, text, text, text"
# In the order in which they are made; a function is checked against those that it calls.
BOTH_FUNCTIONS = {
    "write_decision": "(bytea, bytea, bytea, boolean, text, bigint)",
    "decisions_dropped": "()",
}
DATA_FUNCTIONS = {
    "read_sealed": "(text)",
    "write_sealed": "(text, bytea, bigint)",
}
CONTROL_FUNCTIONS = {
    "revoke_subject_sessions": f"(text, {_ENTRY})",
    "revoke_session": f"(text, {_ENTRY})",
    "drop_decisions": f"(bytea, bytea, {_ENTRY})",
    "auth_failure_wait": "(text, bigint, bigint)",
    "count_auth_failure": "(text, bigint, bigint)",
}


def upgrade(schema: str) -> None:  # noqa: ARG001
    _create_tables()
    for name in ("subject", "workspace"):
        # The release before does not say whose a decision is.
        op.add_column("decisions", sa.Column(name, sa.LargeBinary(), nullable=True))
        op.create_index(f"decisions_{name}", "decisions", [name])
    _replace("0002", "append_audit")
    for name, arguments in (BOTH_FUNCTIONS | DATA_FUNCTIONS | CONTROL_FUNCTIONS).items():
        op.get_bind().exec_driver_sql(_text("0002", name))
        op.execute(f"REVOKE ALL ON FUNCTION {name}{arguments} FROM PUBLIC")
    both = f"{DATA_ROLE}, {CONTROL_ROLE}"
    for functions, roles in ((BOTH_FUNCTIONS, both), (DATA_FUNCTIONS, DATA_ROLE), (CONTROL_FUNCTIONS, CONTROL_ROLE)):
        for name, arguments in functions.items():
            op.execute(f"GRANT EXECUTE ON FUNCTION {name}{arguments} TO {roles}")
    op.execute(f"GRANT SELECT ON decision_drops TO {both}")
    op.execute(f"GRANT UPDATE ON decision_drops TO {CONTROL_ROLE}")
    # A gateway that was broken into may not make room for guesses at the control plane's tokens.
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON auth_failures TO {CONTROL_ROLE}")
    op.execute(f"GRANT SELECT, INSERT, UPDATE ON sealed TO {DATA_ROLE}")
    # Only bytes have an order that is the same on every server, and in which what begins alike stands together. The
    # table is not written anew, its primary key is. Last: nobody reads a session until the transaction ends.
    op.execute('ALTER TABLE sessions ALTER COLUMN id_hash TYPE text COLLATE "C"')


def downgrade(schema: str) -> None:  # noqa: ARG001
    for name, arguments in reversed((BOTH_FUNCTIONS | DATA_FUNCTIONS | CONTROL_FUNCTIONS).items()):
        op.execute(f"DROP FUNCTION {name}{arguments}")
    _replace("0001", "append_audit")
    for table in ("sealed", "auth_failures", "decision_drops"):
        op.drop_table(table)
    for name in ("audit_time_ms", "audit_action", "audit_operator", "audit_action_operator"):
        op.drop_index(name, "audit")
    for name in ("subject", "workspace"):
        op.drop_index(f"decisions_{name}", "decisions")
        op.drop_column("decisions", name)
    op.execute('ALTER TABLE sessions ALTER COLUMN id_hash TYPE text COLLATE "default"')


def _create_tables() -> None:
    # Time rises with the number of an entry; with it a span of time is one of numbers.
    op.create_index("audit_time_ms", "audit", ["time_ms", "id"])
    op.create_index("audit_action", "audit", ["action", "id"])
    op.create_index("audit_operator", "audit", ["operator", "id"])
    op.create_index("audit_action_operator", "audit", ["action", "operator", "id"])
    op.create_table(
        "decision_drops",
        sa.Column("id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.CheckConstraint("id = 1", name="decision_drops_is_one"),
    )
    op.execute("INSERT INTO decision_drops (id, count) VALUES (1, 0)")
    op.create_table(
        "auth_failures",
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("times", sa.ARRAY(sa.BigInteger()), nullable=False),
        sa.Column("end_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("address"),
        prefixes=["UNLOGGED"],
    )
    op.create_index("auth_failures_end_ms", "auth_failures", ["end_ms"])
    op.create_table(
        "sealed",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("blob", sa.LargeBinary(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def _text(number: str, function: str) -> str:
    return (_FUNCTIONS / number / f"{function}.sql").read_text()


def _replace(number: str, function: str) -> None:
    """Put a migration's form of a function in the place of another one's; its rights stay."""
    text = _text(number, function).replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1)
    op.get_bind().exec_driver_sql(text)
