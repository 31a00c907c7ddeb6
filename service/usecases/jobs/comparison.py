"""Runs of two versions of a job against each other."""

from __future__ import annotations

from collections.abc import Sequence

from gramwatt.sci.analysis.repeated import RunsComparisonDoc, compare_runs
from gramwatt.service.container import Service
from gramwatt.service.usecases.jobs.documents import job_document


def comparison(
    service: Service, before: Sequence[str], after: Sequence[str], unit: str | None
) -> tuple[RunsComparisonDoc, str]:
    """The jobs of `after` against those of `before`, with their newest scores; and its date.

    That is the day on which the last of them ended, YYYY-MM-DD, so that the same scores make the
    same report. Raises UnknownJobError, DeletedJobError, or ScoreError (`not-comparable`, or why a
    job has no score).
    """
    sides = [[job_document(service, job_id).document for job_id in ids] for ids in (before, after)]
    last = max(job["ended_at"] or job["started_at"] for side in sides for job in side)
    return compare_runs(sides[0], sides[1], unit), last[:10]
