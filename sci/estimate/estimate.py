"""A score without measuring; the answer lists every assumption.

Energy is declared in the request, or rated power from the catalog times the share of it that such
jobs draw; training time may be computed from 6 x N x D floating-point operations.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from gramwatt.sci.catalog.catalog import Catalog, Hardware, Instance
from gramwatt.sci.catalog.slices import find_part
from gramwatt.sci.estimate.model import DECLARED, Assumptions, remarks
from gramwatt.sci.estimate.request import EstimateRequest
from gramwatt.sci.figures.document import SciDoc, SourceDoc
from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.figures.quantity import Quantity, bare
from gramwatt.sci.figures.units import HOURS_PER_YEAR
from gramwatt.sci.grid.zones import USUAL_HOURS
from gramwatt.sci.score.assess import (
    SUPPLIES,
    Conformance,
    conformance,
    overlay_notices,
    unknown_terms,
)
from gramwatt.sci.score.boundary import APPROACH, ENGINE_VERSION, FORMULA, STANDARD
from gramwatt.sci.score.functional_unit import sci_doc, unit_notices
from gramwatt.sci.score.location import Place, in_data_centre, locate

REGION_PROVIDERS = ("aws", "azure", "gcp")
"""Clouds whose regions in the catalog have the same provider as their instances."""


class EstimateMethod(Struct):
    """Method, versions and inputs of an estimate."""

    standard: str
    formula: str
    engine_version: str
    catalog_version: str
    intensity_approach: str
    hardware: str | None
    instance: str | None
    inputs: list[SourceDoc]


class EstimateDoc(Struct):
    """The answer to a request for an estimate."""

    device_hours: Quantity | None
    energy_kwh: Quantity | None
    operational_g: Quantity | None
    embodied_g: Quantity | None
    total_g: Quantity | None
    sci: list[SciDoc]
    pue: Quantity
    intensity_g_per_kwh: Quantity
    conformance: str
    deviations: list[str]
    notices: list[Notice]
    method: EstimateMethod


def estimate(request: EstimateRequest, catalog: Catalog) -> EstimateDoc:
    """Answer a request; raises LookupFailed for unknown names, ScoreError for an impossible one."""
    machine = catalog.instance(request.instance) if request.instance else None
    name = machine.hardware if machine else request.hardware
    hardware = _board(catalog, name) if name else None
    request = placed(request, machine)
    served = machine is not None or in_data_centre(hardware)
    place = locate(request.zone, request.region, request.pue, catalog, data_centre=served)
    grid = _grid(request, place, catalog)
    work = Assumptions(request, hardware, catalog, machine)
    hours = work.device_hours()
    energy, embodied = work.energy_kwh(hours), work.embodied_g(hours)
    operational = energy.times(grid, "gCO2e").times(place.pue, "gCO2e") if energy else None
    emitted = operational + embodied if operational and embodied else None
    status = _status(request, place, energy, embodied)
    units = request.units or {"job": 1.0}
    supplied = f"carbon intensity of {SUPPLIES[place.supply]}"
    inputs = {**work.inputs, supplied: grid, "PUE": place.pue}
    notices = [*_place_notices(request, place), *work.notices, *remarks(work, hours)]
    notices += [*overlay_notices(inputs.items()), *unit_notices(units)]
    return EstimateDoc(
        device_hours=bare(hours),
        energy_kwh=bare(energy),
        operational_g=bare(operational),
        embodied_g=bare(embodied),
        total_g=bare(emitted),
        sci=[sci_doc(emitted, count, unit) for unit, count in units.items()],
        pue=place.pue.bare(),
        intensity_g_per_kwh=grid.bare(),
        conformance=status.status,
        deviations=list(status.deviations),
        notices=list(notices),
        method=_method(work, inputs),
    )


def _board(catalog: Catalog, name: str) -> Hardware:
    """Return a board; raises LookupFailed, or ScoreError for a slice."""
    board, piece = find_part(catalog, name)
    if piece:
        text = (
            f"no measurement tells the power of a MIG slice: estimate the board, {board.id}, with "
            f"device_hours times {piece.share:.2f}, the slice's share of its processors"
        )
        raise ScoreError(text, code="unknown-slice")
    return board


def _method(work: Assumptions, inputs: Mapping[str, Quantity]) -> EstimateMethod:
    return EstimateMethod(
        standard=STANDARD,
        formula=FORMULA,
        engine_version=ENGINE_VERSION,
        catalog_version=work.catalog.version,
        intensity_approach=APPROACH,
        hardware=work.hardware.id if work.hardware else None,
        instance=work.instance.id if work.instance else None,
        inputs=[SourceDoc(what=what, figure=figure.bare()) for what, figure in inputs.items()],
    )


def placed(request: EstimateRequest, machine: Instance | None) -> EstimateRequest:
    """Return the request with the instance's provider put before a region without one.

    Raises ScoreError for a region of another cloud than the instance's.
    """
    if machine is None or request.region is None:
        return request
    provider, colon, _ = request.region.partition(":")
    cloud = machine.provider in REGION_PROVIDERS
    if not colon:
        return msgspec.structs.replace(request, region=f"{machine.provider}:{request.region}")
    if cloud and provider.lower() in REGION_PROVIDERS and provider.lower() != machine.provider:
        text = f"{machine.id} does not run in {request.region}: name a region of the same cloud"
        raise ScoreError(text, code="conflicting-fields")
    return request


def _grid(request: EstimateRequest, place: Place, catalog: Catalog) -> Quantity:
    """Return intensity [gCO2e/kWh]: declared, else the annual mean of the zone."""
    if request.intensity_g_per_kwh is not None:
        return Quantity.exact(request.intensity_g_per_kwh, "gCO2e/kWh", "declared", DECLARED)
    zone = catalog.zone(place.zone) if place.zone else catalog.world()
    return zone.over(_length_h(request))


def _length_h(request: EstimateRequest) -> float:
    """Return how long the work runs [h], a day where that is not said, a year at the most."""
    hours = request.hours or (request.device_hours or USUAL_HOURS) / (request.count or 1.0)
    return min(max(hours, 1.0), HOURS_PER_YEAR)


def _status(
    request: EstimateRequest,
    place: Place,
    energy: Quantity | None,
    embodied: Quantity | None,
) -> Conformance:
    faults = list(place.faults) if request.intensity_g_per_kwh is None else []
    faults += unknown_terms(energy, embodied)
    deviations = list(place.deviations)
    if not request.host:
        deviations.append("the host is left out of energy and embodied carbon, as asked")
    return conformance(faults, deviations)


def _place_notices(request: EstimateRequest, place: Place) -> list[Notice]:
    if request.intensity_g_per_kwh is not None:
        return [notice for notice in place.notices if notice.code != "zone-unknown"]
    return [*place.notices, *place.annual_notices]
