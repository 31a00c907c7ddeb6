"""Scores follow what they are made of: jobs are scored again when intensity of their time arrives,
or is to be known better, and after catalog, engine, time zone or expected lifetime changed.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Iterator
from datetime import date
from threading import Condition, Thread

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict, replace
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.figures.errors import GramwattError
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.score.version import VERSIONS
from gramwatt.service.container import Service
from gramwatt.service.intensity.points import DAY_S
from gramwatt.service.jobs.scoring import made_now, score_job, score_when_closed
from gramwatt.service.months.pending import NEWEST_BACKFILL, factors_of, to_rescore
from gramwatt.service.store.columns import read_job
from gramwatt.service.store.database import failure_text
from gramwatt.service.store.intensity import IntensityArrival
from gramwatt.service.store.job_labels import ZONE, label_text
from gramwatt.service.store.models import Job, JobLabel, Score
from gramwatt.service.store.months import FactorBackfill

WAITING_MOST = 10_000
"""Jobs that wait; more are left to the periodic task."""

_log = logging.getLogger("gramwatt.service")


class ScoringWorker:
    """A thread of a serving process; it ends with the process."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._waiting: OrderedDict[int, None] = OrderedDict()
        self._changed = Condition()
        self._stopped = False
        self._thread = Thread(target=self._run, name="gramwatt-scoring", daemon=True)

    def start(self) -> None:
        """Start scoring in the background."""
        self._thread.start()

    def add(self, key: int) -> None:
        """Score the job of this key soon, once however often it is added before."""
        with self._changed:
            if len(self._waiting) < WAITING_MOST:
                self._waiting[key] = None
                self._changed.notify()

    def stop(self, timeout_s: float) -> bool:
        """Start no further job; whether the one under way has ended within this time."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (key := self._next()) is not None:
            try:
                score_when_closed(self._service, key)
            except SQLAlchemyError as error:
                _log.warning("%s; score-pending scores the job", failure_text(error))
            except Exception:  # one job must not end the scoring of others
                _log.exception("a job cannot be scored")

    def _next(self) -> int | None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._waiting)
            return None if self._stopped else self._waiting.popitem(last=False)[0]


INTENSITY_S = 60.0
"""How long one run scores at most [s]; the next goes on."""
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY_US = DAY_S * 1_000_000


def rescore_due(service: Service, budget_s: float = INTENSITY_S) -> int:
    """Score ended jobs again that are due, and those of whose time points arrived; how many.

    Each job once for all points stored by then. A score that does not change makes no revision.
    """
    ends, done = time.monotonic() + budget_s, 0
    _note_arrivals(service)
    for key in _due(service):
        if time.monotonic() >= ends:
            break
        try:
            score_job(service, key, "intensity", force=True)
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


FACTORS_S = 240.0
"""How long one run scores at most [s], four fifths of its period; the next goes on."""
JOBS_AT_ONCE = 1_000
"""Keys of jobs that are read at once."""
KEPT_EVERY = 100
"""Jobs after which the store notes how far this is; those since a crash are scored twice."""


def rescore_on_new_factors(service: Service, budget_s: float = FACTORS_S) -> int:
    """Score ended jobs again after the factors changed, each once; how many.

    A score that they do not change makes no revision.
    """
    ends, today = time.monotonic() + budget_s, factors_of(service)
    with service.store.read() as session:
        newest = session.scalars(NEWEST_BACKFILL).one_or_none()
        before, until, last = (newest.done, newest.until, newest.job) if newest else ("", "", 0)
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
                score_job(service, key, "factors", force=True)
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
    rescored, error = stored, None
    try:
        rescored = made_now(service, key, stored) or stored
    except GramwattError as failure:
        error = failure.message
    versions = {name: getattr(stored.method, name) for name in VERSIONS}
    alike = asdict(replace(rescored, method=replace(rescored.method, **versions)))
    return ScorePreview(
        job_id=stored.job_id,
        project=stored.project,
        old_g=stored.total_g,
        new_g=None if error else rescored.total_g,
        changed=sorted(name for name in alike if alike[name] != getattr(stored, name)),
        error=error,
    )


def _following(service: Service, last: int) -> list[int]:
    """Return the next jobs after `last` to score, a portion of what may be a million."""
    statement = sa.select(Job.id).where(Job.id > last, *to_rescore())
    with service.store.read() as session:
        return list(session.scalars(statement.order_by(Job.id).limit(JOBS_AT_ONCE)))


def _keep(service: Service, row: FactorBackfill) -> None:
    service.store.transact(lambda session: session.merge(row))
