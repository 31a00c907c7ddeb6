"""How a device ran: an interval keeps its profile, a JSON object of numbers by name."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, null where nothing is known."""
    with op.batch_alter_table("intervals") as table:
        table.add_column(sa.Column("profile", sa.Text(), nullable=True))
