"""When the intervals of a job were deleted, after the time that they are kept."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; every job has its intervals."""
    op.add_column("jobs", sa.Column("intervals_deleted_us", sa.BigInteger(), nullable=True))
