"""Jobs are found by the beginning of their id, whatever the collation of the database."""

from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add an index by code point; SQLite's index of the ids is one."""
    if op.get_context().dialect.name == "postgresql":
        by_point = {"job_id": "varchar_pattern_ops"}
        op.create_index("ix_jobs_job_id_prefix", "jobs", ["job_id"], postgresql_ops=by_point)
