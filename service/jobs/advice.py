"""Suggestions for a stored job, and a plan for another run like one."""

from __future__ import annotations

from dataclasses import replace

from gramwatt.sci.advice.documents import JobAdviceDoc
from gramwatt.sci.base.errors import ScoreError
from gramwatt.sci.planning.hindsight import LoadCurve
from gramwatt.sci.planning.plan import PlanDoc
from gramwatt.sci.planning.plan_request import PlanRequest
from gramwatt.service.advice.suggest import answer_for_document
from gramwatt.service.common.errors import DeletedJobError, UnknownJobError
from gramwatt.service.container import Service
from gramwatt.service.intensity import plans
from gramwatt.service.intensity.hindsight import parts_of
from gramwatt.service.jobs.documents import job_document

PARTS = 48


def suggest_for(service: Service, job_id: str) -> JobAdviceDoc:
    """Return suggestions for a job by its newest document; raises UnknownJobError, ScoreError."""
    return answer_for_document(service, job_document(service, job_id).document)


def plan(service: Service, request: PlanRequest) -> PlanDoc:
    """Answer a request; raises LookupFailed for an unknown zone, ScoreError for what cannot be."""
    return plans.plan(service, _like(service, request))


def _like(service: Service, request: PlanRequest) -> PlanRequest:
    """Return the request with the length and the power of the run that it names."""
    if not request.like:
        return request
    try:
        parts = parts_of(job_document(service, request.like).document)
    except (UnknownJobError, DeletedJobError) as error:
        raise ScoreError(f"like: {error}", code="unknown-job") from None
    if not parts:
        raise ScoreError(f"like: no energy of {request.like} is known", code="no-energy")
    run = LoadCurve.of(parts)
    hours = request.hours or run.hours
    return replace(request, hours=hours, power_profile_w=run.power_w(PARTS), like=None)
