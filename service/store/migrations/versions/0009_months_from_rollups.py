"""Months from each job's part of them, kept as numbers when it is scored.

The parts of jobs that are scored already are filled in afterwards, by the scheduler or by the first
request for a month (`service/months/sums/filling.py`).
Days named the jobs of a month, as parts do now.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
PENDING = sa.text("state = 'running' OR scored_version <> version")
UNSUMMED = sa.text("summed_revision <> revision")


def upgrade() -> None:
    """Make the tables and the indexes of the few jobs that tasks look for."""
    column = sa.Column("summed_revision", sa.Integer(), server_default="0", nullable=False)
    op.add_column("jobs", column)
    for name, columns, where in (
        ("ix_jobs_pending", ["started_us", "id"], PENDING),
        ("ix_jobs_unsummed", ["id"], UNSUMMED),
    ):
        op.create_index(name, "jobs", columns, sqlite_where=where, postgresql_where=where)
    op.create_table(
        "job_months",
        sa.Column("month", sa.String(7), nullable=False),
        sa.Column("job", KEY, nullable=False),
        sa.Column("project", sa.String(512), nullable=False),
        sa.Column("job_id", sa.String(128), nullable=False),
        sa.Column("started_us", sa.BigInteger(), nullable=False),
        sa.Column("use", sa.String(64), nullable=False),
        sa.Column("texts", sa.LargeBinary(), nullable=False),
        sa.Column("numbers", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("month", "job", name="pk_job_months"),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name="fk_job_months_job", ondelete="CASCADE"),
    )
    op.create_index("ix_job_months_month_use_project", "job_months", ["month", "use", "project"])
    op.create_index("ix_job_months_job", "job_months", ["job"])
    _keyed_by_month("month_versions", sa.Column("version", sa.BigInteger(), nullable=False))
    _keyed_by_month(
        "month_sums",
        sa.Column("made_of", sa.Text(), nullable=False),
        sa.Column("doc", sa.Text(), nullable=False),
    )
    op.drop_table("days")


def _keyed_by_month(table: str, *columns: sa.Column[object]) -> None:
    op.create_table(
        table,
        sa.Column("month", sa.String(7), nullable=False),
        sa.Column("project", sa.String(512), nullable=False),
        *columns,
        sa.PrimaryKeyConstraint("month", "project", name=f"pk_{table}"),
    )
