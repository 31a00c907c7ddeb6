"""A job's rows in the archive of a month: its lines, its part of the month, and what made that.

No row has a name that people gave: a project is an id that only the store can tell, and jobs are
found by their key and id. What else is known of a job stays in the store.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.analysis.month import months_of
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.units import J_PER_KWH, S_PER_HOUR
from gramwatt.sci.grid.intensity import IntensityTrack
from gramwatt.sci.journal.corrections import Correction
from gramwatt.sci.journal.merge import MergedJob
from gramwatt.sci.journal.records import AnyRecord
from gramwatt.sci.score.operational import JobEnergy, by_cell
from gramwatt.service.container import Service
from gramwatt.service.fleet.places import ArchiveError
from gramwatt.service.jobs.journal import corrections_of, records_of
from gramwatt.service.jobs.scoring import joined_records, score_job
from gramwatt.service.months.sums.part import SUMMED, unpack_texts
from gramwatt.service.store.documents import read_job, to_text
from gramwatt.service.store.models import (
    Count,
    Device,
    Interval,
    Job,
    JobMonth,
    Score,
    Writer,
)
from gramwatt.service.store.timestamps import to_us

Rows = dict[str, list[tuple[Any, ...]]]
CLOSE = 1e-9
TRIES = 3
_HOUR = timedelta(hours=1)
_ALWAYS_US = -(2**63), 2**63 - 1
_INTERVALS = (
    sa.select(Device.node, Device.device_id, Interval.writer, Interval.seq)
    .add_columns(Interval.start_us, Interval.end_us, Interval.energy_j, Interval.kind)
    .add_columns(Interval.utilisation_mean, Interval.utilisation_max)
    .add_columns(Interval.memory_peak_b, Interval.power_max_w, Interval.profile, Interval.extra)
    .join(Device, Device.id == Interval.device)
)
_COUNTS = (
    sa.select(Writer.node, Writer.writer, Count.seq, Count.at_us)
    .add_columns(Count.unit, Count.amount, Count.phase, Count.extra)
    .join(Writer, Writer.id == Count.writer)
)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A job as it was read in one transaction; `records` are empty where its lines are gone."""

    job: Job
    part: JobMonth
    document: JobDoc
    records: list[AnyRecord]
    corrections: list[Correction]
    rows: Rows


def rows_of(
    service: Service, project: str, key: int, month: str, archived_b: int = 0
) -> tuple[Rows, bool]:
    """Return a job's rows by table, under the id of its project; and whether its lines are gone.

    `archived_b` is `stored_b` in the revision before, which holds on for lines that are gone.
    Raises ArchiveError for a job that changes all the time, or that is not as it is scored.
    """
    for _ in range(TRIES):
        seen = _read(service, project, key, month)
        rows, gone = seen.rows, seen.job.intervals_deleted_us is not None
        _, job_id, *_ = who = (key, seen.job.job_id, project)
        sums = months_of(seen.document)[month].sums
        terms = [sums.energy_kwh, sums.operational_g, sums.embodied_g]
        known = [None if term is None else term.value for term in terms]
        rows["jobs"] = [(*who, *_job_row(seen, known, seen.job.stored_b or archived_b))]
        if seen.part.use == SUMMED and known[0] and known[1] is not None:
            facts = (
                _mean(seen.document, known[0], known[1]) if gone else _hours(service, seen, month)
            )
            rows["energy"] = [(*who, *row) for row in facts]
            if not _adds_up(rows["energy"], known[0], known[1]):
                # Intensity or settings are not those of the score any more: it is made again.
                score_job(service, key, "archived", force=True)
                continue
        if seen.part.use == SUMMED and known[2]:
            rows["embodied"] = [(*who, *row) for row in _terms(seen.document, known[2])]
        if _unchanged(service, seen.job):
            return rows, gone
    text = f"job {job_id} changes all the time, or its score is not what its lines make now"
    raise ArchiveError(f"{text}; try again later")


def _read(service: Service, project: str, key: int, month: str) -> _Seen:
    with service.store.read() as session:
        job = session.get(Job, key)
        part = session.get(JobMonth, (month, key))
        if job is None or part is None:
            raise ArchiveError(f"a job of {month} was deleted meanwhile; try again")
        newest = sa.select(Score).where(Score.job == key, Score.revision == job.revision)
        score = session.scalars(newest).one()
        corrections = corrections_of(session, job)
        gone = job.intervals_deleted_us is not None
        records = [] if gone else records_of(session, job, corrections)
        rows: Rows = {"energy": [], "embodied": [], "intervals": [], "counts": []}
        if not gone:
            rows |= _lines(session, job, project, _span_us(service, session, key, month))
        session.expunge_all()
    document = read_job(score.doc, score.series)
    return _Seen(job, part, document, records, corrections, rows)


def _span_us(service: Service, session: Session, key: int, month: str) -> tuple[int, int]:
    """Return the span of a job's lines in a month.

    Its first month has all before and each month what follows up to its next, so that no line,
    such as a count at midnight after its end, is in none.
    """
    months = sorted(session.scalars(sa.select(JobMonth.month).where(JobMonth.job == key)))
    after = months[months.index(month) + 1 :]
    first = service.month_span_us(month)[0] if month != months[0] else _ALWAYS_US[0]
    return first, service.month_span_us(after[0])[0] if after else _ALWAYS_US[1]


