"""The same work elsewhere: regions of the provider by annual intensity."""

from __future__ import annotations

import math

from gramwatt.sci.catalog.catalog import Region
from gramwatt.sci.estimate.ranking import Log
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.score.location import DATA_CENTRE_PUE, locate
from gramwatt.sci.suggest.change import Change
from gramwatt.sci.suggest.embodied import carbon_ratio
from gramwatt.sci.suggest.evidence import log_of
from gramwatt.sci.suggest.work import Work

REGIONS_SHOWN = 3
LIMITS = "check latency, data residency and transfer; which regions are permitted is yours to say"


def regions(work: Work) -> list[Change]:
    """Return the provider's regions of least annual intensity, best first; none without provider.

    Annual intensity says nothing of hours.
    """
    provider, request = work.request.cloud, work.request
    if provider is None or request.constraint != "none" or work.place.zone is None:
        return []
    if work.device is None or work.misfit or work.impossible:
        return []
    grids = [
        (region, _intensity(work, region))
        for region in work.catalog.all_regions()
        if region.provider == provider and not region.access and region is not work.place.region
    ]
    cleaner = [
        (region, grid) for region, grid in grids if grid and grid.value < work.intensity.value
    ]
    cleaner.sort(key=lambda item: (item[1].value, item[0].id))
    return [_moved(work, region, grid) for region, grid in cleaner[:REGIONS_SHOWN]]


def _intensity(work: Work, region: Region) -> Quantity | None:
    zone = locate(None, region.id, None, work.catalog).zone
    return work.catalog.zone(zone).intensity if zone else None


def _moved(work: Work, region: Region, grid: Quantity) -> Change:
    here, there = work.place.pue, region.pue or DATA_CENTRE_PUE
    pue = Log(math.log(there.value / here.value), 0.0)
    ratio = log_of(grid) + -log_of(work.intensity) + pue
    same = Log(0.0, 0.0)
    return Change(
        action="region",
        id=region.id,
        label=f"run it in {region.id}",
        target=region.id,
        count=work.count,
        time=same,
        energy=same,
        carbon=carbon_ratio(work, same, ratio),
        basis="measured",
        reasons=[
            f"{grid.value:.0f} instead of {work.intensity.value:.0f} gCO2e/kWh, annual means",
            f"the catalog does not say whether {work.request.instance or 'the hardware'} is "
            "offered there: check that first",
            LIMITS,
        ],
        sources=(grid.source, work.intensity.source),
    )
