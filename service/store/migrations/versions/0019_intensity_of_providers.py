"""What is fetched of grid intensity, and which scores are to follow it."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
# Points that scores do not follow yet become arrivals, which take the place of a time up to which
# all were seen: a transaction that committed after that time was missed.
WAITING = """
    INSERT INTO intensity_arrivals (zone, first_day, last_day)
    SELECT series.zone, min(days.day), max(days.day)
    FROM intensity_days AS days JOIN intensity_series AS series ON series.id = days.series
    WHERE series.signal = 'average' AND series.basis = 'lifecycle'
      AND days.fetched_us > coalesce((SELECT max(done_us) FROM intensity_backfill), 0)
    GROUP BY series.zone
"""
SCORED_ALONE = "rescore_us IS NOT NULL"


def upgrade() -> None:
    """Add scope, licence, time of issue and due scores; replace the mark of the backfill."""
    with op.batch_alter_table("intensity_series") as table:
        table.add_column(sa.Column("scope", sa.String(64), nullable=False, server_default=""))
        table.add_column(sa.Column("licence", sa.String(512), nullable=False, server_default=""))
    op.add_column("intensity_days", sa.Column("issued_us", sa.BigInteger(), nullable=True))
    op.add_column("jobs", sa.Column("rescore_us", sa.BigInteger(), nullable=True))
    op.create_index(
        "ix_jobs_rescore",
        "jobs",
        ["rescore_us", "id"],
        sqlite_where=sa.text(SCORED_ALONE),
        postgresql_where=sa.text(SCORED_ALONE),
    )
    op.create_table(
        "intensity_arrivals",
        sa.Column("id", KEY, autoincrement=True, nullable=False),
        sa.Column("zone", sa.String(64), nullable=False),
        sa.Column("first_day", sa.Integer(), nullable=False),
        sa.Column("last_day", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_intensity_arrivals"),
    )
    op.create_table(
        "intensity_questions",
        sa.Column("zone", sa.String(64), nullable=False),
        sa.Column("day", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("asked_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("zone", "day", name="pk_intensity_questions"),
    )
    op.execute(WAITING)
    op.drop_index("ix_intensity_days_fetched_us", "intensity_days")
    op.drop_table("intensity_backfill")
