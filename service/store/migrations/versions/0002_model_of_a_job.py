"""The model that a job made or used, so that all runs of a model can be found."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

INDEX = "ix_jobs_model_id_started_us_id"


def upgrade() -> None:
    """Add the column and fill it from what the journals say."""
    op.add_column("jobs", sa.Column("model_id", sa.String(512), nullable=True))
    op.create_index(INDEX, "jobs", ["model_id", "started_us", "id"])
    connection = op.get_bind()
    lines = sa.text(
        "SELECT writers.job, statements.line FROM statements "
        "JOIN writers ON writers.id = statements.writer "
        "WHERE statements.type = 'job' ORDER BY writers.id DESC, statements.seq DESC"
    )
    found = {job: json.loads(line).get("model_id") for job, line in connection.execute(lines)}
    fill = sa.text("UPDATE jobs SET model_id = :model WHERE id = :job")
    for job, model in found.items():
        if model:
            connection.execute(fill, {"job": job, "model": model})
