"""Scores follow the factors of today: catalog, engine, time zone of days, expected lifetime."""

from __future__ import annotations

import logging
import time

import sqlalchemy as sa

from gramwatt.sci.base.errors import GramwattError
from gramwatt.service.container import Service
from gramwatt.service.jobs.scoring import score_job
from gramwatt.service.months.rescoring import NEWEST_BACKFILL, factors_of, to_rescore
from gramwatt.service.store.factors import FactorBackfill
from gramwatt.service.store.models import Job

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


def _following(service: Service, last: int) -> list[int]:
    """Return the next jobs after `last` to score, a portion of what may be a million."""
    wanted = sa.select(Job.id).where(Job.id > last, *to_rescore())
    with service.store.read() as session:
        return list(session.scalars(wanted.order_by(Job.id).limit(JOBS_AT_ONCE)))


def _keep(service: Service, row: FactorBackfill) -> None:
    service.store.transact(lambda session: session.merge(row))
