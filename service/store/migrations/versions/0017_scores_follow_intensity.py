"""How far scores follow the points of intensity that were stored."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table of one row, and find points by when they were stored."""
    op.create_table(
        "intensity_backfill",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("done_us", sa.BigInteger(), nullable=False),
        sa.Column("until_us", sa.BigInteger(), nullable=False),
        sa.Column("job", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_intensity_backfill"),
    )
    op.create_index("ix_intensity_days_fetched_us", "intensity_days", ["fetched_us"])
