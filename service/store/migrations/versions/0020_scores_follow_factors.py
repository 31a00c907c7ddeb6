"""How far scores follow the catalog, the engine and the time zone of today."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table of one row; without the row every score is made again once."""
    op.create_table(
        "factor_backfill",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("done", sa.String(512), nullable=False),
        sa.Column("until", sa.String(512), nullable=False),
        sa.Column("job", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_factor_backfill"),
    )
