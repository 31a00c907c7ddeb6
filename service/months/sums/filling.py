"""Parts of jobs that an earlier release scored, made from their stored documents.

`jobs.summed_revision` says which are missing, so filling goes on where it was interrupted, by
whichever process, and a later release that needs other parts sets it back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.analysis.month import months_of
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.errors import QuantityError
from gramwatt.service.container import Service
from gramwatt.service.months.sums.keeping import keep_parts
from gramwatt.service.months.sums.part import REFUSED, StoredPart, parts_of
from gramwatt.service.store.documents import read_job
from gramwatt.service.store.models import UNSUMMED, Job, Score

_JOBS_AT_ONCE = 100
"""Jobs of one transaction, so that other writers wait a moment at most."""
_REPORTED_EVERY = 10_000

_MISSING = sa.select(sa.literal(1)).select_from(Job).where(sa.text(UNSUMMED)).limit(1)

_log = logging.getLogger("gramwatt.service")


def is_missing(session: Session) -> bool:
    """Whether the parts of any job are missing."""
    return session.scalar(_MISSING) is not None


def fill_parts(service: Service, go_on: Callable[[], bool] = lambda: True) -> int:
    """Make what is missing while `go_on()`; how many jobs were done."""
    done = 0
    while go_on():
        with service.store.write() as session:
            keys = _some_missing(session)
            for key in keys:
                _fill(session, key)
        if not keys:
            break
        done += len(keys)
        if done % _REPORTED_EVERY == 0:
            _log.info("months: the parts of %d jobs of an earlier release are made", done)
    return done


def _some_missing(session: Session) -> list[int]:
    wanted = sa.select(Job.id).where(sa.text(UNSUMMED)).order_by(Job.id).limit(_JOBS_AT_ONCE)
    return list(session.scalars(wanted.with_for_update()))


def _fill(session: Session, key: int) -> None:
    job = session.get_one(Job, key)
    wanted = sa.select(Score.doc).where(Score.job == key, Score.revision == job.revision)
    text = session.scalar(wanted)
    if text is None:  # a score that is not there cannot be summed
        job.summed_revision = job.revision
        return
    document = read_job(text)
    keep_parts(session, job, document, parts_or_refused(document))


def parts_or_refused(document: JobDoc) -> dict[str, StoredPart]:
    """The parts; empty ones where no sum can hold the figures, so that a month names the job."""
    try:
        return parts_of(document)
    except QuantityError as error:
        _log.warning("job %s is in no month's sums: %s", document["job_id"], error)
        return dict.fromkeys(months_of(document), StoredPart(b"", b"", REFUSED))
