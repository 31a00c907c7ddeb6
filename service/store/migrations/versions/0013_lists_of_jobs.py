"""What lists filter and sort jobs by: columns of jobs, and labels for tags, hardware and zones."""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import TypeEngine

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
COLUMNS: dict[str, TypeEngine[Any]] = {
    "name": sa.String(512),
    "kind": sa.String(64),
    "ended_us": sa.BigInteger(),
    "duration_s": sa.Double(),
    "energy_kwh": sa.Double(),
    "total_g": sa.Double(),
}
INDEXES = [
    *((name, "started_us", "id") for name in ("state", "kind", "name")),
    *((name, "id") for name in ("ended_us", "duration_s", "energy_kwh", "total_g")),
]
LABEL_MOST = 400
AT_ONCE = 500
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def upgrade() -> None:
    """Add columns and labels, and fill them from the stored heads and newest scores."""
    for name, kind in COLUMNS.items():
        op.add_column("jobs", sa.Column(name, kind, nullable=True))
    op.create_table(
        "job_labels",
        sa.Column("job", KEY, nullable=False),
        sa.Column("label", sa.String(LABEL_MOST), nullable=False),
        sa.PrimaryKeyConstraint("job", "label", name="pk_job_labels"),
        sa.ForeignKeyConstraint(["job"], ["jobs.id"], name="fk_job_labels_job", ondelete="CASCADE"),
    )
    _fill(op.get_bind())
    op.create_index("ix_job_labels_label_job", "job_labels", ["label", "job"])
    for columns in INDEXES:
        op.create_index(f"ix_jobs_{'_'.join(columns)}", "jobs", [*columns])


def _fill(connection: sa.Connection) -> None:
    wanted = sa.text(
        "SELECT jobs.id, jobs.head, scores.doc FROM jobs LEFT JOIN scores "
        "ON scores.job = jobs.id AND scores.revision = jobs.revision "
        "WHERE jobs.id > :after ORDER BY jobs.id LIMIT :most"
    )
    assigned = ", ".join(f"{name} = :{name}" for name in COLUMNS)
    fill = sa.text(f"UPDATE jobs SET {assigned} WHERE id = :job")  # noqa: S608  # own names
    label = sa.text("INSERT INTO job_labels (job, label) VALUES (:job, :label)")
    after = 0
    while rows := connection.execute(wanted, {"after": after, "most": AT_ONCE}).all():
        after = rows[-1].id
        known = [
            (row.id, json.loads(row.head), json.loads(row.doc or "{}")) for row in rows if row.head
        ]
        if known:
            connection.execute(fill, [{"job": key, **_columns(head)} for key, head, _ in known])
        labels = [
            {"job": key, "label": text} for key, head, doc in known for text in _labels(head, doc)
        ]
        if labels:
            connection.execute(label, labels)


def _columns(head: Mapping[str, Any]) -> dict[str, Any]:
    ended_at = head.get("ended_at")
    figures = {name: head.get(name) for name in ("energy_kwh", "total_g")}
    return {
        "name": head["name"],
        "kind": head["kind"],
        "ended_us": _us(ended_at) if ended_at else None,
        "duration_s": head.get("duration_s"),
        **{name: found["value"] if found else None for name, found in figures.items()},
    }


def _us(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1)


def _labels(head: Mapping[str, Any], document: Mapping[str, Any]) -> list[str]:
    zones = {head.get("zone"), *document.get("method", {}).get("zones", ())} - {None}
    parts = {device.get("hardware") for device in document.get("devices", ())} - {None}
    found = [_label("tag", f"{name}:{text}") for name, text in head.get("tags", {}).items()]
    found += [_label("hardware", part) for part in parts]
    return sorted({*found, *(_label("zone", zone) for zone in zones)})


def _label(kind: str, text: str) -> str:
    label = f"{kind}:{text}"
    if len(label) <= LABEL_MOST:
        return label
    return f"{kind}:sha256:{hashlib.sha256(text.encode()).hexdigest()}"
