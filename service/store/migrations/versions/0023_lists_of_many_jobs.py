"""Lists by label, pending jobs and the state of a model's runs are read from an index alone."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
PENDING = sa.text("state = 'running' OR scored_version <> version")
FOREIGN = "fk_job_labels_job"
OF_MODEL = ("model_id", "state", "revision", "summed_revision", "version", "scored_version")


def upgrade() -> None:
    """Copy the labels with the start of their job, and renew the indexes."""
    # A new table: an update of every row would leave the old ones in the file.
    op.execute("CREATE TEMPORARY TABLE known_labels AS SELECT job, label FROM job_labels")
    op.drop_table("job_labels")
    primary = sa.PrimaryKeyConstraint("job", "label", name="pk_job_labels")
    foreign = sa.ForeignKeyConstraint(["job"], ["jobs.id"], FOREIGN, ondelete="CASCADE")
    # PostgreSQL adds constraints faster to a full table; SQLite cannot, and checks none meanwhile.
    at_once = op.get_context().dialect.name == "sqlite"
    op.create_table(
        "job_labels",
        sa.Column("job", KEY, nullable=False),
        sa.Column("label", sa.String(400), nullable=False),
        sa.Column("started_us", sa.BigInteger(), nullable=False),
        *((primary, foreign) if at_once else ()),
    )
    op.execute(
        "INSERT INTO job_labels (job, label, started_us) SELECT known.job, known.label,"
        " jobs.started_us FROM known_labels AS known JOIN jobs ON jobs.id = known.job"
    )
    op.execute("DROP TABLE known_labels")
    if not at_once:
        op.create_primary_key("pk_job_labels", "job_labels", ["job", "label"])
        op.create_foreign_key(FOREIGN, "job_labels", "jobs", ["job"], ["id"], ondelete="CASCADE")
    ordered = ["label", "started_us", "job"]
    op.create_index("ix_job_labels_label_started_us_job", "job_labels", ordered)
    op.drop_index("ix_jobs_pending", "jobs")
    of_pending = ["started_us", "id", "state"]
    op.create_index(
        "ix_jobs_pending", "jobs", of_pending, sqlite_where=PENDING, postgresql_where=PENDING
    )
    op.create_index("ix_jobs_of_model", "jobs", [*OF_MODEL, "heard_us", "id"])
