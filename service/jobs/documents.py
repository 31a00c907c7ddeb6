"""One job: find it, bring its score up to date, give its document, score it again."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from os.path import commonprefix

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.collectors.settings.identity import LAST as LAST
from gramwatt.collectors.settings.identity import NAMES
from gramwatt.collectors.settings.identity import RUNS as RUNS
from gramwatt.sci.figures.document import JobDoc, JobHead
from gramwatt.service.common.errors import (
    AmbiguousIdError,
    DeletedJobError,
    IntervalsDeletedError,
    ServiceError,
    StillRunsError,
    UnknownJobError,
)
from gramwatt.service.container import Service
from gramwatt.service.store.columns import read_head, read_job, text_from_us
from gramwatt.service.store.job_labels import TAG, label_text
from gramwatt.service.store.models import Deletion, Job, JobLabel, Provisional, Score
from gramwatt.service.store.people import with_names

SHORTEST = len("20260501-083000")
"""Characters of a shortened id: an id that gramwatt made is then its start, to the second."""
CHOICES_MOST = 10


def whole_id(service: Service, text: str) -> str:
    """Return the id that a person means, the newest where a name has several runs.

    See `run_ids`.
    """
    return run_ids(service, text, 1)[0]


def run_ids(service: Service, text: str, most: int = RUNS) -> list[str]:
    """Return the ids that a person means: an id itself, the newest job for `last`, the job that has
    the text as its tag of NAMES, the newest completed runs of that name, `most` at most, without
    one its newest, or the job whose id it begins.

    A text that fits no job comes back as it is. Raises AmbiguousIdError for one that fits several.
    """
    with service.store.read() as session:
        for table in (Job, Deletion):
            if session.scalar(sa.select(table.job_id).where(table.job_id == text).limit(1)):
                return [text]
        newest = sa.select(Job.job_id).order_by(Job.started_us.desc(), Job.id.desc())
        if text == LAST:
            return [session.scalar(newest.limit(1)) or text]
        labels = [label_text(TAG, f"{name}:{text}") for name in NAMES]
        called = sa.select(Job.job_id).join(JobLabel, JobLabel.job == Job.id)
        fitting = set(session.scalars(called.where(JobLabel.label.in_(labels))))
        alike = newest.where(Job.name == text)
        for runs in (alike.where(Job.state == "completed").limit(most), alike.limit(1)):
            if not fitting and (named := list(session.scalars(runs))):
                return named
        if not fitting and text:
            begun = sa.select(Job.job_id).where(Job.job_id.startswith(text, autoescape=True))
            # SQLite's LIKE does not tell upper from lower case.
            fitting = {job_id for job_id in session.scalars(begun) if job_id.startswith(text)}
    if len(fitting) > 1:
        raise AmbiguousIdError(text, len(fitting), sorted(fitting)[-CHOICES_MOST:][::-1])
    return [*fitting] or [text]


def short_ids(service: Service, job_ids: Iterable[str]) -> dict[str, str]:
    """Return each id's shortest prefix that no other job has, of at least SHORTEST characters."""
    ids = set(job_ids)
    starts = {job_id[:SHORTEST] for job_id in ids}
    near = sa.select(Job.job_id).where(sa.func.substr(Job.job_id, 1, SHORTEST).in_(starts))
    with service.store.read() as session:
        neighbours = sorted(ids.union(session.scalars(near)))
    lengths = dict.fromkeys(neighbours, SHORTEST)
    for before, after in pairwise(neighbours):
        unique = len(commonprefix([before, after])) + 1
        lengths[before] = max(lengths[before], unique)
        lengths[after] = max(lengths[after], unique)
    return {job_id: job_id[: lengths[job_id]] for job_id in ids}


