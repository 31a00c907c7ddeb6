"""Scores follow intensity: jobs are scored again when points of their time are stored."""

from __future__ import annotations

import logging
import time
from datetime import date

import sqlalchemy as sa

from gramwatt.sci.base.errors import GramwattError
from gramwatt.service.container import Service
from gramwatt.service.store.job_labels import ZONE
from gramwatt.service.store.models import (
    IntensityBackfill,
    IntensityDay,
    IntensitySeries,
    Job,
    JobLabel,
)
from gramwatt.service.usecases.intensity.points import DAY_S
from gramwatt.service.usecases.score_job import score_job

RESCORE_S = 60.0
"""How long one run scores at most [s]; the next goes on."""
REASON = "intensity"
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY_US = DAY_S * 1_000_000

_log = logging.getLogger("gramwatt.service")


def rescore_after_imports(service: Service, budget_s: float = RESCORE_S) -> int:
    """Score ended jobs again for whose time and zone points were stored since; how many.

    Each job once for all points stored by then. A score that does not change makes no revision.
    """
    ends, done = time.monotonic() + budget_s, 0
    with service.store.read() as session:
        newest_us = session.scalar(sa.select(sa.func.max(IntensityDay.fetched_us))) or 0
        kept = session.get(IntensityBackfill, 1)
    done_us, until_us, last = (kept.done_us, kept.until_us, kept.job) if kept else (0, 0, 0)
    if until_us <= done_us:  # no pass is under way
        until_us, last = newest_us, 0
    if until_us <= done_us:
        return 0
    for key in _jobs(service, done_us, until_us, last):
        if time.monotonic() >= ends:
            return done
        try:
            score_job(service, key, REASON, force=True)
        except GramwattError as error:
            _log.warning("job %d cannot be scored with new intensity: %s", key, error.message)
        _keep(service, done_us, until_us, key)
        done += 1
    _keep(service, until_us, until_us, 0)
    return done


def _keep(service: Service, done_us: int, until_us: int, job: int) -> None:
    row = IntensityBackfill(id=1, done_us=done_us, until_us=until_us, job=job)
    with service.store.write() as session:
        session.merge(row)


def _jobs(service: Service, after_us: int, until_us: int, last: int) -> list[int]:
    """Ended jobs with a score, after the key `last`, that points of this span of storing touch."""
    start_us = (sa.cast(IntensityDay.day, sa.BigInteger) - _EPOCH_DAY) * _DAY_US
    wanted = (
        sa.select(Job.id)
        .join(JobLabel, JobLabel.job == Job.id)
        .join(IntensitySeries, JobLabel.label == sa.literal(f"{ZONE}:") + IntensitySeries.zone)
        .join(IntensityDay, IntensityDay.series == IntensitySeries.id)
        .where(IntensitySeries.signal == "average", IntensitySeries.basis == "lifecycle")
        .where(IntensityDay.fetched_us > after_us, IntensityDay.fetched_us <= until_us)
        .where(Job.started_us < start_us + _DAY_US, Job.ended_us > start_us)
        .where(Job.id > last, Job.state != "running", Job.revision > 0)
        .where(Job.intervals_deleted_us.is_(None))
        .distinct()
        .order_by(Job.id)
    )
    with service.store.read() as session:
        return list(session.scalars(wanted))
