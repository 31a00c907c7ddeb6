"""Grid intensity over time: series, and days of their points."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the two tables."""
    names = ("zone", "signal", "basis", "provider")
    op.create_table(
        "intensity_series",
        sa.Column("id", KEY, autoincrement=True, nullable=False),
        *(sa.Column(name, sa.String(64), nullable=False) for name in names),
        sa.PrimaryKeyConstraint("id", name="pk_intensity_series"),
        sa.UniqueConstraint(*names, name="uq_intensity_series_zone_signal_basis_provider"),
    )
    op.create_table(
        "intensity_days",
        sa.Column("series", KEY, nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("step_s", sa.Integer(), nullable=False),
        sa.Column("quality", sa.String(64), nullable=False),
        sa.Column("fetched_us", sa.BigInteger(), nullable=False),
        sa.Column("points", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint(
            "series", "day", "step_s", "quality", "fetched_us", name="pk_intensity_days"
        ),
        sa.ForeignKeyConstraint(
            ["series"],
            ["intensity_series.id"],
            name="fk_intensity_days_series",
            ondelete="CASCADE",
        ),
    )
