"""What people change afterwards: corrections and deletions; and journals that are still written."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the three tables."""
    op.create_table(
        "corrections",
        sa.Column("id", KEY, autoincrement=True, nullable=False),
        sa.Column("job", KEY, nullable=False),
        sa.Column("made_us", sa.BigInteger(), nullable=False),
        sa.Column("made_by", sa.String(512), nullable=False),
        sa.Column("field", sa.String(512), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("old", sa.Text(), nullable=False),
        sa.Column("reason", sa.String(512), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_corrections"),
        _of_a_job("corrections"),
    )
    op.create_index("ix_corrections_job_id", "corrections", ["job", "id"])
    op.create_table(
        "deletions",
        sa.Column("job_id", sa.String(128), nullable=False),
        sa.Column("project", sa.String(512), nullable=False),
        sa.Column("started_us", sa.BigInteger(), nullable=False),
        sa.Column("deleted_us", sa.BigInteger(), nullable=False),
        sa.Column("deleted_by", sa.String(512), nullable=False),
        sa.PrimaryKeyConstraint("job_id", name="pk_deletions"),
    )
    op.create_index("ix_deletions_started_us", "deletions", ["started_us"])
    op.create_table(
        "open_journals",
        sa.Column("job", KEY, nullable=False),
        sa.Column("node", sa.String(128), nullable=False),
        sa.Column("positions", sa.Text(), nullable=False),
        sa.Column("lines", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("job", "node", name="pk_open_journals"),
        _of_a_job("open_journals"),
    )


def _of_a_job(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["job"], ["jobs.id"], name=f"fk_{table}_job", ondelete="CASCADE")
