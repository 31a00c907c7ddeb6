"""Parts of months hold how their terms divide: all are made anew from the stored documents."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Mark every part as missing, and drop sums of the old shape."""
    op.execute("UPDATE jobs SET summed_revision = 0")
    op.execute("DELETE FROM month_sums")
    brief = sa.Column("brief", sa.Text(), server_default="{}", nullable=False)
    op.add_column("month_sums", brief)