CLOSE_IDS, COMPARED_IDS = 3, 50
"""How many ids an unknown one is answered with, and how many of the newest are compared with it:
a comparison takes up to 0.05 ms."""
POLL_S = 0.5
"""How often a waiting request looks at its job [s]."""


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job as lists show it; the grade of its data is None before it is scored.

    `version` identifies this state of it.
    """

    head: JobHead
    grade: str | None
    notices: int
    version: str


def summaries(session: Session, jobs: Sequence[Job]) -> list[JobSummary]:
    """Return the summaries in rows of jobs, with the names of people."""
    heads = with_names(session, "\n".join(job.head for job in jobs)).split("\n")
    return [
        JobSummary(read_head(head), job.grade, job.notices, version_of(job))
        for head, job in zip(heads, jobs, strict=bool(jobs))
    ]


def version_of(job: Job) -> str:
    """Return what identifies the state of a job that its head shows."""
    return hashlib.sha256(f"{job.id} {job.grade} {job.head}".encode()).hexdigest()


def require_intervals(job: Job, what: str) -> None:
    """Raise IntervalsDeletedError where they were deleted; `what` says what cannot be done."""
    if job.intervals_deleted_us is not None:
        deleted_at = text_from_us(job.intervals_deleted_us)
        raise IntervalsDeletedError(job.job_id, deleted_at, what)


Expected = Callable[[str], bool] | None
"""Whether a version of a job is the one that a change is meant for; None for any."""


def require_expected(job: Job, expected: Expected) -> None:
    """Raise ServiceError `changed` for a job, locked, whose version is not the expected one."""
    if expected is not None and not expected(version_of(job)):
        text = f"job {job.job_id!r} has changed since; get it again and decide anew"
        raise ServiceError(text, "changed")


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A job document as stored; `version` identifies it, `document` parses its texts."""

    version: str
    text: str
    series: str

    @property
    def document(self) -> JobDoc:
        """The whole document."""
        return read_job(self.text, self.series)


def find_job(session: Session, job_id: str) -> Job:
    """Return the job's row; raises UnknownJobError or DeletedJobError."""
    job = find_known_job(session, job_id)
    if job is None:
        raise UnknownJobError(job_id, _close_ids(session, job_id))
    return job


def find_known_job(session: Session, job_id: str) -> Job | None:
    """Return the job's row, None for no such job; raises DeletedJobError."""
    job = session.scalar(sa.select(Job).where(Job.job_id == job_id))
    if job is None and (deletion := session.get(Deletion, job_id)) is not None:
        raise deleted_error(session, deletion)
    return job


def locked_job(session: Session, key: int, job_id: str) -> Job:
    """Return a job's row by its key, locked; raises as `find_job` does where it was deleted."""
    return session.get(Job, key, with_for_update=True) or find_job(session, job_id)


def deleted_error(session: Session, record: Deletion) -> DeletedJobError:
    """Return the refusal of a job that was deleted."""
    by = json.loads(with_names(session, json.dumps(record.deleted_by)))
    return DeletedJobError(record.job_id, text_from_us(record.deleted_us), by)


def own_job(service: Service, job_id: str) -> tuple[Service, int]:
    """Return the service of every project and the job's key, once the caller is known to see it.

    For what a job's score changes: sums over other projects too. Raises UnknownJobError or
    DeletedJobError.
    """
    with service.store.read() as session:
        key = find_job(session, job_id).id
    return service.for_every_project(), key


def job_head(service: Service, job_id: str) -> JobHead:
    """Return a job as lists show it, as it is; raises UnknownJobError or DeletedJobError."""
    with service.store.read() as session:
        return summaries(session, [find_job(session, job_id)])[0].head


def job_summary(service: Service, job_id: str) -> JobSummary:
    """Return a job with its score brought up to date; raises UnknownJobError or ScoreError."""
    job = _scored_job(service, job_id)
    with service.store.read() as session:
        return summaries(session, [job])[0]


def job_document(
    service: Service, job_id: str, revision: int | None = None, *, names: bool = True
) -> StoredDocument:
    """Return the newest document of a job, or that of a revision.

    Without `names` people have their aliases, as it was scored.

    Raises UnknownJobError, ServiceError `unknown-revision` or ScoreError.
    """
    job = _scored_job(service, job_id)
    with service.store.read() as session:
        version, text, series = _document_row(session, job, revision, texts=True)
        text = with_names(session, text) if names else text
    return StoredDocument(version, text, series)


