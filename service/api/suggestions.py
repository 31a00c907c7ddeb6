"""Suggestions for a request or a stored job."""

from __future__ import annotations

from gramwatt.sci.advice.documents import AdviceDoc
from gramwatt.sci.advice.suggest_request import SuggestRequest, check_suggest_request
from gramwatt.sci.figures.errors import GramwattError
from gramwatt.service.advice.suggest import answer
from gramwatt.service.api.access import Access
from gramwatt.service.api.estimates import unanswerable
from gramwatt.service.api.routing import Routes
from gramwatt.service.api.support import ABSENT, JobPath, service
from gramwatt.service.jobs.advice import suggest_for

routes = Routes("suggestions")


@routes.post("/v1/suggestions", "unanswerable", access=Access.READ)
def make_suggestions(body: SuggestRequest) -> AdviceDoc:
    """Return what would emit less for the same work: other hardware, or another way to run it.

    `lower` means that the whole 80 % range of the carbon ratio lies below 1.
    """
    try:
        request = check_suggest_request(body)
        return answer(service(), request)
    except GramwattError as error:
        raise unanswerable(error) from None


@routes.get("/v1/jobs/<job_id>/suggestions", *ABSENT, "not-scorable", access=Access.READ)
def suggest_for_job(path: JobPath) -> AdviceDoc:
    """Suggestions for a job, from what was measured of it."""
    return suggest_for(service(), path.job_id)
