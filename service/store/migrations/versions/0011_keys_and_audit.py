"""Keys, browser sessions, and the audit log, which nothing may change or delete."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
SQLITE = """CREATE TRIGGER audit_no_{event} BEFORE {event} ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END"""
POSTGRES = (
    """CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the audit log is append-only'; END $$""",
    """CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change()""",
)


def upgrade() -> None:
    """Make the three tables."""
    op.create_table(
        "api_keys",
        sa.Column("id", KEY, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("prefix", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("scope", sa.String(64), nullable=False),
        sa.Column("projects", sa.Text(), nullable=True),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(512), nullable=False),
        sa.Column("expires_us", sa.BigInteger(), nullable=True),
        sa.Column("used_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("name", name="uq_api_keys_name"),
        sa.UniqueConstraint("prefix", name="uq_api_keys_prefix"),
    )
    op.create_table(
        "browser_sessions",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("name", sa.String(512), nullable=False),
        sa.Column("scope", sa.String(64), nullable=False),
        sa.Column("projects", sa.Text(), nullable=True),
        sa.Column("expires_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_browser_sessions"),
    )
    op.create_index("ix_browser_sessions_expires_us", "browser_sessions", ["expires_us"])
    op.create_table(
        "audit",
        sa.Column("id", KEY, autoincrement=True, nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.String(512), nullable=False),
        sa.Column("address", sa.String(64), nullable=False),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("subject", sa.String(1024), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
    )
    if op.get_bind().dialect.name == "sqlite":
        for event in ("UPDATE", "DELETE"):
            op.execute(SQLITE.format(event=event))
    else:
        for statement in POSTGRES:
            op.execute(statement)
