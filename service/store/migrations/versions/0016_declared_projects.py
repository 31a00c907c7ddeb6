"""Projects that were declared before their first job."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "projects",
        sa.Column("project", sa.String(512), nullable=False),
        sa.Column("declared_us", sa.BigInteger(), nullable=False),
        sa.Column("declared_by", sa.String(512), nullable=False),
        sa.PrimaryKeyConstraint("project", name="pk_projects"),
    )
