"""Suggestions for a stored job, and a plan for another run like one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import sqlalchemy as sa

from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.figures.units import h_from_s
from gramwatt.sci.month.repeated import RunsComparisonDoc, compare_runs
from gramwatt.sci.records.records import parse_time
from gramwatt.sci.score.version import VERSIONS
from gramwatt.service.common.errors import DeletedJobError, UnknownJobError
from gramwatt.service.container import Service
from gramwatt.service.jobs.documents import find_job, job_document
from gramwatt.service.store.columns import read_job
from gramwatt.service.store.models import Job, Score

if TYPE_CHECKING:
    from gramwatt.sci.planning.plan import PlanDoc
    from gramwatt.sci.planning.plan_request import PlanRequest
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


PARTS = 48
"""Of equal length, into which the power of an earlier run is cut."""


def suggest_for(service: Service, job_id: str) -> SuggestDoc:
    """Return suggestions for a job by its newest document; raises UnknownJobError, ScoreError."""
    from gramwatt.service.suggest import answer_for_document  # comparing starts without it

    return answer_for_document(service, job_document(service, job_id).document)


def plan(service: Service, request: PlanRequest) -> PlanDoc:
    """Answer a request; raises LookupFailed for an unknown zone, ScoreError for what cannot be."""
    from gramwatt.service.intensity import plans  # loads numpy

    return plans.plan(service, _like(service, request))


def _like(service: Service, request: PlanRequest) -> PlanRequest:
    """Return the request with the length and the power of the run that it names."""
    if not request.like:
        return request
    try:
        document = job_document(service, request.like).document
    except (UnknownJobError, DeletedJobError) as error:
        raise ScoreError(f"like: {error}", code="unknown-job") from None
    hours, power_w = _run(document)
    if not power_w:
        raise ScoreError(f"like: no energy of {request.like} is known", code="no-energy")
    return msgspec.structs.replace(
        request, hours=request.hours or hours, power_profile_w=power_w, like=None
    )


def _run(document: JobDoc) -> tuple[float, tuple[float, ...]]:
    """Return a job's length [h] and the mean power [W] of its equal parts, all devices together.

    Time without a reading counts as time without power; no part where no energy is known.
    """
    sums: dict[tuple[str, str], float] = defaultdict(float)
    for row in document.series:
        sums[row.start, row.end] += row.energy_j
    spans = [
        (parse_time(start), parse_time(end), joules)
        for (start, end), joules in sorted(sums.items())
        if joules > 0
    ]
    if not spans:
        return 0.0, ()
    begin, edges_s, used_j = spans[0][0], [0.0], [0.0]
    for start, end, joules in spans:
        since_s = (start - begin).total_seconds()
        if since_s > edges_s[-1]:
            edges_s.append(since_s)
            used_j.append(used_j[-1])
        edges_s.append(edges_s[-1] + (end - start).total_seconds())
        used_j.append(used_j[-1] + joules)
    import numpy as np

    at_s = np.linspace(0.0, edges_s[-1], PARTS + 1)
    power_w = np.diff(np.interp(at_s, edges_s, used_j)) / np.diff(at_s)
    return h_from_s(edges_s[-1]), tuple(power_w.tolist())
