"""The same work elsewhere or later: regions by annual intensity, the hours of a usual day."""

from __future__ import annotations

import math
from datetime import datetime

from gramwatt.sci.catalog.catalog import Region
from gramwatt.sci.estimate.ranking import QUANTILE_90, Log
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.planning.usual import usual_saving
from gramwatt.sci.score.location import DATA_CENTRE_PUE, locate
from gramwatt.sci.suggest.change import Change
from gramwatt.sci.suggest.embodied import carbon_ratio
from gramwatt.sci.suggest.evidence import log_of
from gramwatt.sci.suggest.work import Work

REGIONS_SHOWN = 3
WAIT_H, LONGEST_H = 24.0, 24.0
"""Longest wait for a better hour, and longest run that hours of a day matter to (choices)."""
SERVED = ("llm-serving", "interactive", "decode")
LEAST_GAIN = 0.02
"""Smaller savings are no reason to wait."""
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


def later(work: Work, now: datetime | None) -> list[Change]:
    """Return the best start within a day, by the usual hours of the zone; none for an endpoint.

    Nothing where the hours of the zone are not known, or no hour is much better than `now`.
    """
    served = work.pace.name == "requests" or work.classified.name in SERVED
    hours, zone = work.hours, work.place.zone
    if now is None or not hours or hours > LONGEST_H or zone is None or served:
        return []
    if work.device is None or work.misfit or work.impossible or work.measured:
        return []
    waiting = usual_saving(work.catalog.zone(zone).zone, hours, WAIT_H, now)
    if waiting is None or waiting.saving.value < LEAST_GAIN:
        return []
    saving, same = waiting.saving, Log(0.0, 0.0)
    ends = math.log((1 - saving.low) / (1 - saving.high))
    ratio = Log(math.log(1 - saving.value), ends / 2 / QUANTILE_90)
    return [
        Change(
            action="time",
            id="time",
            label=f"start at {waiting.start:%H:%M} UTC",
            count=work.count,
            time=same,
            energy=same,
            carbon=carbon_ratio(work, same, ratio),
            odds=round(waiting.odds, 3),
            basis="measured",
            reasons=["usual hours of the zone in this month; the weather of the day is not known"],
            sources=saving.sources,
        )
    ]
