"""Where a job ran: grid zone, cloud region and PUE, with what is missing said aloud.

No zone is ever guessed. Without one the world average stands in and the score is `not-sci`, because
the standard wants the intensity of the region where the load runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from gramwatt.sci.catalog import Catalog, Region
from gramwatt.sci.errors import LookupFailed
from gramwatt.sci.notices import CODES, Notice
from gramwatt.sci.quantity import Quantity

UNDECLARED_PUE = Quantity(
    1.0, 1.0, 1.6, "1", "estimated", "PUE not declared: 1.0, up to 1.6 for an ordinary facility"
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job ran, as far as it is known: zone, region and PUE."""

    zone: str | None
    region: Region | None
    pue: Quantity
    notices: tuple[Notice, ...]
    faults: tuple[str, ...]
    deviations: tuple[str, ...]


def locate(zone: str | None, region: str | None, pue: float | None, catalog: Catalog) -> Place:
    """Zone, region and PUE out of what is known, with notices, faults and deviations.

    A fault is a "shall" of the standard that is not met, a deviation a "should". Names that the
    catalog does not know leave a notice here; whoever takes them from a user refuses them first.
    """
    notices: list[Notice] = []
    found = _known_region(region, catalog, notices)
    key = _known_zone(zone, found, catalog, notices)
    faults: tuple[str, ...] = ()
    if key is None:
        notices.append(Notice("zone-unknown", CODES["zone-unknown"], "operational_g"))
        faults = ("the region of the grid is not known; the world average stands in for it",)
    figure, deviations = _pue(pue, found)
    if deviations:
        notices.append(Notice("pue-undeclared", CODES["pue-undeclared"], "operational_g"))
    return Place(key, found, figure, tuple(notices), faults, deviations)


def reused(zone: str | None, catalog: Catalog) -> tuple[Notice, ...]:
    """A notice where the annual intensity of a zone is its country's."""
    row = catalog.zone(zone) if zone else None
    if row is None or not row.country_fallback:
        return ()
    text = f"{row.zone} has no intensity of its own; that of its country ({row.name}) is used."
    return (Notice("intensity-reused", text, "operational_g"),)


def _pue(declared: float | None, region: Region | None) -> tuple[Quantity, tuple[str, ...]]:
    if declared is not None:
        return Quantity.exact(declared, "1", "declared", "PUE declared by the user"), ()
    if region is not None and region.pue is not None:
        return region.pue, ()
    return UNDECLARED_PUE, (
        "PUE not declared: 1.0 is used, with 1.6 as the upper end of its range",
    )


def _known_region(name: str | None, catalog: Catalog, notices: list[Notice]) -> Region | None:
    if not name:
        return None
    try:
        return catalog.region(name)
    except LookupFailed as error:
        notices.append(Notice("region-unmapped", error.message, "region"))
        return None


def _known_zone(
    zone: str | None, region: Region | None, catalog: Catalog, notices: list[Notice]
) -> str | None:
    asked = [zone] if zone else [region.zone, region.country] if region else []
    for key in asked:
        try:
            catalog.zone(key or "")
        except LookupFailed as error:
            notices.append(Notice("region-unmapped", error.message, "zone"))
        else:
            return key
    return None
