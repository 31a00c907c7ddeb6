"""The energy intervals of a job, page by page."""

from __future__ import annotations

import json

import sqlalchemy as sa

from gramwatt.service.common.answers import IntervalRow, IntervalsAnswer
from gramwatt.service.common.requests import cut, decode_cursor
from gramwatt.service.container import Service
from gramwatt.service.jobs.documents import find_job, require_intervals
from gramwatt.service.store.columns import text_from_us
from gramwatt.service.store.journal import Device, Interval


def intervals_page(
    service: Service, job_id: str, limit: int, cursor: str | None
) -> IntervalsAnswer:
    """Energy intervals of a job in order of time.

    Raises UnknownJobError, IntervalsDeletedError or CursorError.
    """
    statement = sa.select(Interval, Device).join(Device, Device.id == Interval.device)
    if cursor:
        position = decode_cursor(cursor, int, int)
        statement = statement.where(sa.tuple_(Interval.start_us, Device.id) > sa.tuple_(*position))
    with service.store.read() as session:
        job = find_job(session, job_id)
        require_intervals(job, "they cannot be listed")
        rows = session.execute(
            statement.where(Device.job == job.id)
            .order_by(Interval.start_us, Device.id)
            .limit(limit + 1)
        ).all()
    shown, following = cut(rows, limit, lambda row: (row.Interval.start_us, row.Device.id))
    intervals = [_interval(row.Interval, row.Device) for row in shown]
    return IntervalsAnswer(intervals=intervals, next_cursor=following)


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
