"""Lists of a project by end, duration, energy or carbon read an index, however many jobs it has."""

from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

SORTED = ("ended_us", "duration_s", "energy_kwh", "total_g")


def upgrade() -> None:
    """Add the indexes."""
    for name in SORTED:
        op.create_index(f"ix_jobs_project_{name}_id", "jobs", ["project", name, "id"])