def _lines(session: Session, job: Job, project: str, span_us: tuple[int, int]) -> Rows:
    """Return intervals and counts of the month as they are stored."""
    who = (job.id, job.job_id, project)
    first, end = span_us
    intervals = _INTERVALS.where(
        Device.job == job.id, Interval.start_us >= first, Interval.start_us < end
    )
    counts = _COUNTS.where(Writer.job == job.id, Count.at_us >= first, Count.at_us < end)
    return {
        "intervals": [(*who, *row) for row in session.execute(intervals)],
        "counts": [(*who, *row) for row in session.execute(counts)],
    }


def _job_row(seen: _Seen, known: Sequence[float | None], stored_b: int) -> tuple[Any, ...]:
    job, part, method = seen.job, seen.part, seen.document["method"]
    texts = None
    if part.use == SUMMED:
        found = unpack_texts(part.texts)
        texts = to_text({**found, "project": "", "owner": "", "model_id": None, "notices": []})
    return (
        *(job.state, part.started_us, job.version, job.revision),
        *(method["engine_version"], method["catalog_version"], stored_b),
        *(part.use == SUMMED, *known, texts, part.numbers if texts else None),
    )


def _hours(service: Service, seen: _Seen, month: str) -> list[tuple[Any, ...]]:
    """Return the energy of a month by zone, PUE and hour, with the intensity it was joined with."""
    job, energy = joined_records(service, seen.records, seen.corrections)
    memo = seen.document["memo"]
    contract = memo["contract_g_per_kwh"]["value"] if memo else None
    sums: dict[tuple[str, str, int, float], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for key, joules, value in _cells(job, energy, service.month_span_us(month)):
        of_hour = sums[key]
        of_hour[0] += joules
        of_hour[1] += joules * value
    return [
        (zone, quality, hour, joules, weighted / joules, pue, contract)
        for (zone, quality, hour, pue), (joules, weighted) in sorted(sums.items())
    ]


def _cells(
    job: MergedJob, energy: JobEnergy, span_us: tuple[int, int]
) -> Iterator[tuple[tuple[str, str, int, float], float, float]]:
    """Yield energy [J] and intensity of each hour or part of one, by what is the same in it."""
    cuts = [(_by_hour(track), pue.value) for track, pue in energy.sites]
    for device in job.devices:
        if not device.intervals:
            continue
        track, pue = cuts[energy.site_of.get(device.record.node, 0)]
        cells = by_cell(device.intervals, track.edges)
        for first, end, known in track.runs:
            for number in range(first, end):
                joules = sum(of_kind[number] for of_kind in cells.values())
                start_us = to_us(track.edges[number])
                if joules and span_us[0] <= start_us < span_us[1]:
                    hour = start_us // (S_PER_HOUR * 1_000_000)
                    key = (known.zone, known.quality, int(hour), pue)
                    yield key, joules, track.values[number]


def _by_hour(track: IntensityTrack) -> IntensityTrack:
    """Return a track cut at whole hours of UTC."""
    first = track.edges[0].replace(minute=0, second=0, microsecond=0) + _HOUR
    number = max(0, int((track.edges[-1] - first) / _HOUR) + 1)
    return track.cut([first + n * _HOUR for n in range(number)])


def _mean(document: JobDoc, kwh: float, grams: float) -> list[tuple[Any, ...]]:
    """Return one row for a job whose lines were deleted, with its mean PUE and intensity."""
    pue, memo = document["method"]["pue"]["value"], document["memo"]
    contract = memo["contract_g_per_kwh"]["value"] if memo else None
    hour = int(datetime.fromisoformat(document["started_at"]).timestamp() // S_PER_HOUR)
    zone = document["zone"] or ""
    return [(zone, "", hour, kwh * J_PER_KWH, grams / kwh / pue, pue, contract)]


def _terms(document: JobDoc, grams: float) -> Iterator[tuple[Any, ...]]:
    """Yield the embodied terms, as much of each as of their sum lies in the month."""
    terms = document["embodied_terms"]
    whole = sum(term["embodied_g"]["value"] for term in terms)
    for term in terms:
        of_month = term["embodied_g"]["value"] * grams / whole if whole else 0.0
        te_g = term["te_g"]["value"]
        yield term["label"], term["tier"], te_g, term["lifetime_years"], of_month


def _adds_up(rows: Sequence[tuple[Any, ...]], kwh: float, grams: float) -> bool:
    """Return whether the hours sum to E and O of the job's part of the month."""
    joules = sum(row[6] for row in rows)
    carbon = sum(row[6] / J_PER_KWH * row[7] * row[8] for row in rows)
    both = ((joules / J_PER_KWH, kwh), (carbon, grams))
    return all(abs(found - stated) <= CLOSE * abs(stated) for found, stated in both)


def _unchanged(service: Service, job: Job) -> bool:
    columns = (Job.version, Job.revision, Job.intervals_deleted_us)
    with service.store.read() as session:
        now = session.execute(sa.select(*columns).where(Job.id == job.id)).one_or_none()
    return now is not None and tuple(now) == (job.version, job.revision, job.intervals_deleted_us)
