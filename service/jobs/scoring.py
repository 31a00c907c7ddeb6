"""Score a job: a new revision when it has ended, a provisional score while it runs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy.orm import Session

from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.figures.errors import GramwattError, QuantityError, ScoreError
from gramwatt.sci.records.corrections import Correction
from gramwatt.sci.records.records import AnyRecord
from gramwatt.sci.score.score import relabel
from gramwatt.sci.score.version import VERSIONS
from gramwatt.service.container import Service
from gramwatt.service.intensity.lookup import when_better_known
from gramwatt.service.jobs.journal import (
    corrections_of,
    declared_head,
    open_records_of,
    records_of,
)
from gramwatt.service.jobs.precedence import LATE_US, outdated
from gramwatt.service.months.rows import Rows, keep_rows
from gramwatt.service.store.columns import as_stored, head_text, read_job, span_us, split_job
from gramwatt.service.store.job_labels import update_list_columns
from gramwatt.service.store.journal import OpenJournal
from gramwatt.service.store.models import Job, Provisional, Score

if TYPE_CHECKING:  # the engine is loaded where a job is scored
    from gramwatt.sci.score.identify import ScoreContext

_log = logging.getLogger("gramwatt.service")


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """A job's records as of one version of it; of one without intervals, its newest score."""

    records: list[AnyRecord]
    corrections: list[Correction]
    version: int
    revision: int
    rescore_us: int | None
    kept: JobDoc | None = None


def score_when_closed(service: Service, key: int, reason: str = "ended") -> bool:
    """Score the job if it has ended; whether its newest lines are scored now.

    A job that cannot be scored is logged and left: its lines are safe, and a request for its
    report says why.
    """
    with service.store.read() as session:
        job = session.get(Job, key)
    if job is None or job.state == "running":
        return False
    if job.scored_version == job.version:
        return True
    try:
        score_job(service, key, reason if job.revision == 0 else "late-records")
    except GramwattError as error:
        _log.warning("job %s cannot be scored: %s", job.job_id, error.message)
        return False
    return True


def score_job(service: Service, key: int, reason: str, *, force: bool = False) -> None:
    """Store a new revision unless the newest lines are scored; raises ScoreError.

    With `force`, also when they are. A score that is the same to the last digit makes none. That of
    a job whose intervals were deleted keeps its figures; only what is declared of it changes.
    Scoring runs outside the transaction. If lines arrived or another process scored meanwhile, it
    starts over, or leaves it at that process's revision.
    """
    while True:
        with service.store.read() as session:
            job = session.get(Job, key)
            if job is None or (job.scored_version == job.version and not force):
                return
            seen = _snapshot(session, job)
        document, due_us = seen.kept or _score(service, seen), None
        if document is not seen.kept:
            due_us = when_better_known(service, document, first=seen.revision == 0)
            document.provisional = document.provisional or due_us is not None
        lesser = _store_revision(service, key, seen, document, reason, due_us)
        if lesser is not None:
            for other in lesser:
                (service.score_later or partial(score_when_closed, service))(other)
            return


def score_provisionally(service: Service, key: int, *, fresh: bool = False) -> None:
    """Bring the provisional score of a running job up to date; raises ScoreError.

    One with every line in it stays as it is, and so does one younger than `provisional_every`
    unless a fresh one is asked for.
    """
    now_us = service.now_us()
    oldest_us = now_us - span_us(service.config.provisional_every)
    with service.store.read() as session:
        job, stored = session.get(Job, key), session.get(Provisional, key)
        if job is None:
            return
        if stored and (stored.version == job.version or (stored.made_us > oldest_us and not fresh)):
            return
        seen = _snapshot(session, job)
        seen.records.extend(open_records_of(session, job))
    document = _score(service, seen)

    def store(session: Session) -> None:
        job = session.get(Job, key, with_for_update=True)
        if job is None or job.state != "running":
            return
        outdated(session, job, since_us=stored.made_us - LATE_US if stored else 0)
        doc, series = split_job(document)
        session.merge(
            Provisional(job=key, version=seen.version, made_us=now_us, doc=doc, series=series)
        )
        _store_head(session, job, document)

    if stored and not fresh:  # while another process writes, a request gets the stored score
        service.store.note(store)
    else:
        service.store.transact(store)


def by_todays_versions(service: Service, key: int, stored: JobDoc) -> JobDoc:
    """Return the newest document of an ended job as made now, where only versions differ; else
    `stored`.

    Such a score makes no revision, so that the stored one names versions of before.
    """
    try:
        rescored = made_now(service, key, stored)
    except ScoreError:
        return stored
    if rescored is None:
        return stored
    versions: Any = {name: getattr(rescored.method, name) for name in VERSIONS}
    alike = replace(stored, method=replace(stored.method, **versions))
    return rescored if alike == rescored else stored


def made_now(service: Service, key: int, stored: JobDoc) -> JobDoc | None:
    """Return the document of an ended job as it would be made now, under the revision of `stored`.

    Nothing is written. None for a job that cannot be scored again; raises ScoreError.
    """
    with service.store.read() as session:
        job = session.get(Job, key)
        if job is None or job.state == "running" or job.intervals_deleted_us is not None:
            return None
        seen = _snapshot(session, job)
    scored = _score(service, seen)
    scored.revision, scored.provisional = stored.revision, stored.provisional
    return as_stored(scored)


