"""When and where to run, and the intensity of a zone over time."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from msgspec import Meta, Struct

from gramwatt.sci.catalog.catalog import Catalog, Instance, Region, ZoneIntensity
from gramwatt.sci.catalog.names import find_matches
from gramwatt.sci.embodied import forms
from gramwatt.sci.embodied.te import cpu_doc, hardware_doc
from gramwatt.sci.estimate.answer import EstimatesDoc, estimates
from gramwatt.sci.estimate.request import EstimateRequest, check_estimate_request
from gramwatt.sci.figures.checks import Moment, checked
from gramwatt.sci.figures.document import IntensityDoc
from gramwatt.sci.figures.errors import GramwattError, LookupFailed
from gramwatt.sci.grid.intensity import Basis, Signal
from gramwatt.sci.planning.plan import PlanDoc
from gramwatt.sci.planning.plan_request import PlanRequest, check_plan_request
from gramwatt.sci.suggest.documents import SuggestDoc
from gramwatt.sci.suggest.request import SuggestRequest, check_suggest_request
from gramwatt.service.access import audit
from gramwatt.service.api.access import Access
from gramwatt.service.api.problems import Problem, invalid
from gramwatt.service.api.routing import Routes
from gramwatt.service.api.support import ABSENT, JobPath, heavy, service
from gramwatt.service.common.requests import SpanQuery, Text
from gramwatt.service.intensity.csv_import import IntensityAdded, Row, import_points
from gramwatt.service.intensity.plans import LONGEST, intensity_over
from gramwatt.service.intensity.publishers import IntensityFileError
from gramwatt.service.jobs.advice import suggest_for
from gramwatt.service.jobs.planning import plan
from gramwatt.service.suggest import answer

estimates_routes = Routes("estimates")


KINDS = ("hardware", "cpus", "instances", "regions", "intensity")


class CatalogPath(Struct, frozen=True, kw_only=True):
    """The kind of row in an address."""

    kind: Annotated[str, Meta(extra_json_schema={"enum": list(KINDS)})]


class CatalogQuery(Struct, frozen=True, kw_only=True):
    """A name to look up; every row without it."""

    name: Annotated[str, Meta(min_length=1, max_length=200)] | None = None


class CatalogAnswer(Struct):
    """The rows that a name means: one, or several where it is ambiguous.

    `reason` says why where the name is of another kind, such as a cloud service.
    """

    matches: list[dict[str, Any]]
    reason: str | None


@estimates_routes.post("/v1/estimates", "unanswerable", access=Access.READ)
def make_estimate(body: EstimateRequest) -> EstimatesDoc:
    """Return what hardware emits in a time, a training or serving, the least carbon first."""
    try:
        catalog = service().catalog
        request = check_estimate_request(body)
        return estimates(request, catalog)
    except GramwattError as error:
        raise unanswerable(error) from None


@estimates_routes.get("/v1/catalog/<kind>", "unknown-name", "unanswerable", access=Access.READ)
def list_catalog(path: CatalogPath, query: CatalogQuery) -> CatalogAnswer:
    """Rows of the catalog: all of a kind, or those that a name means."""
    if path.kind not in KINDS:
        text = f"the catalog has no kind {path.kind[:40]!r}; it has {', '.join(KINDS)}"
        raise Problem("unknown-name", text, close=list(KINDS))
    try:
        return _matches(service().catalog, path.kind, query.name)
    except LookupFailed as error:
        text = error.message
        if path.kind == "hardware" and query.name and error.reason is None:
            text += f". {forms.instead(service().catalog, query.name).sentence}"
        raise Problem("unknown-name", text, close=list(error.close)) from None
    except GramwattError as error:
        raise unanswerable(error) from None


def unanswerable(error: GramwattError) -> Problem:
    """Return a request the engine refuses, with choices or close names where a name is the
    reason.
    """
    return Problem("unanswerable", error.message, reason=error.code, **error.names)


def _matches(catalog: Catalog, kind: str, name: str | None) -> CatalogAnswer:
    listings: dict[str, Any] = {
        "hardware": (catalog.all_hardware, catalog.hardware, hardware_doc),
        "cpus": (catalog.all_cpus, catalog.cpu, cpu_doc),
        "instances": (catalog.all_instances, catalog.instance, Instance.to_doc),
        "regions": (catalog.all_regions, catalog.region, Region.to_doc),
        "intensity": (catalog.all_zones, catalog.zone, ZoneIntensity.to_doc),
    }
    every, find, doc = listings[kind]
    if name is None:
        return CatalogAnswer(matches=[doc(row) for row in every()], reason=None)
    if kind == "hardware":
        matches, reason = forms.matches(catalog, name)
    else:
        matches, reason = find_matches(find, name)
    return CatalogAnswer(matches=[doc(row) for row in matches], reason=reason)


suggestions_routes = Routes("suggestions")


@suggestions_routes.post("/v1/suggestions", "unanswerable", access=Access.READ)
def make_suggestions(body: SuggestRequest) -> SuggestDoc:
    """Return what would emit less for the same work: hardware, settings and place in one list.

    Each row has the probability that it emits less; from 7 in 10 on it is advised.
    """
    try:
        return answer(service(), check_suggest_request(body))
    except GramwattError as error:
        raise unanswerable(error) from None


@suggestions_routes.get(
    "/v1/jobs/<job_id>/suggestions", *ABSENT, "not-scorable", access=Access.READ
)
def suggest_for_job(path: JobPath) -> SuggestDoc:
    """Suggestions for a job, from what was measured of it."""
    return suggest_for(service(), path.job_id)


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
        added = import_points(service(), body.zone, body.source, body.basis, body.signal, rows)
    except IntensityFileError as error:
        raise invalid("body.points", str(error)) from None
    except LookupFailed as error:
        raise Problem("unknown-name", error.message, close=list(error.close)) from None
    what = f"{added.zone}, {added.points} points of {body.source}"
    audit.log(service(), "intensity-imported", what)
    return added


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
