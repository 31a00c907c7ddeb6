"""Scores follow intensity: jobs are scored again when points of their time are stored, and when
they are to be known better.
"""

from __future__ import annotations

import logging
import time
from datetime import date

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.figures.errors import GramwattError
from gramwatt.service.container import Service
from gramwatt.service.intensity.points import DAY_S
from gramwatt.service.jobs.scoring import score_job
from gramwatt.service.store.intensity import IntensityArrival
from gramwatt.service.store.job_labels import ZONE, label_text
from gramwatt.service.store.models import Job, JobLabel

RESCORE_S = 60.0
"""How long one run scores at most [s]; the next goes on."""
REASON = "intensity"
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY_US = DAY_S * 1_000_000


_log = logging.getLogger("gramwatt.service")


def rescore_due(service: Service, budget_s: float = RESCORE_S) -> int:
    """Score ended jobs again that are due, and those of whose time points arrived; how many.

    Each job once for all points stored by then. A score that does not change makes no revision.
    """
    ends, done = time.monotonic() + budget_s, 0
    _note_arrivals(service)
    for key in _due(service):
        if time.monotonic() >= ends:
            break
        try:
            score_job(service, key, REASON, force=True)
        except GramwattError as error:
            _log.warning("job %d cannot be scored with new intensity: %s", key, error.message)
            with service.store.write() as session:
                session.execute(sa.update(Job).where(Job.id == key).values(rescore_us=None))
        done += 1
    return done


def _note_arrivals(service: Service) -> None:
    """Make the jobs due of whose time points arrived.

    An arrival is seen when its points are, so a score whose points were read before finds its job
    changed when it is stored (`score_job`), and one read later has them.
    """

    def note(session: Session) -> None:
        for row in session.scalars(sa.select(IntensityArrival).order_by(IntensityArrival.id)):
            _make_due(session, service, row)
            session.delete(row)

    service.store.transact(note, large=True)


def _make_due(session: Session, service: Service, row: IntensityArrival) -> None:
    start_us = (row.first_day - _EPOCH_DAY) * _DAY_US
    end_us = (row.last_day + 1 - _EPOCH_DAY) * _DAY_US
    there = sa.select(JobLabel.job).where(JobLabel.label.in_(_labels(service, row.zone)))
    # A job that was never scored may lie in the zone by its region, which only a score knows.
    touched = sa.or_(Job.id.in_(there), Job.revision == 0)
    session.execute(
        sa.update(Job)
        .where(Job.started_us < end_us, sa.func.coalesce(Job.ended_us, end_us) > start_us)
        .where(touched, Job.intervals_deleted_us.is_(None))
        .values(rescore_us=service.now_us()),
        execution_options={"synchronize_session": False},
    )


def _labels(service: Service, zone: str) -> list[str]:
    """Return the labels of jobs in a zone, under each code that people write for it."""
    country = service.catalog.zone(zone).country or zone
    codes = {zone, country} if service.catalog.zone(country).zone == zone else {zone}
    return [label_text(ZONE, text) for code in codes for text in (code, code.lower())]


def _due(service: Service) -> list[int]:
    due = (
        sa.select(Job.id)
        .where(Job.rescore_us.is_not(None), Job.rescore_us <= service.now_us())
        .where(Job.state != "running", Job.revision > 0)
        .where(Job.intervals_deleted_us.is_(None))
        .order_by(Job.rescore_us, Job.id)
    )
    with service.store.read() as session:
        return list(session.scalars(due))
