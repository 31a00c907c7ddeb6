"""Suggestions for a request and for a stored job, and rows of own runs from stored jobs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from weakref import WeakKeyDictionary

import msgspec
import sqlalchemy as sa
from sqlalchemy import Engine

from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.suggest.documents import SuggestDoc
from gramwatt.sci.suggest.evidence import OwnRow
from gramwatt.sci.suggest.jobs import for_job, own_rows, runs_a_year
from gramwatt.sci.suggest.request import SuggestRequest
from gramwatt.sci.suggest.suggest import suggest
from gramwatt.service.container import Service
from gramwatt.service.store.columns import read_job
from gramwatt.service.store.models import Job, Score

JOBS_READ = 200
"""Newest completed jobs whose measurements are used; older ones ran older software."""
RUNS_READ = 2000
"""Newest completed jobs of a project that are looked through for runs of one job."""
ROWS_KEPT = 10_000
_ROWS: WeakKeyDictionary[Engine, dict[tuple[int, int], list[OwnRow]]] = WeakKeyDictionary()
"""By database: what each score document says as an own row, by its key and when it was made."""
DAY_US = 86_400 * 1_000_000
YEAR_US = 365 * DAY_US
_NEWEST_COMPLETED = (
    sa.select(Job.id, Job.revision)
    .select_from(Job)
    .where(Job.state == "completed")
    .order_by(Job.started_us.desc(), Job.id.desc())
    .limit(JOBS_READ)
)


def answer(service: Service, request: SuggestRequest) -> SuggestDoc:
    """Return suggestions for a request; raises GramwattError for what the engine refuses.

    The configured lifetime of hardware applies where the request names none.
    """
    if request.lifetime_years is None:
        request = msgspec.structs.replace(request, lifetime_years=service.config.lifetime_years)
    return suggest(request, service.catalog, rows_of_own_jobs(service), now=service.now())


def answer_for_document(service: Service, document: JobDoc) -> SuggestDoc:
    """Return the suggestions for a job, from what was measured of it."""
    rows = rows_of_own_jobs(service)
    return for_job(document, service.catalog, rows, _repeats(service, document))


def advice_beside(service: Service, document: JobDoc, forms: Collection[str]) -> SuggestDoc | None:
    """Return the suggestions in a job's rendered report; None for json, which is the document
    alone.

    It is made when the report is, with today's catalog and measurements, and never stored.
    """
    if set(forms) <= {"json"}:
        return None
    return answer_for_document(service, document)


def advice_basis(service: Service) -> str:
    """Return a text that changes with what advice beside a job is made of, but for the job.

    Own jobs are named by key and revision, so that no document is read. Runs of a year
    count by the day.
    """
    with service.store.read() as session:
        runs = session.execute(_NEWEST_COMPLETED).all()
    own = hashlib.sha256(repr([tuple(row) for row in runs]).encode()).hexdigest()
    today = service.now().date().isoformat()
    return f"{service.catalog.version} {own} {today}"


def _repeats(service: Service, document: JobDoc) -> Quantity | None:
    """Return how often a job of this project and name runs [1/year], by its completed runs of a
    year.
    """
    now_us = service.now_us()
    statement = (
        sa.select(Job.started_us, Job.head)
        .where(
            Job.project == document.project,
            Job.state == "completed",
            Job.started_us > now_us - YEAR_US,
            Job.started_us <= now_us,
        )
        .order_by(Job.started_us.desc())
        .limit(RUNS_READ)
    )
    with service.store.read() as session:
        rows = session.execute(statement).all()
    starts = [at for at, head in rows if json.loads(head)["name"] == document.name]
    if not starts:
        return None
    # Whole days, as the source states them: the answer is the same all day.
    days = round((now_us - min(starts)) / DAY_US)
    return runs_a_year(len(starts), days, f"{document.project}/{document.name}")


def rows_of_own_jobs(service: Service) -> list[OwnRow]:
    """Return the organisation's own rows: each of the newest completed jobs with R is one.

    They are read from the score documents, so that a new revision of a score is a new row. A
    document is read once: 200 of them take 0.2 s.
    """
    newest = _NEWEST_COMPLETED.join(
        Score, sa.and_(Job.id == Score.job, Job.revision == Score.revision)
    )
    rows = _ROWS.setdefault(service.store.engine, {})
    with service.store.read() as session:
        keys = [
            (score, made_us)
            for score, made_us in session.execute(newest.with_only_columns(Score.id, Score.made_us))
        ]
        unread = [key[0] for key in keys if key not in rows]
        documents = newest.with_only_columns(Score.id, Score.made_us, Score.doc)
        texts = session.execute(documents.where(Score.id.in_(unread))).all() if unread else []
    if len(rows) > ROWS_KEPT:
        rows = _ROWS[service.store.engine] = {key: rows[key] for key in keys if key in rows}
    rows.update({(score, made): own_rows([read_job(text)]) for score, made, text in texts})
    return [row for key in keys for row in rows.get(key, ())]
