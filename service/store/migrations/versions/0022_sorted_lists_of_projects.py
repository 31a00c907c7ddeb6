"""Lists of a project by end, duration, energy, carbon or state read an index."""

from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

SORTED = ("ended_us", "duration_s", "energy_kwh", "total_g")


def upgrade() -> None:
    """Add the indexes."""
    of_state = ["project", "state", "started_us", "id"]
    op.create_index("ix_jobs_project_state_started_us_id", "jobs", of_state)
    for name in SORTED:
        op.create_index(f"ix_jobs_project_{name}_id", "jobs", ["project", name, "id"])
