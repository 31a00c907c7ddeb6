"""The same work elsewhere or later: regions by annual intensity, the hours of a usual day.

A region counts where the instance is offered, as far as the catalog knows.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime

from gramwatt.sci.catalog.catalog import Region
from gramwatt.sci.estimate.ranking import QUANTILE_90, Log
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.planning.usual import usual_saving
from gramwatt.sci.score.location import DATA_CENTRE_PUE, locate
from gramwatt.sci.suggest.change import Change
from gramwatt.sci.suggest.embodied import carbon_ratio
from gramwatt.sci.suggest.evidence import log_of
from gramwatt.sci.suggest.facts import instances_of
from gramwatt.sci.suggest.work import Work

REGIONS_SHOWN = 3
WAIT_H, LONGEST_H = 24.0, 24.0
"""Longest wait for a better hour, and longest run that hours of a day matter to (choices)."""
SERVED = ("llm-serving", "interactive", "decode")
LEAST_GAIN = 0.05
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
    offers = _offers(work)
    grids = [
        (region, _intensity(work, region))
        for region in work.catalog.all_regions()
        if region.provider == provider and not region.access and region is not work.place.region
        if not offers or region.name in offers
    ]
    cleaner = [
        (region, grid) for region, grid in grids if grid and grid.value < work.intensity.value
    ]
    cleaner.sort(key=lambda item: (item[1].value, item[0].id))
    return [_moved(work, region, grid, bool(offers)) for region, grid in cleaner[:REGIONS_SHOWN]]


def _offers(work: Work) -> frozenset[str]:
    """Return the regions that offer the instance, or one with the device; empty if not known."""
    rows = instances_of(work.catalog, work.request.cloud, work.now.board)
    if work.request.instance:
        rows = [row for row in rows if row.id == work.request.instance]
    return frozenset(region for row in rows for region in row.regions)


def _intensity(work: Work, region: Region) -> Quantity | None:
    zone = locate(None, region.id, None, work.catalog).zone
    return work.catalog.zone(zone).intensity if zone else None


def _moved(work: Work, region: Region, grid: Quantity, offered: bool) -> Change:
    here, there = work.place.pue, region.pue or DATA_CENTRE_PUE
    pue = Log(math.log(there.value / here.value), 0.0)
    ratio = log_of(grid) + -log_of(work.intensity) + pue
    same, what = Log(0.0, 0.0), work.request.instance or "the hardware"
    return Change(
        action="region",
        id=region.id,
        label=f"run it in {region.id}",
        target=region.id,
        count=work.count,
        time=same,
        energy=same,
        carbon=carbon_ratio(work, same, ratio),
        basis="measured" if offered else "rule-of-thumb",
        reasons=[
            f"{grid.value:.0f} instead of {work.intensity.value:.0f} gCO2e/kWh, annual means",
            f"{what} is offered there, by the provider's list that the catalog has"
            if offered
            else f"the catalog does not know where {what} is offered: check that first",
            LIMITS,
        ],
        sources=(grid.source, work.intensity.source),
    )


def later(work: Work, now: datetime | None) -> list[Change]:
    """Return the best start within a day of `now`, by the usual hours of the zone.

    For a job that ran `now` is when it started. Nothing for an endpoint, where the hours of the
    zone are not known, or where no hour is much better.
    """
    served = work.pace.name == "requests" or work.classified.name in SERVED
    hours, zone = work.hours, work.place.zone
    if now is None or not hours or hours > LONGEST_H or zone is None or served:
        return []
    if work.device is None or work.misfit or work.impossible:
        return []
    waiting = usual_saving(work.catalog.zone(zone).zone, hours, WAIT_H, now)
    if waiting is None:
        return []
    saving, same = waiting.saving, Log(0.0, 0.0)
    ends = math.log((1 - saving.low) / (1 - saving.high))
    ratio = Log(math.log(1 - saving.value), ends / 2 / QUANTILE_90)
    carbon = carbon_ratio(work, same, ratio)
    if carbon is None or carbon.value > math.log(1 - LEAST_GAIN):
        return []
    return [
        Change(
            action="time",
            id="time",
            label=f"start {'' if work.measured else 'at '}{waiting.start:%H:%M} UTC"
            + (f", not {now.astimezone(UTC):%H:%M}" if work.measured else ""),
            count=work.count,
            time=same,
            energy=same,
            carbon=carbon,
            odds=round(waiting.odds, 3),
            basis="measured",
            reasons=["usual hours of the zone in this month; the weather of the day is not known"],
            sources=saving.sources,
        )
    ]
