"""The revisions and the intervals of one job."""

from __future__ import annotations

import json

import sqlalchemy as sa
from sqlalchemy.orm import defer

from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.month.revisions import revision_change
from gramwatt.service.common.answers import (
    IntervalRow,
    IntervalsAnswer,
    RevisionRow,
    RevisionsAnswer,
)
from gramwatt.service.common.cursors import cut, decode_cursor
from gramwatt.service.container import Service
from gramwatt.service.jobs.documents import find_job, require_intervals
from gramwatt.service.store.documents import read_job
from gramwatt.service.store.models import Device, Interval, Score
from gramwatt.service.store.timestamps import text_from_us

MOST = 2**31 - 1
"""The largest number of a revision."""


def revisions_page(
    service: Service, job_id: str, limit: int, cursor: str | None
) -> RevisionsAnswer:
    """Score revisions of a job, newest first; raises UnknownJobError or CursorError."""
    # PostgreSQL takes no number that its column cannot hold, not even to compare with it.
    before = min(max(decode_cursor(cursor, int)[0], 0), MOST) if cursor else MOST
    with service.store.read() as session:
        wanted = (
            sa.select(Score)
            .options(defer(Score.series))
            .where(Score.job == find_job(session, job_id).id, Score.revision < before)
            .order_by(Score.revision.desc())
            .limit(limit + 1)
        )
        rows = session.scalars(wanted).all()
    shown, following = cut(rows, limit, lambda score: (score.revision,))
    documents = [read_job(score.doc) for score in rows]
    earlier = [*documents[1:], None]
    return RevisionsAnswer(
        revisions=list(map(_revision, shown, documents, earlier)),
        next_cursor=following,
    )


def intervals_page(
    service: Service, job_id: str, limit: int, cursor: str | None
) -> IntervalsAnswer:
    """Energy intervals of a job in order of time.

    Raises UnknownJobError, IntervalsDeletedError or CursorError.
    """
    wanted = sa.select(Interval, Device).join(Device, Device.id == Interval.device)
    if cursor:
        position = decode_cursor(cursor, int, int)
        wanted = wanted.where(sa.tuple_(Interval.start_us, Device.id) > sa.tuple_(*position))
    with service.store.read() as session:
        job = find_job(session, job_id)
        require_intervals(job, "they cannot be listed")
        rows = session.execute(
            wanted.where(Device.job == job.id)
            .order_by(Interval.start_us, Device.id)
            .limit(limit + 1)
        ).all()
    shown, following = cut(rows, limit, lambda row: (row.Interval.start_us, row.Device.id))
    intervals = [_interval(row.Interval, row.Device) for row in shown]
    return IntervalsAnswer(intervals=intervals, next_cursor=following)


def _revision(score: Score, document: JobDoc, before: JobDoc | None) -> RevisionRow:
    return RevisionRow(
        revision=score.revision,
        made_at=text_from_us(score.made_us),
        reason=score.reason,
        engine_version=score.engine_version,
        catalog_version=score.catalog_version,
        conformance=score.conformance,
        energy_kwh=document.energy_kwh,
        total_g=document.total_g,
        change=revision_change(before, document) if before is not None else None,
    )


def _interval(interval: Interval, device: Device) -> IntervalRow:
    return IntervalRow(
        node=device.node,
        device_id=device.device_id,
        start=text_from_us(interval.start_us),
        end=text_from_us(interval.end_us),
        energy_j=interval.energy_j,
        kind=interval.kind,
        utilisation_mean=interval.utilisation_mean,
        utilisation_max=interval.utilisation_max,
        memory_peak_b=interval.memory_peak_b,
        power_max_w=interval.power_max_w,
        profile=json.loads(interval.profile) if interval.profile else {},
    )
