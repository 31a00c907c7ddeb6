"""Where a job ran: grid zone, cloud region and PUE, with a notice for what is missing.

No zone is ever guessed. Without one the world average is used and the score is `not-sci`, because
the standard requires the intensity of the region where the load runs (ISO/IEC 21031, SCI
specification v1.1, "Carbon intensity").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gramwatt.sci.base.errors import LookupFailed
from gramwatt.sci.base.notices import CODES, Notice
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.catalog.catalog import Catalog, Region
from gramwatt.sci.grid.zones import Supply
from gramwatt.sci.journal.merge import NodePlace

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
    supply: Supply = "grid"
    nodes: tuple[tuple[str, str], ...] = ()
    """Node and zone where the nodes stand in several; empty where one zone stands for all."""

    @property
    def zones(self) -> tuple[str, ...]:
        """Every zone whose intensity goes into the score, that of the place first."""
        several = [zone for _, zone in self.nodes]
        return tuple(dict.fromkeys(several)) if several else (self.zone,) if self.zone else ()


def locate(zone: str | None, region: str | None, pue: float | None, catalog: Catalog) -> Place:
    """Zone, region and PUE out of what is known, with notices, faults and deviations.

    A fault is a "shall" of the standard that is not met, a deviation a "should". Names that the
    catalog does not know leave a notice; commands and routes refuse them before.
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
    supply: Supply = catalog.zone(key).supply if key else "grid"
    return Place(key, found, figure, tuple(notices), faults, deviations, supply)


def locate_nodes(
    whole: NodePlace, nodes: Sequence[NodePlace], names: Sequence[str], catalog: Catalog
) -> Place:
    """The place of a job from what it declares as a whole and what each of its nodes declares.

    `names` are all its nodes. Nodes in several zones are scored each with the intensity of its own,
    since a score is a sum over components (SCI specification v1.1). One node in two zones, or one
    without a zone among others that differ, makes the job no SCI: the intensity of its energy is
    not known. A job has one PUE: where nodes differ the highest, with the others in its range.
    """
    place = locate(whole.zone, whole.region, whole.pue, catalog)
    own = {node.node: _of_node(node, whole, catalog) for node in nodes}
    zones = {name: catalog.zone(p.zone).zone for name, p in own.items() if p.zone}
    faults = [*_conflicts(nodes, zones, whole, catalog)]
    if len(set(zones.values())) > 1:
        named = {node.node for node in nodes if node.zone or node.region}
        faults += [
            f"{name} names no zone, and others stand in different ones"
            for name in names
            if name not in named or name not in zones
        ]
        place = _several(place, zones, own)
    conflicts = [
        Notice("place-conflict", f"{text[0].upper()}{text[1:]}.", "operational_g")
        for text in faults
    ]
    place = replace(place, notices=(*place.notices, *conflicts), faults=(*place.faults, *faults))
    return _widest_pue(place, [p.pue for p in own.values()])


def _several(place: Place, zones: Mapping[str, str], own: Mapping[str, Place]) -> Place:
    """The place of a job whose nodes stand in several zones, each scored in its own."""
    named = ", ".join(f"{zone} on {node}" for node, zone in zones.items())
    text = f"Nodes stand in different zones, each counted in its own: {named}."
    supplies = {own[node].supply for node in zones}
    return replace(
        place,
        nodes=tuple(zones.items()),
        notices=(*place.notices, Notice("zones-several", text, "operational_g")),
        supply=supplies.pop() if len(supplies) == 1 else "grid",
    )


def _conflicts(
    nodes: Sequence[NodePlace], zones: Mapping[str, str], whole: NodePlace, catalog: Catalog
) -> Iterator[str]:
    """A fault for every node whose writers put it in two zones."""
    for node in nodes:
        others = (
            replace(node, zone=zone or None, region=region or None) for zone, region in node.others
        )
        keys = {_of_node(other, whole, catalog).zone for other in others} - {None}
        other_zones = {catalog.zone(key).zone for key in keys if key}
        differing = sorted(other_zones - {zones.get(node.node)})
        if differing:
            here = ", ".join([*filter(None, [zones.get(node.node)]), *differing])
            yield f"{node.node} is said to stand in several zones: {here}"


def _of_node(node: NodePlace, whole: NodePlace, catalog: Catalog) -> Place:
    """A node's place: what it does not declare is the job's, but no zone where it has a region."""
    zone = node.zone or (None if node.region else whole.zone)
    return locate(zone, node.region or whole.region, node.pue or whole.pue, catalog)


def _widest_pue(place: Place, figures: Sequence[Quantity]) -> Place:
    if len({(pue.value, pue.low, pue.high) for pue in figures}) < 2:
        return place
    worst = max(figures, key=lambda pue: pue.value)
    low, high = min(pue.low for pue in figures), max(pue.high for pue in figures)
    pue = Quantity(worst.value, low, high, "1", worst.kind, f"highest of the nodes: {worst.source}")
    text = f"the nodes of the job have different PUE: {worst.value:g}, the highest, is used"
    notice = Notice("place-conflict", f"{text[0].upper()}{text[1:]} for all.", "operational_g")
    return replace(
        place,
        pue=pue,
        notices=(*place.notices, notice),
        deviations=(*place.deviations, text),
    )


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
