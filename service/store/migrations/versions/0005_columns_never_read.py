"""Drop what was written and never read: sums by day, types of lines, and runs of periodic tasks.

Months are summed from the score documents, so a day only names the jobs that ran on it. Periodic
tasks are safe to repeat, so a leader's lock is enough and a row for each run is not needed.
"""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

SUMS_OF_A_DAY = [
    f"{term}{end}"
    for term in ("energy_kwh", "operational_g", "embodied_g")
    for end in ("", "_low", "_high")
]


def upgrade() -> None:
    """Drop the columns and the table; every other row and value stays."""
    with op.batch_alter_table("days") as table:
        for name in (*SUMS_OF_A_DAY, "counts"):
            table.drop_column(name)
    with op.batch_alter_table("statements") as table:
        table.drop_column("type")
    op.drop_table("job_runs")
