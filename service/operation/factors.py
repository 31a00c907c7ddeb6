"""Scores follow the factors of today: catalog, engine, time zone of days, expected lifetime."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict, replace

from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.figures.errors import GramwattError
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.service.container import Service
from gramwatt.service.jobs.scoring import VERSIONS, made_now, score_job
from gramwatt.service.months.rescoring import NEWEST_BACKFILL, factors_of, to_rescore
from gramwatt.service.store.documents import read_job
from gramwatt.service.store.factors import FactorBackfill
from gramwatt.service.store.models import Job, Score

RESCORE_S = 240.0
"""How long one run scores at most [s], four fifths of its period; the next goes on."""
JOBS_AT_ONCE = 1_000
"""Keys of jobs that are read at once."""
KEPT_EVERY = 100
"""Jobs after which the store notes how far this is; those since a crash are scored twice."""
REASON = "factors"

_log = logging.getLogger("gramwatt.service")


def rescore_on_new_factors(service: Service, budget_s: float = RESCORE_S) -> int:
    """Score ended jobs again after the factors changed, each once; how many.

    A score that they do not change makes no revision.
    """
    ends, today = time.monotonic() + budget_s, factors_of(service)
    with service.store.read() as session:
        kept = session.scalars(NEWEST_BACKFILL).one_or_none()
        before, until, last = (kept.done, kept.until, kept.job) if kept else ("", "", 0)
    if before == today:
        return 0
    last, number = (last if until == today else 0), 0
    # Months know from now on which of their jobs wait, whoever asks.
    _keep(service, FactorBackfill(id=1, done=before, until=today, job=last))
    while keys := _following(service, last):
        for key in keys:
            if time.monotonic() >= ends:
                if number:
                    _keep(service, FactorBackfill(id=1, done=before, until=today, job=last))
                return number
            try:
                score_job(service, key, REASON, force=True)
            except GramwattError as error:
                _log.warning("job %d cannot be scored with today's factors: %s", key, error.message)
            last, number = key, number + 1
            if number % KEPT_EVERY == 0:
                _keep(service, FactorBackfill(id=1, done=before, until=today, job=key))
    _keep(service, FactorBackfill(id=1, done=today, until=today, job=0))
    return number


class ScorePreview(Struct):
    """A score and what it would be now: totals [gCO2e], null where not known.

    `changed` are the fields of the document that would differ, beside the names of versions;
    `error` says why the job could not be scored any more.
    """

    job_id: str
    project: str
    old_g: Quantity | None
    new_g: Quantity | None
    changed: list[str]
    error: str | None


def preview_scores(service: Service) -> Iterator[ScorePreview]:
    """Yield each job that would be scored again, with what engine, catalog and settings of now
    would change; nothing is written.
    """
    last = 0
    while keys := _following(service, last):
        for last in keys:
            with service.store.read() as session:
                newest = sa.select(Score).join(Job, Job.id == Score.job)
                newest = newest.where(Job.id == last, Score.revision == Job.revision)
                row = session.scalars(newest).one_or_none()
            if row is not None:
                yield _previewed(service, last, read_job(row.doc, row.series))


def _previewed(service: Service, key: int, stored: JobDoc) -> ScorePreview:
    made, error = stored, None
    try:
        made = made_now(service, key, stored) or stored
    except GramwattError as failure:
        error = failure.message
    versions = {name: getattr(stored.method, name) for name in VERSIONS}
    alike = asdict(replace(made, method=replace(made.method, **versions)))
    return ScorePreview(
        job_id=stored.job_id,
        project=stored.project,
        old_g=stored.total_g,
        new_g=None if error else made.total_g,
        changed=sorted(name for name in alike if alike[name] != getattr(stored, name)),
        error=error,
    )


def _following(service: Service, last: int) -> list[int]:
    """Return the next jobs after `last` to score, a portion of what may be a million."""
    wanted = sa.select(Job.id).where(Job.id > last, *to_rescore())
    with service.store.read() as session:
        return list(session.scalars(wanted.order_by(Job.id).limit(JOBS_AT_ONCE)))


def _keep(service: Service, row: FactorBackfill) -> None:
    service.store.transact(lambda session: session.merge(row))
