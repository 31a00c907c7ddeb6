"""Runs of codecarbon clients, and which of their messages have arrived."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the two tables."""
    op.create_table(
        "codecarbon_runs",
        sa.Column("id", sa.String(128), nullable=False),
        sa.Column("heard_us", sa.BigInteger(), nullable=False),
        sa.Column("doc", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_codecarbon_runs"),
    )
    op.create_index("ix_codecarbon_runs_heard_us", "codecarbon_runs", ["heard_us"])
    op.create_table(
        "codecarbon_emissions",
        sa.Column("run", sa.String(128), nullable=False),
        sa.Column("sent_us", sa.BigInteger(), nullable=False),
        sa.Column("start_us", sa.BigInteger(), nullable=False),
        sa.Column("end_us", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run", "sent_us", name="pk_codecarbon_emissions"),
        sa.ForeignKeyConstraint(
            ["run"],
            ["codecarbon_runs.id"],
            name="fk_codecarbon_emissions_run",
            ondelete="CASCADE",
        ),
    )
