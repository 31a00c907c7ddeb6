"""A day's energy may be unknown: a device that nothing could read makes the sum unknown."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

COLUMNS = ("energy_kwh", "energy_kwh_low", "energy_kwh_high")


def upgrade() -> None:
    """Let the energy of a day be null."""
    with op.batch_alter_table("days") as table:
        for name in COLUMNS:
            table.alter_column(name, existing_type=sa.Double(), nullable=True)
