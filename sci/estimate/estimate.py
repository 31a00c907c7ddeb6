"""A score without measuring; the answer lists every assumption.

Energy is declared in the request, or rated power from the catalog times the share of it that such
jobs draw; time may be computed from the work (see `model`). `estimates` compares several devices,
`estimate` answers for one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from gramwatt.sci.catalog.catalog import Catalog, Hardware, Instance
from gramwatt.sci.catalog.instances import ANY_PROVIDER, counted
from gramwatt.sci.catalog.slices import find_part
from gramwatt.sci.estimate.model import DECLARED, Assumptions, remarks
from gramwatt.sci.estimate.ranking import Log, work_of
from gramwatt.sci.estimate.ranking import number as ranking_number
from gramwatt.sci.estimate.request import EstimateRequest
from gramwatt.sci.estimate.serving import SEQUENCES
from gramwatt.sci.figures.document import SciDoc, SourceDoc
from gramwatt.sci.figures.errors import AmbiguousName, ScoreError
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.figures.quantity import Quantity, bare
from gramwatt.sci.figures.units import HOURS_PER_YEAR, S_PER_HOUR
from gramwatt.sci.grid.zones import USUAL_HOURS
from gramwatt.sci.score.assess import (
    SUPPLIES,
    Conformance,
    conformance,
    overlay_notices,
    unknown_terms,
)
from gramwatt.sci.score.boundary import APPROACH, FORMULA, STANDARD
from gramwatt.sci.score.functional_unit import sci_doc, unit_notices
from gramwatt.sci.score.location import Place, in_data_centre, locate
from gramwatt.sci.score.version import ENGINE_VERSION

REGION_PROVIDERS = ("aws", "azure", "gcp")
"""Clouds whose regions in the catalog have the same provider as their instances."""
VARIANTS = 12
"""A name of more devices than this is not compared: it has to say which."""
MILLION = 1e6
RANKED = "error of a comparison by data sheets (ranking.csv)"


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


UNPUBLISHED_MOST = 0.69
"""Highest probability between two devices where no power of one under load was published: a Mac
Studio (M3 Ultra) took 0.9 to 1.8 times the energy a token of a PC with an RTX 4090 at the wall
(geerlingguy/ai-benchmarks), where rated powers say a third."""


class EstimateDoc(Struct, kw_only=True):
    """The answer for one device, instance or amount of energy; unknown terms are null.

    `label` names it for people. `work` says that the time is one of training or serving; null where
    time or energy is given. `time_h` [h] is wall time of `count` devices. `g_per_million_tokens`
    [gCO2e] is of what is served; where no tokens are given, of devices that are kept full.
    `missing` says what is not counted, and what to give.

    Of several, `carbon_ratio` is over the first, and `odds` the probability that this one emits
    less than the first (of the first: than the second).
    """

    label: str
    work: str | None
    count: float | None
    time_h: Quantity | None
    device_hours: Quantity | None
    energy_kwh: Quantity | None
    operational_g: Quantity | None
    embodied_g: Quantity | None
    total_g: Quantity | None
    g_per_million_tokens: Quantity | None
    carbon_ratio: Quantity | None = None
    odds: float | None = None
    sci: list[SciDoc]
    pue: Quantity
    intensity_g_per_kwh: Quantity
    conformance: str
    deviations: list[str]
    missing: list[str]
    notices: list[Notice]
    method: EstimateMethod

    @property
    def carbon_g(self) -> Quantity | None:
        """Return the total [gCO2e], or what of it is known."""
        return self.total_g or self.operational_g or self.embodied_g


class LeftOutDoc(Struct):
    """A device that cannot be estimated: one word, and the reason."""

    label: str
    word: str
    reason: str


class Estimates(Struct, frozen=True):
    """An estimate of each device that is named, the least carbon first, and what has none."""

    request: EstimateRequest
    rows: list[EstimateDoc]
    left_out: list[LeftOutDoc]


def estimate(request: EstimateRequest, catalog: Catalog) -> EstimateDoc:
    """Answer a request of one device, one instance, or an amount of energy.

    Raises LookupFailed for unknown names, ScoreError for an impossible request.
    """
    return _estimated(_assumptions(request, catalog))[0]


def compare(request: EstimateRequest, catalog: Catalog) -> Estimates:
    """Answer a request for each device or instance that it names, the least carbon first.

    A name of several devices stands for all of them. Raises LookupFailed for unknown names,
    ScoreError for an impossible request.
    """
    requests = _each(request, catalog)
    answers: list[tuple[EstimateDoc, Quantity | None]] = []
    left_out: list[LeftOutDoc] = []
    for one in requests:
        work = _assumptions(one, catalog)
        if reason := work.misfit():
            left_out.append(LeftOutDoc(work.label, "does not fit", reason))
            continue
        try:
            answer = _estimated(work)
        except ScoreError as error:
            if len(requests) == 1 or error.code != "rate-unknown":
                raise
            left_out.append(LeftOutDoc(work.label, "no such rate", error.message))
            continue
        if answer[0].operational_g is None and len(requests) > 1:  # its making is a small part
            left_out.append(LeftOutDoc(work.label, "not known", "; ".join(answer[0].missing)))
            continue
        answers.append(answer)
    answers.sort(key=lambda answer: answer[1].value if answer[1] else math.inf)
    _set_ratios(answers)
    return Estimates(request, [row for row, _ in answers], left_out)


def _each(request: EstimateRequest, catalog: Catalog) -> list[EstimateRequest]:
    """Return the request for each device or instance that it names."""
    if request.instance is not None:
        ids = list(_ids(request.instance, lambda name: catalog.instance(name).id))
        return [msgspec.structs.replace(request, instance=id_) for id_ in ids]
    if request.hardware is None:
        return [request]
    named = _ids(request.hardware, lambda name: _board(catalog, counted(name)[0]).id)
    return [
        msgspec.structs.replace(request, hardware=id_, count=counted(name, request.count)[1])
        for id_, name in named.items()
    ]


def _ids(names: str | tuple[str, ...], find: Callable[[str], str]) -> dict[str, str]:
    """Return the ids that names mean, each with its name: all of an ambiguous one."""
    ids: dict[str, str] = {}
    for name in (names,) if isinstance(names, str) else names:
        try:
            ids.setdefault(find(name), name)
        except AmbiguousName as error:
            if len(error.choices) > VARIANTS:
                raise
            ids |= dict.fromkeys(error.choices, name)
    return ids


def _set_ratios(answers: list[tuple[EstimateDoc, Quantity | None]]) -> None:
    """Set what each emits over the first; what both rest on cancels."""
    if len(answers) < 2 or not (least := answers[0][1]) or least.low <= 0:
        return
    first = answers[0][0]
    for row, carbon in answers:
        assert carbon  # one that is not known is left out of several
        other = answers[1][1] if carbon is least else least
        assert other
        ratio = carbon.over(other, "1")
        difference = _difference(row, ratio.value)
        row.odds = difference.odds
        if any(
            notice.code == "power-unpublished" for doc in (row, first) for notice in doc.notices
        ):
            row.odds = min(max(row.odds, 1 - UNPUBLISHED_MOST), UNPUBLISHED_MOST)
        if carbon is not least:
            error = Log(0.0, difference.spread).quantity("estimated", RANKED)
            row.carbon_ratio = ratio.times(error, "1").bare()


def _difference(row: EstimateDoc, ratio: float) -> Log:
    """Return the logarithm of a ratio of carbon with the error of the ranking."""
    value, spread = math.log(ratio), ranking_number("power-spread")
    if row.work is not None:
        of_class = "llm-serving" if row.work == "serving" else "training"
        regime = work_of(of_class, batch_size=SEQUENCES.value).regime
        spread = math.hypot(spread, ranking_number("spread", regime))
    return Log(value, math.hypot(spread, ranking_number("growth") * value))


def _assumptions(request: EstimateRequest, catalog: Catalog) -> Assumptions:
    """Return the terms of a request that names at most one device or instance."""
    machine = catalog.instance(request.instance) if isinstance(request.instance, str) else None
    name = machine.hardware if machine else request.hardware
    hardware = _board(catalog, name) if isinstance(name, str) else None
    return Assumptions(placed(request, machine), hardware, catalog, machine)


def _estimated(work: Assumptions) -> tuple[EstimateDoc, Quantity | None]:
    """Return the answer, and the carbon that is known [gCO2e] with what moves it."""
    request, catalog = work.request, work.catalog
    served = work.instance is not None or in_data_centre(work.hardware)
    place = locate(request.zone, request.region, request.pue, catalog, data_centre=served)
    grid = _grid(request, place, catalog)
    hours = work.device_hours()
    energy, embodied = work.energy_kwh(hours), work.embodied_g(hours)
    operational = energy.times(grid, "gCO2e").times(place.pue, "gCO2e") if energy else None
    emitted = operational + embodied if operational and embodied else None
    carbon = emitted or operational or embodied
    status = _status(request, place, energy, embodied)
    tokens = work.tokens_served
    units = request.units or _units(request, tokens)
    count = work.devices() if work.hardware else None
    supplied = f"carbon intensity of {SUPPLIES[place.supply]}"
    inputs = {**work.inputs, supplied: grid, "PUE": place.pue}
    notices = [*_place_notices(request, place), *work.notices, *remarks(work, hours)]
    notices += [*overlay_notices(inputs.items(), catalog.overlay), *unit_notices(units)]
    document = EstimateDoc(
        label=work.label,
        work=None if request.timed else request.work,
        count=count,
        time_h=hours.scaled(1 / count).bare() if hours and count else None,
        device_hours=bare(hours),
        energy_kwh=bare(energy),
        operational_g=bare(operational),
        embodied_g=bare(embodied),
        total_g=bare(emitted),
        g_per_million_tokens=bare(_of_tokens(work, emitted, hours, tokens)),
        sci=[sci_doc(emitted, amount, unit) for unit, amount in units.items()],
        pue=place.pue.bare(),
        intensity_g_per_kwh=grid.bare(),
        conformance=status.status,
        deviations=list(status.deviations),
        missing=_missing(work, energy, embodied),
        notices=list(notices),
        method=_method(work, inputs),
    )
    return document, carbon


def _units(request: EstimateRequest, tokens: Quantity | None) -> dict[str, float]:
    """Return what is counted where the request names no unit."""
    if request.requests is not None:
        return {"request": request.requests}
    return {"token": tokens.value} if tokens else {"job": 1.0}


def _of_tokens(
    work: Assumptions, emitted: Quantity | None, hours: Quantity | None, tokens: Quantity | None
) -> Quantity | None:
    """Return carbon of a million tokens [gCO2e]: of those served, else of devices kept full."""
    if emitted is None or hours is None:
        return None
    if tokens is None:
        rate = work.rate()
        tokens = rate.times(hours, "1").scaled(S_PER_HOUR) if rate else None
    return emitted.over(tokens, "gCO2e").scaled(MILLION) if tokens else None


def _missing(work: Assumptions, energy: Quantity | None, embodied: Quantity | None) -> list[str]:
    """Return what is not counted, each with what to give."""
    texts = []
    if energy is None:
        what = f"electricity is not counted: no power of {work.named} is published"
        if work.served and work.rate() is None:
            what = f"electricity is not counted: the speed of {work.named} is not known"
        texts.append(f"{what}; give power_w and hours, or energy_kwh")
    if embodied is None and work.hardware is None:
        texts.append("making the hardware is not counted; name it by hardware")
    return texts


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
    if not colon and machine.provider == ANY_PROVIDER:
        return request
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
    request: EstimateRequest, place: Place, energy: Quantity | None, embodied: Quantity | None
) -> Conformance:
    """Return whether an estimate is an SCI score, and what it deviates in."""
    declared = request.intensity_g_per_kwh is not None
    faults = [] if declared else [*place.faults, *place.annual_faults]
    faults += unknown_terms(energy, embodied)
    deviations = list(place.deviations)
    if not request.host:
        deviations.append("the host is left out of energy and embodied carbon, as asked")
    return conformance(faults, deviations)


def _place_notices(request: EstimateRequest, place: Place) -> list[Notice]:
    if request.intensity_g_per_kwh is not None:
        return [notice for notice in place.notices if notice.code != "zone-unknown"]
    return [*place.notices, *place.annual_notices]
