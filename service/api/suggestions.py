"""Suggestions for a request or a stored job."""

from __future__ import annotations

from gramwatt.sci.figures.errors import GramwattError
from gramwatt.sci.suggest.documents import SuggestDoc
from gramwatt.sci.suggest.request import SuggestRequest, check_suggest_request
from gramwatt.service.api.access import Access
from gramwatt.service.api.estimates import unanswerable
from gramwatt.service.api.routing import Routes
from gramwatt.service.api.support import ABSENT, JobPath, service
from gramwatt.service.jobs.advice import suggest_for
from gramwatt.service.suggest import answer

routes = Routes("suggestions")


@routes.post("/v1/suggestions", "unanswerable", access=Access.READ)
def make_suggestions(body: SuggestRequest) -> SuggestDoc:
    """Return what would emit less for the same work: hardware, settings and place in one list.

    Each row has the probability that it emits less; from 7 in 10 on it is advised.
    """
    try:
        return answer(service(), check_suggest_request(body))
    except GramwattError as error:
        raise unanswerable(error) from None


@routes.get("/v1/jobs/<job_id>/suggestions", *ABSENT, "not-scorable", access=Access.READ)
def suggest_for_job(path: JobPath) -> SuggestDoc:
    """Suggestions for a job, from what was measured of it."""
    return suggest_for(service(), path.job_id)
