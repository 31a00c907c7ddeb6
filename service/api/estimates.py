"""Estimates without measuring, and the catalog they rest on."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from gramwatt.sci.catalog.catalog import Catalog, Instance, Region, ZoneIntensity
from gramwatt.sci.catalog.names import find_matches
from gramwatt.sci.embodied import forms
from gramwatt.sci.embodied.te import cpu_doc, hardware_doc
from gramwatt.sci.estimate.answer import EstimatesDoc, estimates
from gramwatt.sci.estimate.request import EstimateRequest, check_estimate_request
from gramwatt.sci.figures.errors import GramwattError, LookupFailed
from gramwatt.service.api.access import Access
from gramwatt.service.api.problems import Problem
from gramwatt.service.api.routing import Routes
from gramwatt.service.api.support import service

routes = Routes("estimates")


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


@routes.post("/v1/estimates", "unanswerable", access=Access.READ)
def make_estimate(body: EstimateRequest) -> EstimatesDoc:
    """Return what hardware emits in a time, a training or serving, the least carbon first."""
    try:
        catalog = service().catalog
        request = check_estimate_request(body)
        return estimates(request, catalog)
    except GramwattError as error:
        raise unanswerable(error) from None


@routes.get("/v1/catalog/<kind>", "unknown-name", "unanswerable", access=Access.READ)
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
        found, reason = forms.matches(catalog, name)
    else:
        found, reason = find_matches(find, name)
    return CatalogAnswer(matches=[doc(row) for row in found], reason=reason)
