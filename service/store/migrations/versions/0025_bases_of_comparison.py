"""What a month is compared with is kept, so that the parts of the month before are not read."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add an empty table: a row is made when the comparison is first asked for."""
    op.create_table(
        "month_bases",
        sa.Column("month", sa.String(length=7), nullable=False),
        sa.Column("project", sa.String(length=512), nullable=False),
        sa.Column("made_of", sa.Text(), nullable=False),
        sa.Column("sums", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("month", "project", name="pk_month_bases"),
    )