def score_records(
    service: Service,
    records: Iterable[AnyRecord],
    revision: int,
    corrections: Sequence[Correction] = (),
) -> JobDoc:
    """Return the document of a job's records, corrected already, with the catalog of now.

    Raises ScoreError when the records or the overlay make no score.
    """
    from gramwatt.sci.records.merge import merge
    from gramwatt.sci.score.score import score

    context = _context(service, revision, corrections)
    try:
        return score(merge(records), context)
    except (QuantityError, OverflowError) as error:
        raise _overflow(error) from None


def _context(service: Service, revision: int, corrections: Sequence[Correction]) -> ScoreContext:
    """Return what a job is scored with today; raises ScoreError for an unusable overlay."""
    from gramwatt.sci.catalog.overlay import OverlayError
    from gramwatt.sci.score.identify import annual_context
    from gramwatt.service.intensity.lookup import StoredIntensity

    try:
        catalog = service.catalog
    except OverlayError as error:
        raise ScoreError(error.message, code=error.code) from None
    context = annual_context(catalog, service.config.lifetime_years, revision)
    return replace(
        context,
        intensity=StoredIntensity(service),
        zone=service.config.zone,
        corrections=tuple(corrections),
    )


def _snapshot(session: Session, job: Job) -> _Snapshot:
    corrections, newest = corrections_of(session, job), None
    if job.intervals_deleted_us is not None:
        newest = _newest(session, job)
    if newest is None:
        records, scored = records_of(session, job, corrections), None
    else:
        document, head = read_job(newest.doc, newest.series), declared_head(session, job)
        records, scored = [], relabel(document, head, corrections, job.revision + 1)
    return _Snapshot(records, corrections, job.version, job.revision, job.rescore_us, scored)


def _newest(session: Session, job: Job) -> Score | None:
    """Return the newest revision of a job; None before its first."""
    newest = sa.select(Score).where(Score.job == job.id, Score.revision == job.revision)
    return session.scalars(newest).one_or_none()


def _score(service: Service, seen: _Snapshot) -> JobDoc:
    return score_records(service, seen.records, seen.revision + 1, seen.corrections)


def _store_revision(
    service: Service,
    key: int,
    seen: _Snapshot,
    document: JobDoc,
    reason: str,
    due_us: int | None,
) -> list[int] | None:
    """Add the revision if it differs; return the keys of lesser jobs that are to be scored then.

    None when the job has changed since it was read.
    """
    rows = _rows(document)

    def store(session: Session) -> list[int] | None:
        job = session.get(Job, key, with_for_update=True)
        if job is None or (job.version, job.revision) != (seen.version, seen.revision):
            return None
        scored = _stored_alike(session, job, document) or document
        if scored is document:
            session.add(_revision(key, document, reason, service.now_us()))
        if job.scored_version != seen.version:  # it ran since its last revision
            session.execute(sa.delete(Provisional).where(Provisional.job == key))
            session.execute(sa.delete(OpenJournal).where(OpenJournal.job == key))
        job.revision = scored.revision
        job.scored_version = seen.version
        if job.rescore_us == seen.rescore_us:  # else points arrived after those of this score
            job.rescore_us = due_us
        with session.no_autoflush:  # the columns of the job's row in one statement
            if scored is document or job.head != head_text(scored):
                _store_head(session, job, scored)
            keep_rows(session, job, rows, is_new=scored is document)
        return outdated(session, job) if scored is document else []

    return service.store.transact(store)


def _rows(document: JobDoc) -> Rows:
    """Return the rows of a job's months; raises ScoreError for figures that no month can add."""
    from gramwatt.sci.month.rows import rows_of
    from gramwatt.sci.suggest.jobs import class_of

    try:
        return rows_of(document, class_of(document))
    except QuantityError as error:
        raise _overflow(error) from None


def _overflow(error: Exception) -> ScoreError:
    text = f"the job's figures are beyond what can be added: {error}"
    return ScoreError(text, code="figures-overflow")


def _stored_alike(session: Session, job: Job, document: JobDoc) -> JobDoc | None:
    """Return the newest revision where it says the same, if by earlier versions; None where it
    differs.
    """
    stored = _newest(session, job)
    if stored is None:
        return None
    versions = {
        "engine_version": stored.engine_version,
        "catalog_version": stored.catalog_version,
    }
    method = replace(document.method, **versions)
    alike = replace(document, revision=stored.revision, method=method)
    return alike if (stored.doc, stored.series) == split_job(alike) else None


def _revision(key: int, document: JobDoc, reason: str, made_us: int) -> Score:
    doc, series = split_job(document)
    return Score(
        job=key,
        revision=document.revision,
        made_us=made_us,
        reason=reason,
        engine_version=document.method.engine_version,
        catalog_version=document.method.catalog_version,
        conformance=document.conformance,
        doc=doc,
        series=series,
    )


def _store_head(session: Session, job: Job, document: JobDoc) -> None:
    job.head = head_text(document)
    job.grade = document.data_quality.grade
    job.notices = len(document.notices)
    update_list_columns(session, job, document, document)
