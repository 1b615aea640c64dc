"""The shared state: its tables, its functions, and the two roles that may use them (§12.5, §12.8)."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_FUNCTIONS = Path(__file__).parents[1] / "functions" / revision

DATA_ROLE, CONTROL_ROLE = "gateway_data", "gateway_control"

# In the order in which they are made; a function is checked against those that it calls.
DATA_FUNCTIONS = {
    "now_ms": "()",
    "create_session": "(text, text, text, text[], bigint, bigint, bigint)",
    "read_sessions": "(text[])",
    "touch_session": "(text, bigint)",
    "delete_session": "(text)",
    "delete_subject_sessions": "(text)",
    "check_budgets": "(bytea[], bigint[], bigint[], bigint[], bigint[])",
    "read_decision": "(bytea)",
    "write_decision": "(bytea, boolean, text, bigint)",
    "beat": "(text, bigint, text, bigint)",
    "list_heartbeats": "()",
    "take_lease": "(text, text, bigint)",
    "renew_lease": "(text, text, bigint, bigint)",
    "publish_challenge": "(text, text, bigint)",
    "read_challenge": "(text)",
    "withdraw_challenge": "(text)",
    "read_table": "(bigint)",
    "sweep": "(bigint)",
}
CONTROL_FUNCTIONS = {
    "append_audit": "(text, text, text, text, text, text)",
    "move_pointer": "(bigint, bytea, text, text, text, text, text, text)",
}
SHARED_TABLES = ("sessions", "decisions", "budgets", "heartbeats", "leases", "challenges")


def upgrade(schema: str) -> None:
    _create_tables()
    for name in (*DATA_FUNCTIONS, *CONTROL_FUNCTIONS):
        op.get_bind().exec_driver_sql((_FUNCTIONS / f"{name}.sql").read_text())
    for role in (DATA_ROLE, CONTROL_ROLE):
        op.execute(_CREATE_ROLE.format(role=role))
    _grant(schema)


def downgrade(schema: str) -> None:
    for role in (CONTROL_ROLE, DATA_ROLE):
        op.execute(f'REVOKE ALL ON ALL TABLES IN SCHEMA "{schema}" FROM {role}')
        op.execute(f'REVOKE ALL ON ALL FUNCTIONS IN SCHEMA "{schema}" FROM {role}')
        op.execute(f'REVOKE ALL ON SCHEMA "{schema}" FROM {role}')
    for name, arguments in reversed((DATA_FUNCTIONS | CONTROL_FUNCTIONS).items()):
        op.execute(f"DROP FUNCTION {name}{arguments}")
    for table in ("audit", "pointer", "revisions", *reversed(SHARED_TABLES)):
        op.drop_table(table)
    for role in (CONTROL_ROLE, DATA_ROLE):
        op.execute(_DROP_ROLE.format(role=role))


def _grant(schema: str) -> None:
    both = f"{DATA_ROLE}, {CONTROL_ROLE}"
    op.execute(f'GRANT USAGE ON SCHEMA "{schema}" TO {both}')
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {', '.join(SHARED_TABLES)} TO {both}")
    op.execute(f"GRANT SELECT ON revisions, pointer, alembic_version TO {both}")
    # Neither may change or delete a revision or an entry of the trail.
    op.execute(f"GRANT INSERT ON revisions, pointer, audit TO {CONTROL_ROLE}")
    op.execute(f"GRANT UPDATE ON pointer TO {CONTROL_ROLE}")
    op.execute(f"GRANT SELECT ON audit TO {CONTROL_ROLE}")
    for name, arguments in (DATA_FUNCTIONS | CONTROL_FUNCTIONS).items():
        op.execute(f"REVOKE ALL ON FUNCTION {name}{arguments} FROM PUBLIC")
        op.execute(f"GRANT EXECUTE ON FUNCTION {name}{arguments} TO {both if name in DATA_FUNCTIONS else CONTROL_ROLE}")


# Roles belong to the whole server: another schema or database may have made them, or use them still.
_CREATE_ROLE = """
DO $$ BEGIN
    CREATE ROLE {role} NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
END $$
"""
_DROP_ROLE = """
DO $$ BEGIN
    DROP ROLE {role};
EXCEPTION WHEN dependent_objects_still_exist OR undefined_object OR insufficient_privilege THEN NULL;
END $$
"""


def _create_tables() -> None:
    op.create_table(
        "sessions",
        sa.Column("id_hash", sa.Text(), nullable=False),
        sa.Column("place", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("roles", sa.ARRAY(sa.Text()), nullable=False),
        *_numbers("created_ms", "touched_ms", "idle_end_ms", "end_ms"),
        sa.PrimaryKeyConstraint("id_hash"),
    )
    op.create_index("sessions_subject", "sessions", ["subject", "place"])
    op.create_index("sessions_idle_end_ms", "sessions", ["idle_end_ms"])
    op.create_table(
        "decisions",
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("allow", sa.Boolean(), nullable=False),
        sa.Column("reason_code", sa.Text(), nullable=False),
        *_numbers("decided_ms", "end_ms"),
        sa.PrimaryKeyConstraint("key"),
        prefixes=["UNLOGGED"],
    )
    op.create_index("decisions_end_ms", "decisions", ["end_ms"])
    op.create_table(
        "budgets",
        sa.Column("key", sa.LargeBinary(), nullable=False),
        *_numbers("window_ms", "bucket_ms", "newest", "used"),
        sa.Column("counts", sa.ARRAY(sa.BigInteger()), nullable=False),
        *_numbers("end_ms"),
        sa.PrimaryKeyConstraint("key", "window_ms", "bucket_ms"),
        prefixes=["UNLOGGED"],
    )
    # Rows are changed in place all the time: room for that beside each, and dead ones cleared early.
    op.execute("ALTER TABLE budgets SET (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05)")
    op.create_table(
        "heartbeats",
        *_texts("replica"),
        *_numbers("revision"),
        *_texts("last_error"),
        *_numbers("time_ms", "end_ms"),
        sa.PrimaryKeyConstraint("replica"),
        prefixes=["UNLOGGED"],
    )
    op.create_table("leases", *_texts("name", "owner"), *_numbers("fence", "end_ms"), sa.PrimaryKeyConstraint("name"))
    op.create_table("challenges", *_texts("token", "answer"), *_numbers("end_ms"), sa.PrimaryKeyConstraint("token"))
    op.create_table(
        "revisions",
        *_numbers("revision"),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        *_numbers("time_ms"),
        *_texts("operator", "action"),
        sa.PrimaryKeyConstraint("revision"),
    )
    op.create_table(
        "pointer",
        *_numbers("id", "revision"),
        sa.PrimaryKeyConstraint("id"),
        sa.ForeignKeyConstraint(["revision"], ["revisions.revision"]),
        sa.CheckConstraint("id = 1", name="pointer_is_one"),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        *_numbers("time_ms"),
        *_texts("action", "target", "operator", "scope", "client", "request_id"),
        sa.PrimaryKeyConstraint("id"),
    )


def _numbers(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger(), nullable=False, autoincrement=False) for name in names]


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]
