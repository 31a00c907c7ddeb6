"""Questions about jobs, answered from the rows that lists and reports read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.base.document import JobDoc, JobHead
from gramwatt.service.container import Service
from gramwatt.service.store.document_upgrade import complete_head
from gramwatt.service.store.models import Job, Provisional, Score
from gramwatt.service.usecases.score_job import score_job, score_provisionally, whole_document


class UnknownJobError(LookupError):
    """No such job; `close` lists near ids, best first."""

    def __init__(self, job_id: str, close: list[str]) -> None:
        self.job_id, self.close = job_id, close
        hint = f"; close ids: {', '.join(close)}" if close else ""
        super().__init__(f"unknown job {job_id!r}{hint}")


class UnknownRevisionError(LookupError):
    """The job has no such revision."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A job document as stored: its text identifies it, `document` parses it."""

    text: str
    series: str

    @property
    def document(self) -> JobDoc:
        """The whole document."""
        return whole_document(self.text, self.series)


def find_job(session: Session, job_id: str) -> Job:
    """The job's row; raises UnknownJobError."""
    job = session.scalars(sa.select(Job).where(Job.job_id == job_id)).one_or_none()
    if job is None:
        raise UnknownJobError(job_id, _close_ids(session, job_id))
    return job


def fresh_job(service: Service, job_id: str) -> Job:
    """The job's row with its score brought up to date; raises UnknownJobError or ScoreError."""
    with service.store.read() as session:
        job = find_job(session, job_id)
    if job.state == "running":
        score_provisionally(service, job.id)
    elif job.scored_version != job.version:
        score_job(service, job.id, "late-records" if job.revision else "ended")
    with service.store.read() as session:
        return find_job(session, job_id)


def job_document(service: Service, job_id: str, revision: int | None = None) -> Stored:
    """The newest document of a job, or that of a revision; raises also UnknownRevisionError."""
    job = fresh_job(service, job_id)
    with service.store.read() as session:
        if revision is None and job.state == "running":
            passing = session.get_one(Provisional, job.id)
            return Stored(passing.doc, passing.series)
        wanted = sa.select(Score).where(
            Score.job == job.id, Score.revision == (revision or job.revision)
        )
        score = session.scalars(wanted).one_or_none()
    if score is None:
        raise UnknownRevisionError(
            f"job {job_id!r} has revisions 1 to {job.revision}, not {revision}"
        )
    return Stored(score.doc, score.series)


def rescore(service: Service, job_id: str, reason: str) -> Job:
    """Make a new revision of a job that has ended.

    Raises UnknownJobError, StillRunsError or ScoreError.
    """
    with service.store.read() as session:
        job = find_job(session, job_id)
    if job.state == "running":
        raise StillRunsError(f"job {job_id!r} still runs; it is scored when it ends")
    score_job(service, job.id, reason, force=True)
    with service.store.read() as session:
        return find_job(session, job_id)


class StillRunsError(RuntimeError):
    """The job has not ended, so it has no revision to make anew."""


def head_of(job: Job) -> JobHead:
    """The head fields of a job's row."""
    return complete_head(json.loads(job.head))


def jobs_after(
    session: Session,
    position: tuple[Any, ...] | None,
    limit: int,
    *,
    only: Mapping[str, str | None],
) -> list[Job]:
    """Jobs newest first, after a position (started_us, id); `only` holds what columns must be."""
    wanted = sa.select(Job).order_by(Job.started_us.desc(), Job.id.desc()).limit(limit)
    for column, value in only.items():
        if value is not None:
            wanted = wanted.where(getattr(Job, column) == value)
    if position is not None:
        wanted = wanted.where(sa.tuple_(Job.started_us, Job.id) < sa.tuple_(*position))
    return list(session.scalars(wanted))


def _close_ids(session: Session, job_id: str) -> list[str]:
    from difflib import get_close_matches

    newest = session.scalars(sa.select(Job.job_id).order_by(Job.id.desc()).limit(1000))
    known = list(newest)
    starting = [name for name in known if name.startswith(job_id)]
    return list(dict.fromkeys([*starting, *get_close_matches(job_id, known, n=3, cutoff=0.5)]))[:3]
