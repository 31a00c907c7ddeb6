"""When and where to run, and the intensity of a zone over time."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from gramwatt.sci.base.errors import GramwattError, LookupFailed
from gramwatt.sci.base.request_fields import Moment
from gramwatt.sci.grid.intensity import Basis, Signal
from gramwatt.sci.planning.plan import PlanDoc
from gramwatt.sci.planning.plan_request import PlanRequest, parse_plan_request
from gramwatt.service.access import audit
from gramwatt.service.api.access import Access
from gramwatt.service.api.estimates import unanswerable
from gramwatt.service.api.heavy import heavy
from gramwatt.service.api.problems import Problem, invalid
from gramwatt.service.api.request_bodies import body_of
from gramwatt.service.api.routing import Routes, Strict
from gramwatt.service.api.support import Text, service
from gramwatt.service.intensity.csv_import import (
    IntensityAdded,
    IntensityFileError,
    Row,
    import_points,
)
from gramwatt.service.intensity.over_time import LONGEST, IntensityAnswer, intensity_over
from gramwatt.service.jobs.advice import plan

routes = Routes("planning")
USUAL = timedelta(days=1)


class PlanBody(body_of(PlanRequest)):  # type: ignore[misc]
    """How long a job takes, and where and until when it may run.

    `deadline` is a day after the job would have ended if not given, `zone` is where it would run
    at once, `power_w` its mean power and `idle_power_w` that of what stays reserved while it waits.
    """


class ZonePath(Strict):
    """The zone in an address."""

    zone: str = Field(min_length=1, max_length=200, description="DE, US-CAL-CISO, ...")


class PointBody(Strict):
    """Intensity over [start, end), null where it is not known."""

    start: Annotated[str, Field(max_length=64, examples=["2026-05-01T08:00:00Z"])]
    end: Annotated[str, Field(max_length=64, examples=["2026-05-01T09:00:00Z"])]
    g_per_kwh: float | None


class IntensityBody(Strict):
    """Points of a zone by a source, in order and without a gap, in equal steps of 5 to 60 minutes.

    `source` names who gives them, and stands with every figure that they make.
    """

    zone: Text
    source: Annotated[str, Field(pattern=r"^[^\W_][\w .:/()-]{0,199}$")]
    points: list[PointBody] = Field(min_length=1)
    basis: Basis = "lifecycle"
    signal: Signal = "average"


class SpanQuery(Strict):
    """The wanted span, at most 31 days, the last day by default; and which intensity."""

    start: str | None = Field(None, alias="from", max_length=64, description="2026-05-01T00:00Z")
    end: str | None = Field(None, alias="to", max_length=64, description="2026-05-02T00:00Z")
    signal: Signal = Field("average", description="average is what scores use")
    basis: Basis = Field("lifecycle", description="lifecycle is what scores use")


@routes.post("/v1/plans", "unanswerable", "busy", access=Access.INGEST_OR_READ)
def make_plan(body: PlanBody) -> PlanDoc:
    """Return when and where a job would emit least, against starting at once.

    `reliable`: the whole range of the saving is above 1 %. A plan that is not starts at once.
    """
    try:
        request = parse_plan_request(body.model_dump(exclude_none=True))
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
    what = f"{found['zone']}, {found['points']} points of {body.source}"
    audit.log(service(), "intensity-imported", what)
    return found


@routes.get("/v1/intensity/<zone>", "unknown-name", access=Access.INGEST_OR_READ)
def get_intensity(path: ZonePath, query: SpanQuery) -> IntensityAnswer:
    """Return what scores use: stored points, and the annual value where there are none.

    With a span that ends later than now, also what plans expect of the hours from now on. Of
    another signal or basis: what is stored, which no score uses.
    """
    try:
        end = Moment().check(query.end) if query.end else service().now()
        start = Moment().check(query.start) if query.start else end - USUAL
    except ValueError as error:
        raise invalid("query.from or query.to", str(error)) from None
    if not timedelta(0) < end - start <= LONGEST:
        raise invalid("query.to", "after from, and at most 31 days later")
    try:
        return intensity_over(service(), path.zone, start, end, query.signal, query.basis)
    except LookupFailed as error:
        raise Problem("unknown-name", error.message, close=list(error.close)) from None
