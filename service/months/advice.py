"""What sums of a month lack that jobs' documents and the store say: suggestions and publishers."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy.orm import Session

from gramwatt.sci.catalog.files import SourceRow
from gramwatt.sci.catalog.overlay import OWN_LICENCE
from gramwatt.sci.figures.csv_data import rows as csv_rows
from gramwatt.sci.figures.days import month_span
from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.month.documents import FactorFileDoc, FactorRow, MonthAdvice, MonthSums
from gramwatt.sci.month.month import months_of
from gramwatt.sci.suggest.jobs import JOBS_EXAMINED, examined, for_month, grouped
from gramwatt.service.container import Service
from gramwatt.service.intensity.lookup import input_id
from gramwatt.service.intensity.points import IMPORTED, SeriesName
from gramwatt.service.months.rows import from_session
from gramwatt.service.months.statements import LARGEST, month_scope, selecting
from gramwatt.service.providers.base import SCORED
from gramwatt.service.store.columns import read_job, text_from_us
from gramwatt.service.store.intensity import IntensityFile, IntensitySeries
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
        factors=[_with_publisher(service, session, sums.month, row) for row in sums.factors],
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


def _with_publisher(service: Service, session: Session, month: str, row: FactorRow) -> FactorRow:
    """Return a factor with its publisher, edition, licence and link; null for unknown.

    One of an imported file names the files of its zone whose days overlap the month.
    """
    if row.quality in ANNUAL:
        return replace(row, **_of_annual(service, row.series))
    statement = sa.select(IntensitySeries).where(
        IntensitySeries.zone == row.zone,
        IntensitySeries.signal == SCORED[0],
        IntensitySeries.basis == SCORED[1],
    )
    stored = session.scalars(statement.order_by(IntensitySeries.id))
    names = [SeriesName(*(getattr(s, name) for name in SeriesName._fields)) for s in stored]
    names = [name for name in names if input_id("measured", name) == row.series]
    if not names:
        return row
    provider = names[0].provider
    files = _files(session, month, names[0]) if provider == IMPORTED else []
    licences = [f.licence for f in files if f.licence] or [n.licence for n in names if n.licence]
    about: dict[str, Any] = {
        "publisher": ", ".join(dict.fromkeys(f.publisher or "not stated" for f in files))
        or provider,
        "edition": ", ".join(f.imported_at[:10] for f in files) or None,
        "licence": ", ".join(dict.fromkeys(licences)) or None,
        "link": next((f.link for f in files if f.link), None),
        "files": files,
    }
    return replace(row, **about)


def _of_annual(service: Service, series: str) -> dict[str, Any]:
    """Return the publisher of annual values by key of sources.csv, or by entry of the overlay."""
    for row in csv_rows(SourceRow):
        if row.name == series:
            publisher = PUBLISHERS.get(series, row.title)
            about = {"publisher": publisher, "edition": row.title}
            return {**about, "licence": row.licence, "link": row.url}
    overlay = service.catalog.overlay
    if overlay and series in overlay.cited:
        return {"publisher": series, "licence": OWN_LICENCE}
    return {}


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
