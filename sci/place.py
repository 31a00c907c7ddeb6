"""Where a job ran: grid zone, cloud region and PUE, with what is missing said aloud.

No zone is ever guessed. Without one the world average stands in and the score is `not-sci`, because
the standard wants the intensity of the region where the load runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from gramwatt.sci.catalog import Catalog, Region
from gramwatt.sci.errors import LookupFailed
from gramwatt.sci.merge import MergedJob
from gramwatt.sci.notices import CODES, Notice
from gramwatt.sci.quantity import Quantity

UNDECLARED_PUE = Quantity(
    1.0, 1.0, 1.6, "1", "estimated", "PUE not declared: 1.0, up to 1.6 for an ordinary facility"
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the job ran, as far as it is known: zone, region and PUE."""

    zone: str | None
    region: Region | None
    pue: Quantity
    notices: tuple[Notice, ...]
    faults: tuple[str, ...]
    deviations: tuple[str, ...]


def locate(job: MergedJob, catalog: Catalog) -> Place:
    """Zone, region and PUE of the job, with notices, faults ("shall") and deviations ("should")."""
    notices: list[Notice] = []
    faults: list[str] = []
    deviations: list[str] = []
    region = _known_region(job, catalog, notices)
    zone = _known_zone(job, region, catalog, notices)
    if zone is None:
        notices.append(Notice("zone-unknown", CODES["zone-unknown"], "operational_g"))
        faults.append("the region of the grid is not known; the world average stands in for it")
    pue = UNDECLARED_PUE
    if job.head.pue is not None:
        pue = Quantity.exact(job.head.pue, "1", "declared", "PUE declared by the user")
    elif region is not None and region.pue is not None:
        pue = region.pue
    else:
        notices.append(Notice("pue-undeclared", CODES["pue-undeclared"], "operational_g"))
        deviations.append("PUE not declared: 1.0 is used, with 1.6 as the upper end of its range")
    return Place(zone, region, pue, tuple(notices), tuple(faults), tuple(deviations))


def _known_region(job: MergedJob, catalog: Catalog, notices: list[Notice]) -> Region | None:
    if not job.head.region:
        return None
    try:
        return catalog.region(job.head.region)
    except LookupFailed as error:
        notices.append(Notice("region-unmapped", error.message, "region"))
        return None


def _known_zone(
    job: MergedJob, region: Region | None, catalog: Catalog, notices: list[Notice]
) -> str | None:
    asked = [job.head.zone] if job.head.zone else [region.zone, region.country] if region else []
    for key in asked:
        try:
            catalog.zone(key or "")
        except LookupFailed as error:
            notices.append(Notice("region-unmapped", error.message, "zone"))
        else:
            return key
    return None
