"""What lists filter and sort jobs by: columns of the job's row, and labels for what it has many of.

A label is a text such as "tag:team:vision", "hardware:nvidia-h100-sxm5-80" or "zone:FR": one
column, so that one index finds a job by any of them and the database knows how common each is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.figures.document import JobDoc, JobHead
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.records.records import parse_time
from gramwatt.service.store.base import LABEL_MOST
from gramwatt.service.store.columns import to_us, upsert
from gramwatt.service.store.models import Job, JobLabel

TAG, HARDWARE, ZONE = "tag", "hardware", "zone"
DIGEST = "sha256:"
"""Before the digest of a text that is too long."""


def label_text(kind: str, text: str) -> str:
    """Return the label of a text; its SHA-256 where it is longer than an index of PostgreSQL can
    hold.
    """
    label = f"{kind}:{text}"
    if len(label) <= LABEL_MOST:
        return label
    return f"{kind}:{DIGEST}{hashlib.sha256(text.encode()).hexdigest()}"


def update_list_columns(
    session: Session, job: Job, head: JobHead, document: JobDoc | None = None
) -> None:
    """Bring columns and labels of the job in line with its head.

    Only a score knows hardware, and the zones of several nodes: without one they stay.
    """
    job.name, job.kind = head.name, head.kind
    ended_at = head.ended_at
    job.ended_us = None if ended_at is None else to_us(parse_time(ended_at))
    job.duration_s = head.duration_s
    job.energy_kwh, job.total_g = _value(head.energy_kwh), _value(head.total_g)
    labels = {label_text(TAG, f"{name}:{text}") for name, text in head.tags.items()}
    replaced = {TAG}
    if head.zone is not None:
        labels.add(label_text(ZONE, head.zone))
        replaced.add(ZONE)
    if document is not None:
        devices = {device.hardware for device in document.devices}
        labels |= {label_text(HARDWARE, hardware) for hardware in devices if hardware is not None}
        labels |= {label_text(ZONE, zone) for zone in document.method.zones}
        replaced = {TAG, HARDWARE, ZONE}
    _replace(session, job, labels, replaced)


def _replace(session: Session, job: Job, labels: set[str], kinds: Collection[str]) -> None:
    """Make `labels` the job's labels of these kinds; give all its labels its project and start."""
    of_job = JobLabel.job == job.id
    place = {"project": job.project, "started_us": job.started_us}
    columns = JobLabel.label, JobLabel.project, JobLabel.started_us
    rows = session.execute(sa.select(*columns).where(of_job)).all()
    stored = {label for label, _, _ in rows}
    if any(row[1:] != tuple(place.values()) for row in rows):
        session.execute(sa.update(JobLabel).where(of_job).values(place))
    stale = {label for label in stored - labels if label.partition(":")[0] in kinds}
    if stale:
        session.execute(sa.delete(JobLabel).where(of_job, JobLabel.label.in_(sorted(stale))))
    new = sorted(labels - stored)
    upsert(session, JobLabel, [{"job": job.id, "label": label, **place} for label in new])


def _value(figure: Quantity | None) -> float | None:
    return None if figure is None else figure.value
