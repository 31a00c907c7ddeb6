"""Fields of a line that this release does not know: kept, as a JSON object."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns, null where a line has no such field."""
    for name in ("intervals", "counts"):
        op.add_column(name, sa.Column("extra", sa.Text(), nullable=True))
