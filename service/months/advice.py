"""What sums of a month lack that jobs' documents and the store say: suggestions and publishers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy.orm import Session

from gramwatt.sci.catalog.files import SourceRow
from gramwatt.sci.figures.csv_data import rows as csv_rows
from gramwatt.sci.figures.days import month_span
from gramwatt.sci.figures.document import JobDoc, Quality
from gramwatt.sci.figures.errors import LookupFailed
from gramwatt.sci.grid.zones import ZoneIntensity
from gramwatt.sci.month.documents import MonthAdvice, MonthSums
from gramwatt.sci.month.month import months_of
from gramwatt.sci.month.trail import FactorFileDoc, FactorRow
from gramwatt.sci.suggest.jobs import JOBS_EXAMINED, examined, for_month, grouped
from gramwatt.service.container import Service
from gramwatt.service.intensity.lookup import source_text
from gramwatt.service.intensity.points import IMPORTED, SeriesName
from gramwatt.service.months.rows import from_session
from gramwatt.service.months.statements import LARGEST, month_scope, selecting
from gramwatt.service.providers.base import SCORED
from gramwatt.service.store.columns import read_job, text_from_us
from gramwatt.service.store.intensity import IntensitySeries
from gramwatt.service.store.intensity_sources import IntensityFile
from gramwatt.service.store.models import Job, Score
from gramwatt.service.suggest import rows_of_own_jobs

PUBLISHERS = {"ember": "Ember", "em-yearly": "Electricity Maps"}
"""Publishers of the catalog's annual values, by key of sources.csv."""
ANNUAL = ("annual", "world")


def advised(service: Service, session: Session, sums: MonthSums) -> MonthAdvice:
    """Return suggestions for a month's largest jobs, and its factors with their publishers."""
    jobs = _largest(session, sums)
    savings = for_month(jobs, service.catalog, rows_of_own_jobs(service))
    fractions = {job.job_id: _fraction_in(job, sums.month) for job in jobs}
    counts = {(row.hardware, row.work): row.jobs for row in sums.work}
    idle = {(row.hardware, row.work, row.action) for row in sums.waste}
    return MonthAdvice(
        advice=[
            row
            for row in grouped(savings, fractions, counts)
            if (row.hardware, row.work, row.action) not in idle
        ],
        suggestions=savings,
        examined_jobs=len(jobs),
        factors=_with_publishers(service, session, sums.month, sums.factors),
    )


def _largest(session: Session, sums: MonthSums) -> list[JobDoc]:
    """Return the newest documents of the jobs to examine, without what changes over time."""
    select = selecting(from_session(session), *month_scope(sums.month, sums.project))
    rows = [*select(LARGEST, most=JOBS_EXAMINED)]
    names = [(grams, job_id, f"{hardware} on {work}") for _, job_id, grams, hardware, work in rows]
    chosen = [tuple(rows[place][:2]) for place in examined(names, JOBS_EXAMINED)]
    newest = sa.and_(Score.job == Job.id, Score.revision == Job.revision)
    documents = sa.select(Job.project, Job.job_id, Score.doc).join(Score, newest)
    named = documents.where(Job.job_id.in_({job_id for _, job_id in chosen}))
    texts = {(project, job_id): text for project, job_id, text in session.execute(named)}
    return [read_job(texts[key]) for key in chosen if key in texts]


def _fraction_in(job: JobDoc, month: str) -> float:
    """Return the fraction of a job's carbon that lies in the month."""
    part, whole = months_of(job).get(month), job.total_g
    of_month = part.sums.total_g if part else None
    if of_month is None or whole is None or whole.value <= 0:
        return 1.0
    return of_month.value / whole.value


def _with_publishers(
    service: Service, session: Session, month: str, rows: Sequence[FactorRow]
) -> list[FactorRow]:
    """Return the rows with publisher, edition, licence and link of each factor; null for unknown.

    A factor of an imported file names the files of its zone whose days overlap the month.
    """
    return [_with_publisher(service, session, month, row) for row in rows]


def _with_publisher(service: Service, session: Session, month: str, row: FactorRow) -> FactorRow:
    if row.quality in ANNUAL:
        return _of_catalog(service, row)
    statement = sa.select(IntensitySeries).where(
        IntensitySeries.zone == row.zone,
        IntensitySeries.signal == SCORED[0],
        IntensitySeries.basis == SCORED[1],
    )
    for series in session.scalars(statement.order_by(IntensitySeries.id)):
        names = {name: getattr(series, name) for name in SeriesName._fields}
        known = SeriesName(**names)
        if row.source not in {source_text(q, known) for q in get_args(Quality)}:
            continue
        files = _files(session, month, known) if known.provider == IMPORTED else []
        publishers = dict.fromkeys(f.publisher or "not stated" for f in files)
        about: dict[str, Any] = {
            "publisher": ", ".join(publishers) if files else known.provider,
            "edition": ", ".join(f.imported_at[:10] for f in files) or None,
            "licence": ", ".join(dict.fromkeys(f.licence for f in files if f.licence))
            or known.licence
            or None,
            "link": next((f.link for f in files if f.link), None),
            "files": files,
        }
        return replace(row, **about)
    return row


def _of_catalog(service: Service, row: FactorRow) -> FactorRow:
    """Return a row of an annual value; its publisher is known while the catalog has that value."""
    try:
        world = row.quality == "world"
        zone = service.catalog.world() if world else service.catalog.zone(row.zone)
    except LookupFailed:
        return row
    if zone.intensity.source != row.source:
        return row
    return replace(row, **_published(zone))


def _published(zone: ZoneIntensity) -> dict[str, str | None]:
    of_key = {row.name: row for row in csv_rows(SourceRow)}
    row = of_key.get(zone.source)
    if row is None:  # of the overlay
        return {"publisher": zone.source, "edition": f"{zone.year}", "licence": zone.licence}
    return {
        "publisher": PUBLISHERS.get(zone.source, row.title),
        "edition": f"{zone.year}; {row.title}",
        "licence": zone.licence,
        "link": row.url,
    }


def _files(session: Session, month: str, series: SeriesName) -> list[FactorFileDoc]:
    """Return the imported files of a series with a day in the month, the last import first."""
    start, end = month_span(month)
    statement = sa.select(IntensityFile).where(
        IntensityFile.zone == series.zone,
        IntensityFile.signal == series.signal,
        IntensityFile.basis == series.basis,
        IntensityFile.first_day < end.toordinal() + 1,
        IntensityFile.last_day >= start.toordinal() - 1,
    )
    return [
        FactorFileDoc(
            name=row.name,
            sha256=row.sha256,
            publisher=row.publisher,
            licence=row.licence,
            link=row.link,
            imported_by=row.imported_by,
            imported_at=text_from_us(row.imported_us),
        )
        for row in session.scalars(statement.order_by(IntensityFile.imported_us.desc()))
    ]
