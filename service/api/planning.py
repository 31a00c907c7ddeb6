"""When and where to run, and the intensity of a zone over time."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from msgspec import Meta, Struct

from gramwatt.sci.figures.checks import Moment, checked
from gramwatt.sci.figures.document import IntensityDoc
from gramwatt.sci.figures.errors import GramwattError, LookupFailed
from gramwatt.sci.grid.intensity import Basis, Signal
from gramwatt.sci.planning.plan import PlanDoc
from gramwatt.sci.planning.plan_request import PlanRequest, check_plan_request
from gramwatt.service.access import audit
from gramwatt.service.api.access import Access
from gramwatt.service.api.estimates import unanswerable
from gramwatt.service.api.heavy import heavy
from gramwatt.service.api.problems import Problem, invalid
from gramwatt.service.api.routing import Routes
from gramwatt.service.api.support import service
from gramwatt.service.common.requests import SpanQuery, Text
from gramwatt.service.intensity.csv_import import (
    IntensityAdded,
    Row,
    import_points,
)
from gramwatt.service.intensity.over_time import LONGEST, intensity_over
from gramwatt.service.intensity.spans import IntensityFileError
from gramwatt.service.jobs.advice import plan

routes = Routes("planning")
USUAL = timedelta(days=1)


class ZonePath(Struct, frozen=True, kw_only=True):
    """The zone in an address."""

    zone: Annotated[str, Meta(min_length=1, max_length=200, description="DE, US-CAL-CISO, ...")]


class PointBody(Struct, frozen=True, kw_only=True):
    """Intensity over [start, end), null where it is not known."""

    start: Annotated[str, Meta(max_length=64, examples=["2026-05-01T08:00:00Z"])]
    end: Annotated[str, Meta(max_length=64, examples=["2026-05-01T09:00:00Z"])]
    g_per_kwh: float | None


class IntensityBody(Struct, frozen=True, kw_only=True):
    """Points of a zone by a source, in order and without a gap, in equal steps of 5 to 60 minutes.

    `source` names who gives them, and stands with every figure that they make.
    """

    zone: Text
    source: Annotated[str, Meta(pattern=r"^[^\W_][\w .:/()-]{0,199}$")]
    points: Annotated[list[PointBody], Meta(min_length=1)]
    basis: Basis = "lifecycle"
    signal: Signal = "average"


@routes.post("/v1/plans", "unanswerable", "busy", access=Access.INGEST_OR_READ)
def make_plan(body: PlanRequest) -> PlanDoc:
    """Return when and where a job would emit least, against starting at once, with the odds.

    Without a forecast or history of a zone, its usual hours count where the catalog has them.
    """
    try:
        request = check_plan_request(body)
        with heavy():
            return plan(service(), request)
    except GramwattError as error:
        raise unanswerable(error) from None


@routes.post("/v1/intensity", "unknown-name", access=Access.ADMIN_ALL)
def import_intensity(body: IntensityBody) -> IntensityAdded:
    """Store intensity of a zone over time, for scores and plans: all points, or none.

    Sending again changes nothing; other values count from then on. Scores and plans use average
    lifecycle values; others are stored beside them.
    """
    rows = (
        Row(f"points[{n}]", p.start, p.end, "" if p.g_per_kwh is None else repr(p.g_per_kwh))
        for n, p in enumerate(body.points)
    )
    try:
        found = import_points(service(), body.zone, body.source, body.basis, body.signal, rows)
    except IntensityFileError as error:
        raise invalid("body.points", str(error)) from None
    except LookupFailed as error:
        raise Problem("unknown-name", error.message, close=list(error.close)) from None
    what = f"{found.zone}, {found.points} points of {body.source}"
    audit.log(service(), "intensity-imported", what)
    return found


@routes.get("/v1/intensity/<zone>", "unknown-name", access=Access.INGEST_OR_READ)
def get_intensity(path: ZonePath, query: SpanQuery) -> IntensityDoc:
    """Return what scores use: stored points, and the annual value where there are none.

    With a span that ends later than now, also what plans expect of the hours from now on. Of
    another signal or basis: what is stored, which no score uses.
    """
    try:
        end = checked(Moment, query.end) if query.end else service().now()
        start = checked(Moment, query.start) if query.start else end - USUAL
    except ValueError as error:
        raise invalid("query.from or query.to", str(error)) from None
    if not timedelta(0) < end - start <= LONGEST:
        raise invalid("query.to", "after from, and at most 31 days later")
    try:
        return intensity_over(service(), path.zone, start, end, query.signal, query.basis)
    except LookupFailed as error:
        raise Problem("unknown-name", error.message, close=list(error.close)) from None
