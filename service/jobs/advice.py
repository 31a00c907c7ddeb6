"""Suggestions for a stored job, and runs beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import sqlalchemy as sa

from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.month.repeated import RunsComparisonDoc, compare_runs
from gramwatt.sci.score.version import VERSIONS
from gramwatt.service.container import Service
from gramwatt.service.jobs.documents import find_job, job_document
from gramwatt.service.store.columns import read_job
from gramwatt.service.store.models import Job, Score

if TYPE_CHECKING:
    from gramwatt.sci.suggest.documents import SuggestDoc

HISTORY = 20
"""How many earlier runs are asked how far runs lie apart."""


def comparison(
    service: Service, before: Sequence[str], after: Sequence[str], unit: str | None
) -> tuple[RunsComparisonDoc, str]:
    """Return the jobs of `after` against those of `before`, with their newest scores; and its date.

    That is the day on which the last of them ended, YYYY-MM-DD, so that the same scores make the
    same report. Raises UnknownJobError, DeletedJobError, or ScoreError (`not-comparable`, or why a
    job has no score).
    """
    documents = comparable_documents(service, [*before, *after])
    sides = [documents[: len(before)], documents[len(before) :]]
    last = max(job.ended_at or job.started_at for side in sides for job in side)
    return compare_runs(sides[0], sides[1], unit, earlier_runs(service, documents)), last[:10]


def earlier_runs(service: Service, compared: Sequence[JobDoc]) -> list[JobDoc]:
    """Return the newest scores of completed jobs of the first one's project and name.

    None where more than one run a side tells how far runs lie apart.
    """
    if len(compared) != 2:
        return []
    with service.store.read() as session:
        job = find_job(session, compared[0].job_id)
        if job.name is None:
            return []
        newest = (
            sa.select(Score.doc, Score.series)
            .join(Job, sa.and_(Score.job == Job.id, Score.revision == Job.revision))
            .where(Job.project == job.project, Job.name == job.name, Job.state == "completed")
            .order_by(Job.started_us.desc())
            .limit(HISTORY)
        )
        documents = [read_job(*row) for row in session.execute(newest)]
    ids = {document.job_id for document in compared}
    return [document for document in documents if document.job_id not in ids]


def comparable_documents(service: Service, job_ids: Sequence[str]) -> list[JobDoc]:
    """Return the newest documents of jobs, to compare; raises as `comparison` does.

    Where they name different versions of engine or catalog, those that today's make again to the
    last digit name today's: for them no revision was made when the versions changed.
    """
    documents = [job_document(service, job_id, names=False).document for job_id in job_ids]
    if (
        len({tuple(getattr(document.method, name) for name in VERSIONS) for document in documents})
        < 2
    ):
        return documents
    from gramwatt.service.jobs.scoring import by_todays_versions  # the engine, rarely needed

    with service.store.read() as session:
        keys = [find_job(session, job_id).id for job_id in job_ids]
    whole = service.for_every_project()
    return [by_todays_versions(whole, *pair) for pair in zip(keys, documents, strict=True)]


def suggest_for(service: Service, job_id: str) -> SuggestDoc:
    """Return suggestions for a job by its newest document; raises UnknownJobError, ScoreError."""
    from gramwatt.service.suggest import answer_for_document  # comparing starts without it

    return answer_for_document(service, job_document(service, job_id).document)
