"""First tables."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the tables of the first release."""
    _jobs()
    _journal()
    _intervals_and_counts()
    _scores()
    _days()
    _periodic_work()


def _needed(name: str, kind: Any, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False, **options)


def _maybe(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=True)


def _id(table: str) -> tuple[sa.Column[Any], sa.PrimaryKeyConstraint]:
    column = _needed("id", KEY, autoincrement=True)
    return column, sa.PrimaryKeyConstraint("id", name=f"pk_{table}")


def _parent(table: str, column: str, parent: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        [column], [f"{parent}.id"], name=f"fk_{table}_{column}", ondelete="CASCADE"
    )


def _jobs() -> None:
    op.create_table(
        "jobs",
        *_id("jobs"),
        _needed("job_id", sa.String(128)),
        _needed("project", sa.String(512)),
        _needed("state", sa.String(64)),
        _needed("started_us", sa.BigInteger()),
        _needed("heard_us", sa.BigInteger()),
        _maybe("silent_us", sa.BigInteger()),
        _needed("version", sa.BigInteger()),
        _needed("scored_version", sa.BigInteger()),
        _needed("revision", sa.Integer()),
        _needed("head", sa.Text()),
        _maybe("grade", sa.String(64)),
        _needed("notices", sa.Integer()),
        sa.UniqueConstraint("job_id", name="uq_jobs_job_id"),
    )
    op.create_index("ix_jobs_started_us_id", "jobs", ["started_us", "id"])
    op.create_index("ix_jobs_project_started_us_id", "jobs", ["project", "started_us", "id"])
    op.create_index("ix_jobs_state_heard_us", "jobs", ["state", "heard_us"])


def _journal() -> None:
    op.create_table(
        "writers",
        *_id("writers"),
        _needed("job", KEY),
        _needed("node", sa.String(128)),
        _needed("writer", sa.String(128)),
        _needed("contiguous", sa.BigInteger()),
        _needed("beyond", sa.Text()),
        _parent("writers", "job", "jobs"),
        sa.UniqueConstraint("job", "node", "writer", name="uq_writers_job_node_writer"),
    )
    op.create_table(
        "statements",
        _needed("writer", KEY),
        _needed("seq", sa.BigInteger()),
        _needed("type", sa.String(64)),
        _needed("line", sa.Text()),
        _parent("statements", "writer", "writers"),
        sa.PrimaryKeyConstraint("writer", "seq", name="pk_statements"),
    )
    op.create_table(
        "devices",
        *_id("devices"),
        _needed("job", KEY),
        _needed("node", sa.String(128)),
        _needed("device_id", sa.String(128)),
        _parent("devices", "job", "jobs"),
        sa.UniqueConstraint("job", "node", "device_id", name="uq_devices_job_node_device_id"),
    )


def _intervals_and_counts() -> None:
    op.create_table(
        "intervals",
        _needed("device", KEY),
        _needed("start_us", sa.BigInteger()),
        _needed("end_us", sa.BigInteger()),
        _needed("seq", sa.BigInteger()),
        _needed("writer", sa.String(128)),
        _needed("energy_j", sa.Double()),
        _needed("kind", sa.String(64)),
        _maybe("utilisation_mean", sa.Double()),
        _maybe("utilisation_max", sa.Double()),
        _maybe("memory_peak_b", sa.Double()),
        _maybe("power_max_w", sa.Double()),
        _parent("intervals", "device", "devices"),
        sa.PrimaryKeyConstraint("device", "start_us", name="pk_intervals"),
    )
    op.create_table(
        "counts",
        _needed("writer", KEY),
        _needed("seq", sa.BigInteger()),
        _needed("at_us", sa.BigInteger()),
        _needed("unit", sa.String(64)),
        _needed("amount", sa.Double()),
        _maybe("phase", sa.String(512)),
        _parent("counts", "writer", "writers"),
        sa.PrimaryKeyConstraint("writer", "seq", name="pk_counts"),
    )


def _scores() -> None:
    op.create_table(
        "scores",
        *_id("scores"),
        _needed("job", KEY),
        _needed("revision", sa.Integer()),
        _needed("made_us", sa.BigInteger()),
        _needed("reason", sa.String(64)),
        _needed("engine_version", sa.String(64)),
        _needed("catalog_version", sa.String(64)),
        _needed("conformance", sa.String(64)),
        _needed("doc", sa.Text()),
        _needed("series", sa.Text()),
        _parent("scores", "job", "jobs"),
        sa.UniqueConstraint("job", "revision", name="uq_scores_job_revision"),
    )
    op.create_table(
        "provisionals",
        _needed("job", KEY),
        _needed("version", sa.BigInteger()),
        _needed("made_us", sa.BigInteger()),
        _needed("doc", sa.Text()),
        _needed("series", sa.Text()),
        _parent("provisionals", "job", "jobs"),
        sa.PrimaryKeyConstraint("job", name="pk_provisionals"),
    )


def _days() -> None:
    figures = [
        _needed(f"energy_kwh{end}", sa.Double())
        if term == "energy_kwh"
        else _maybe(f"{term}{end}", sa.Double())
        for term in ("energy_kwh", "operational_g", "embodied_g")
        for end in ("", "_low", "_high")
    ]
    op.create_table(
        "days",
        _needed("job", KEY),
        _needed("day", sa.String(10)),
        *figures,
        _needed("counts", sa.Text()),
        _parent("days", "job", "jobs"),
        sa.PrimaryKeyConstraint("job", "day", name="pk_days"),
    )
    op.create_index("ix_days_day", "days", ["day"])


def _periodic_work() -> None:
    op.create_table(
        "job_runs",
        _needed("name", sa.String(64)),
        _needed("due_us", sa.BigInteger()),
        _needed("started_us", sa.BigInteger()),
        _maybe("finished_us", sa.BigInteger()),
        _maybe("outcome", sa.String(512)),
        sa.PrimaryKeyConstraint("name", "due_us", name="pk_job_runs"),
    )
    op.create_table(
        "monthly_reports",
        *_id("monthly_reports"),
        _needed("month", sa.String(7)),
        _needed("project", sa.String(512)),
        _needed("made_us", sa.BigInteger()),
        _needed("doc", sa.Text()),
        sa.UniqueConstraint(
            "month", "project", "made_us", name="uq_monthly_reports_month_project_made_us"
        ),
    )
