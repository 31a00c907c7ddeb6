"""Answers kept by the key of their request, so that a request sent again does nothing twice."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "kept_answers",
        sa.Column("caller", sa.String(512), nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("made_us", sa.BigInteger(), nullable=False),
        sa.Column("request", sa.String(64), nullable=False),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("caller", "key", name="pk_kept_answers"),
    )
    op.create_index("ix_kept_answers_made_us", "kept_answers", ["made_us"])
