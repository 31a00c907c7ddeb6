"""A zone's intensity over time: chart and table of what came and what is expected."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated
from urllib.parse import urlencode

from flask import Response, request
from msgspec import Meta

from gramwatt.sci.figures.checks import Moment, checked
from gramwatt.sci.figures.errors import GramwattError, LookupFailed
from gramwatt.sci.planning.plan_request import PlanRequest
from gramwatt.service.api.access import Access
from gramwatt.service.api.planning import ZonePath, unanswerable
from gramwatt.service.api.problems import Problem, invalid
from gramwatt.service.api.routing import from_strings
from gramwatt.service.api.support import heavy, service
from gramwatt.service.common.requests import SpanQuery
from gramwatt.service.intensity.plans import LONGEST, intensity_over, plan
from gramwatt.service.pages.frame import route
from gramwatt.service.pages.jobs import framed
from gramwatt.service.rendering import render_intensity

BEFORE, AHEAD = timedelta(days=3), timedelta(days=4)


class IntensityQuery(SpanQuery, frozen=True, kw_only=True):
    """The wanted span; `hours` is the length of a job to plan in it."""

    hours: Annotated[float, Meta(gt=0, le=168)] | None = None


@route("/intensity/<zone>", Access.READ)
def intensity(zone: str) -> Response:
    """Intensity of a zone from three days ago to four days ahead, or over the wanted span."""
    from_strings(ZonePath, {"zone": zone}, "path")
    query = from_strings(IntensityQuery, request.args.to_dict(), "query")
    now = service().now()
    try:
        start = checked(Moment, query.start) if query.start else now - BEFORE
        end = checked(Moment, query.end) if query.end else max(now, start) + AHEAD
    except ValueError as error:
        raise invalid("query.from or query.to", str(error)) from None
    if not timedelta(0) < end - start <= LONGEST:
        raise invalid("query.to", "after from, and at most 31 days later")
    with heavy():
        try:
            answer = intensity_over(service(), zone, start, end, query.signal, query.basis)
            wanted = PlanRequest(hours=query.hours, zone=zone) if query.hours else None
            found = plan(service(), wanted) if wanted else None
        except LookupFailed as error:
            raise Problem("unknown-name", error.message, close=list(error.close)) from None
        except GramwattError as error:
            raise unanswerable(error) from None
        text = render_intensity(answer, now, found)
    response = Response(text, content_type="text/html")
    response.headers["Cache-Control"] = "private, no-cache"
    return framed(
        response, {"Plan a job here": f"/planner?{urlencode({'zone': zone})}"}, tab="planner"
    )
