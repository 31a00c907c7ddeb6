"""A job by UTC day, for roll-ups: a month is a sum of days, so a job may cross its edges."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

from gramwatt.sci.base.document import DayDoc
from gramwatt.sci.base.units import J_PER_KWH
from gramwatt.sci.journal.merge import MergedJob
from gramwatt.sci.score.context import Parts, doc


def days(parts: Parts) -> list[DayDoc]:
    """Energy and O as read, M in proportion to reserved time, counts as made; one row a day."""
    rows: list[DayDoc] = []
    for day in _calendar(parts.job):
        energy = parts.cells.energy_j(day=day) if parts.complete else None
        operational = parts.cells.operational_g(parts.place.pue, day=day) if energy else None
        embodied = parts.embodied_g
        share = _time_share(parts.job, day)
        rows.append(
            {
                "day": day.isoformat(),
                "energy_kwh": doc(energy.scaled(1 / J_PER_KWH, "kWh")) if energy else None,
                "operational_g": doc(operational),
                "embodied_g": doc(embodied.scaled(share)) if embodied else None,
                "counts": _counts(parts.job, day),
            }
        )
    return rows


def _span(job: MergedJob) -> tuple[datetime, datetime]:
    moments = [job.started_at, job.ended_at or job.last_seen, job.last_seen]
    moments += [i.start for device in job.devices for i in device.intervals[:1]]
    return min(moments), max(moments)


def _calendar(job: MergedJob) -> list[date]:
    start, end = _span(job)
    first, last = start.astimezone(UTC).date(), end.astimezone(UTC).date()
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def _time_share(job: MergedJob, day: date) -> float:
    """Share of the job's reserved time that lies in `day`; all of it for a job without length."""
    start, end = job.started_at, job.ended_at or job.last_seen
    if end <= start:
        return 1.0 if day == start.date() else 0.0
    midnight = datetime.combine(day, time(), UTC)
    inside = min(end, midnight + timedelta(days=1)) - max(start, midnight)
    return max(0.0, inside / (end - start))


def _counts(job: MergedJob, day: date) -> dict[str, float]:
    sums: dict[str, float] = {}
    for count in job.counts:
        if count.at.astimezone(UTC).date() == day:
            sums[count.unit] = sums.get(count.unit, 0.0) + count.amount
    return sums
