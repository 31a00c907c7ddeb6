"""Suggestions for a request or a stored job."""

from __future__ import annotations

from gramwatt.sci.advice.documents import AdviceDoc
from gramwatt.sci.advice.suggest_request import SuggestRequest, parse_suggest_request
from gramwatt.sci.base.errors import GramwattError
from gramwatt.service.advice.suggest import answer
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
