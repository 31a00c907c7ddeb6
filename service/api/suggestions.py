"""Suggestions for a request or a stored job, and the rows that own measurements make."""

from __future__ import annotations

from typing import TypedDict

from gramwatt.sci.advice.documents import AdviceDoc
from gramwatt.sci.advice.prediction.own_runs import OwnRow
from gramwatt.sci.advice.suggest_request import SuggestRequest, parse_suggest_request
from gramwatt.sci.base.errors import GramwattError
from gramwatt.service.advice.suggest import answer, calibration_rows
from gramwatt.service.api.access import Access
from gramwatt.service.api.estimates import unanswerable
from gramwatt.service.api.request_bodies import body_of
from gramwatt.service.api.routing import Routes
from gramwatt.service.api.support import ABSENT, JobPath, JobQuery, service
from gramwatt.service.jobs.advice import suggest_for

routes = Routes("suggestions")


class SuggestBody(body_of(SuggestRequest)):  # type: ignore[misc]
    """The present run of a job, as far as it is known; hardware, instance or model size is needed.

    Power [W] and memory [GiB] are those of one device; `candidates` asks for certain parts.
    """


class CalibrationAnswer(TypedDict):
    """The rows of the organisation's own runs, newest first."""

    rows: list[OwnRow]


@routes.post("/v1/suggestions", "unanswerable", access=Access.READ)
def make_suggestions(body: SuggestBody) -> AdviceDoc:
    """Return what would emit less for the same work: other hardware, or another way to run it.

    `lower` means that the whole 80 % range of the carbon ratio lies below 1.
    """
    try:
        request = parse_suggest_request(body.model_dump(exclude_none=True))
        return answer(service(), request)
    except GramwattError as error:
        raise unanswerable(error) from None


@routes.get("/v1/jobs/<job_id>/suggestions", *ABSENT, "not-scorable", access=Access.READ)
def suggest_for_job(path: JobPath, query: JobQuery) -> AdviceDoc:
    """Suggestions for a job, from what was measured of it."""
    return suggest_for(service(query.project), path.job_id)


@routes.get("/v1/suggestions/calibration", access=Access.READ)
def list_calibration() -> CalibrationAnswer:
    """Return the rows that own measured jobs make; they are used before the public table."""
    return {"rows": calibration_rows(service())}
