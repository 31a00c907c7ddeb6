"""Where a job runs: permitted regions by annual intensity, which says nothing of hours."""

from __future__ import annotations

from gramwatt.sci.advice.documents import Suggestion, verdict_of
from gramwatt.sci.advice.prediction.ratio_range import Values, ratio_of, unchanged
from gramwatt.sci.advice.work import Work
from gramwatt.sci.base.errors import LookupFailed
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.catalog.catalog import Region
from gramwatt.sci.score.location import DATA_CENTRE_PUE

REGIONS_SHOWN = 3
LIMITS = "check latency, data residency and transfer; which regions are permitted is yours to say"


def other_regions(work: Work) -> list[Suggestion]:
    """The provider's regions of least annual intensity, best first; none outside one provider."""
    provider = work.request.cloud
    if provider is None or work.request.constraint != "none" or work.place.zone is None:
        return []
    grids = [
        (region, _intensity(work, region))
        for region in work.catalog.all_regions()
        if region.provider == provider and region is not work.place.region
    ]
    cleaner = [
        (region, grid)
        for region, grid in grids
        if grid is not None and grid.value < work.intensity.value
    ]
    cleaner.sort(key=lambda item: (item[1].value, item[0].id))
    return [_moved(work, region, grid) for region, grid in cleaner[:REGIONS_SHOWN]]


def _intensity(work: Work, region: Region) -> Quantity | None:
    for key in (region.zone, region.country):
        try:
            return work.catalog.zone(key or "").intensity
        except LookupFailed:
            continue
    return None


def _moved(work: Work, region: Region, grid: Quantity) -> Suggestion:
    pue = region.pue or DATA_CENTRE_PUE
    same = unchanged("the same hardware does the same work")
    operational, embodied = work.operational_g_h, work.embodied_g_h
    ratio = None
    if operational is not None and embodied is not None:
        inputs = {
            "here": work.intensity.times(work.place.pue, "gCO2e/kWh"),
            "there": grid.times(pue, "gCO2e/kWh"),
            "M/O": embodied.scaled(1 / operational.value, "1"),
        }
        ratio = ratio_of(_carbon, inputs, f"{work.intensity.source}; {grid.source}")
    reasons = [
        f"{region.id}: {grid.value:.0f} instead of {work.intensity.value:.0f} gCO2e/kWh, annual "
        "means of the grid zones",
        f"the catalog does not say whether {work.request.instance or 'the hardware'} is offered "
        "there: check that first",
        LIMITS,
    ]
    return Suggestion(
        action="shift-region",
        target=region.id,
        verdict=verdict_of(ratio),
        basis="rule",
        count=work.count,
        time_ratio=same,
        energy_ratio=same,
        carbon_ratio=ratio,
        saved_g=work.saved_g(ratio),
        operating_point="same hardware, other region",
        reasons=reasons,
        sources=(grid.source, work.intensity.source, "rule 68"),
    )


def _carbon(at: Values) -> float:
    return (at["there"] / at["here"] + at["M/O"]) / (1 + at["M/O"])
