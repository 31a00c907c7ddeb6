"""Runs of periodic tasks, since when a server listens, and who leads."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the three tables."""
    op.create_table(
        "task_runs",
        sa.Column("id", KEY, autoincrement=True, nullable=False),
        sa.Column("task", sa.String(64), nullable=False),
        sa.Column("host", sa.String(128), nullable=False),
        sa.Column("started_us", sa.BigInteger(), nullable=False),
        sa.Column("ended_us", sa.BigInteger(), nullable=True),
        sa.Column("outcome", sa.String(64), nullable=False),
        sa.Column("error", sa.String(512), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_task_runs"),
    )
    op.create_index("ix_task_runs_task_id", "task_runs", ["task", "id"])
    op.create_table(
        "listening",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("since_us", sa.BigInteger(), nullable=False),
        sa.Column("beat_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_listening"),
    )
    op.create_table(
        "leases",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("holder", sa.String(128), nullable=False),
        sa.Column("until_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_leases"),
    )