def document_version(service: Service, job_id: str, revision: int | None = None) -> str:
    """Return the `version` of `job_document`, without reading the document; raises as that does."""
    job = _scored_job(service, job_id)
    with service.store.read() as session:
        [version] = _document_row(session, job, revision, texts=False)
    return version


def _document_row(
    session: Session, job: Job, revision: int | None, *, texts: bool
) -> tuple[str, ...]:
    """Return the version of a document, and its texts."""
    table: type[Score | Provisional] = Score
    statement = sa.select(Score.revision, Score.made_us)
    statement = statement.where(Score.job == job.id, Score.revision == (revision or job.revision))
    if revision is None and job.state == "running":
        table = Provisional
        statement = sa.select(Provisional.version, Provisional.made_us)
        statement = statement.where(Provisional.job == job.id)
    if texts:
        statement = statement.add_columns(table.doc, table.series)
    row = session.execute(statement).one_or_none()
    if row is None:
        there = f"revisions 1 to {job.revision}" if job.revision else "no revision yet"
        text = f"job {job.job_id!r} has {there}, not {revision}"
        raise ServiceError(text, "unknown-revision")
    return (f"{table.__name__} {job.id} {row[0]} {row[1]}", *row[2:])


def wait_until_ended(service: Service, job_id: str, timeout_s: float) -> bool:
    """Wait until the job has ended, `timeout_s` at most [s]; whether it has.

    A process that was asked to end waits no longer.

    Raises UnknownJobError or DeletedJobError.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        with service.store.read() as session:
            running = find_job(session, job_id).state == "running"
        left_s = deadline - time.monotonic()
        if not running or left_s <= 0 or service.stopping.wait(min(POLL_S, left_s)):
            return not running


def rescore(service: Service, job_id: str, reason: str) -> tuple[JobSummary, bool]:
    """Score a job that has ended again, and whether that changed anything and so made a revision.

    Raises UnknownJobError, StillRunsError, IntervalsDeletedError or ScoreError.
    """
    service, key = own_job(service, job_id)
    with service.store.read() as session:
        job = _by_key(session, key, job_id)
    require_intervals(job, "it cannot be scored again")
    if job.state == "running":
        raise StillRunsError(f"job {job_id!r} still runs; it is scored when it ends")
    from gramwatt.service.jobs.scoring import score_job

    score_job(service, job.id, reason, force=True)
    with service.store.read() as session:
        rescored = _by_key(session, key, job_id)
        [summary] = summaries(session, [rescored])
    from gramwatt.service.access import audit  # to read jobs starts without it

    audit.log(service, "job-rescored", f"{job_id}, revision {rescored.revision}: {reason}")
    return summary, rescored.revision != job.revision


def _scored_job(service: Service, job_id: str) -> Job:
    """Return the job's row, once its score is up to date."""
    with service.store.read() as session:
        job = find_job(session, job_id)
    if job.state != "running" and job.scored_version == job.version:
        return job
    # What only lists jobs, or shows one, starts without the engine.
    from gramwatt.service.jobs.scoring import score_job, score_provisionally

    whole = service.for_every_project()
    if job.state == "running":
        score_provisionally(whole, job.id)
    else:
        score_job(whole, job.id, "late-records" if job.revision else "ended")
    with whole.store.read() as session:
        return _by_key(session, job.id, job_id)


def _by_key(session: Session, key: int, job_id: str) -> Job:
    return session.get(Job, key) or find_job(session, job_id)


def _close_ids(session: Session, job_id: str) -> list[str]:
    """Return up to three ids that may be meant: those it begins, then the most alike."""
    from difflib import get_close_matches

    newest = session.scalars(sa.select(Job.job_id).order_by(Job.id.desc()).limit(1000)).all()
    begun = [name for name in newest if name.startswith(job_id)]
    alike = get_close_matches(job_id, newest[:COMPARED_IDS], n=CLOSE_IDS, cutoff=0.5)
    return list(dict.fromkeys([*begun, *alike]))[:CLOSE_IDS]
