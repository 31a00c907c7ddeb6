"""Which jobs wait to be scored again: until they are, a month is a mixture and not complete."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.score.version import ENGINE_VERSION
from gramwatt.service.container import Service
from gramwatt.service.store.models import Job, is_pending
from gramwatt.service.store.months import FactorBackfill, JobMonth

NEWEST_BACKFILL = sa.select(FactorBackfill).where(FactorBackfill.id == 1)
"""How far scores follow the factors; no row before the first periodic work."""


def factors_of(service: Service) -> str:
    """Return what scores are made of beside a job's own lines and intensity over time."""
    life = service.config.lifetime_years
    parts = (ENGINE_VERSION, service.catalog.version, service.config.zone, life)
    return " ".join(map(str, parts))


def to_rescore() -> tuple[sa.ColumnElement[bool], ...]:
    """Return the conditions on jobs that can be scored again: ended, scored, with intervals."""
    return Job.state != "running", Job.revision > 0, Job.intervals_deleted_us.is_(None)


def jobs_to_rescore(
    service: Service, session: Session, months: Collection[str], project: str | None
) -> int:
    """Return how many jobs of these months wait to be scored again.

    With lines that arrived since, with the engine, catalog and settings of now, or with intensity
    that has arrived since. The months before count with one whose report shows them.
    """
    backfill = session.scalars(NEWEST_BACKFILL).one_or_none()
    waiting = [sa.select(Job.id).where(is_pending(), Job.state != "running", Job.revision > 0)]
    if backfill is not None:  # else nobody will score them
        due = Job.rescore_us.is_not(None), Job.rescore_us <= service.now_us()
        waiting.append(sa.select(Job.id).where(*due, *to_rescore()))
        today = factors_of(service)
        if backfill.done != today:
            last = backfill.job if backfill.until == today else 0
            waiting.append(sa.select(Job.id).where(Job.id > last, *to_rescore()))
    statement = sa.select(sa.func.count(sa.distinct(JobMonth.job))).where(
        JobMonth.month.in_(sorted(months)), sa.or_(*(JobMonth.job.in_(jobs) for jobs in waiting))
    )
    if project is not None:
        statement = statement.where(JobMonth.project == project)
    return session.scalar(statement) or 0
