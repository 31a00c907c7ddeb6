"""Budgets of projects, the alerts of thresholds reached, and the messages to deliver."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the three tables."""
    op.create_table(
        "budgets",
        sa.Column("project", sa.String(512), nullable=False),
        sa.Column("month", sa.String(7), nullable=False),
        sa.Column("limit_g", sa.Double(), nullable=False),
        sa.Column("thresholds", sa.Text(), nullable=False),
        sa.Column("webhook", sa.String(2048), nullable=True),
        sa.Column("email", sa.String(512), nullable=True),
        sa.Column("set_us", sa.BigInteger(), nullable=False),
        sa.Column("set_by", sa.String(512), nullable=False),
        sa.PrimaryKeyConstraint("project", "month", name="pk_budgets"),
    )
    op.create_table(
        "alerts",
        sa.Column("project", sa.String(512), nullable=False),
        sa.Column("month", sa.String(7), nullable=False),
        sa.Column("threshold", sa.Double(), nullable=False),
        sa.Column("made_us", sa.BigInteger(), nullable=False),
        sa.Column("doc", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("project", "month", "threshold", name="pk_alerts"),
    )
    op.create_table(
        "outbox",
        sa.Column("id", KEY, autoincrement=True, nullable=False),
        sa.Column("project", sa.String(512), nullable=False),
        sa.Column("key", sa.String(1024), nullable=False),
        sa.Column("channel", sa.String(64), nullable=False),
        sa.Column("target", sa.String(2048), nullable=False),
        sa.Column("doc", sa.Text(), nullable=False),
        sa.Column("made_us", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_us", sa.BigInteger(), nullable=True),
        sa.Column("sent_us", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.String(512), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
        sa.UniqueConstraint("key", name="uq_outbox_key"),
    )
    op.create_index("ix_outbox_sent_us_next_us", "outbox", ["sent_us", "next_us"])
