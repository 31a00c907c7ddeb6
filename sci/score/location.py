"""Where a job ran: grid zone, cloud region and PUE, with a notice for what is missing.

No zone is ever guessed. Without one the world average is used and the score is `not-sci`, because
the standard requires the intensity of the region where the load runs (ISO/IEC 21031, SCI
specification v1.1, "Carbon intensity").
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gramwatt.sci.catalog.catalog import Catalog, Hardware, Region
from gramwatt.sci.figures.errors import LookupFailed
from gramwatt.sci.figures.notices import CODES, Notice
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.grid.zones import Supply, ZoneIntensity, zone_taken
from gramwatt.sci.records.merge import MergedJob, NodePlace
from gramwatt.sci.records.nodes import NAMED_AT_MOST

DATA_CENTRE_PUE = Quantity(
    1.56,
    1.1,
    2.19,
    "1",
    "estimated",
    "PUE not declared, a data centre: mean of the Uptime Institute's survey of 2024, range from "
    "what large clouds publish (1.09 to 1.14) to what one in ten in Asia-Pacific exceeded in 2020",
).as_input("pue:data-centre")
OFFICE_PUE = Quantity(
    1.0,
    1.0,
    1.56,
    "1",
    "estimated",
    "PUE not declared, no data centre known: none in an office, up to the mean of data centres "
    "(Uptime Institute 2024)",
).as_input("pue:office")
PUE_UNDECLARED = "The facility's PUE was not declared: set pue, or a cloud region that has one."
DATA_CENTRE_HOSTS = ("server", "module", "card", "cloud")
"""Classes of hosts that stand in data centres; workstations, computers and edge devices do not."""


SERVER_PROCESSOR = re.compile(
    r"\b(?:EPYC|Xeon(?!\S* (?:W|E)-)|Graviton\d?|Grace|Altra|AmpereOne|Axion|Cobalt)\b",
    re.IGNORECASE,
)
"""Families of processors that stand in servers; Xeon W and E-2000 stand in workstations too."""


class Place(Struct, frozen=True):
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
    pues: tuple[tuple[str, Quantity], ...] = ()
    """Every node and its PUE where they differ; empty where `pue` holds for all."""
    annual_notices: tuple[Notice, ...] = ()
    """Those that hold where the annual intensity of the zones is used."""
    annual: tuple[ZoneIntensity, ...] = ()
    """The annual intensity of each of them."""
    annual_faults: tuple[str, ...] = ()
    """Faults that hold where it is used: the world's stands in."""

    @property
    def zones(self) -> tuple[str, ...]:
        """Every zone whose intensity goes into the score, that of the place first."""
        several = [zone for _, zone in self.nodes]
        return tuple(dict.fromkeys(several)) if several else (self.zone,) if self.zone else ()


def locate(
    zone: str | None,
    region: str | None,
    pue: float | None,
    catalog: Catalog,
    *,
    data_centre: bool = False,
) -> Place:
    """Return zone, region and PUE out of what is known, with notices, faults and deviations.

    A fault is a "shall" of the standard that is not met, a deviation a "should". A declared zone
    wins over one that its region lies in, and is a deviation where they contradict each other.
    Raises LookupFailed for a zone or region that is not known.
    """
    if zone:
        catalog.zone(zone)
    if region:
        catalog.region(region)
    place = _located(NodePlace("", zone, region, pue), catalog, data_centre)
    text = _contradiction(zone, place, catalog)
    return _deviating(place, text) if text else place


def _located(asked: NodePlace, catalog: Catalog, data_centre: bool) -> Place:
    notices: list[Notice] = []
    region = _known_region(asked.region, catalog, notices)
    key = _known_zone(asked.zone, region, catalog, notices)
    notices += _alternative(region, catalog) if region and not asked.zone else []
    faults: tuple[str, ...] = ()
    if key is None:
        notices.append(Notice("zone-unknown", CODES["zone-unknown"], "operational_g"))
        faults = ("the region of the grid is not known; the world average stands in for it",)
    # A cloud region is a data centre, also where the catalog does not know it.
    figure, deviations = _pue(asked.pue, region, data_centre or bool(asked.region))
    if deviations:
        notices.append(Notice("pue-undeclared", PUE_UNDECLARED, "operational_g"))
    row = catalog.zone(key) if key else None
    place = Place(key, region, figure, tuple(notices), faults, deviations)
    if row is None:
        return place
    faults = (f"{row.zone} has no intensity of its own; the world's stands in",)
    return replace(
        place,
        supply=row.supply,
        annual=(row,),
        annual_notices=_stand_in(row),
        annual_faults=faults if row.world_fallback else (),
    )


def _alternative(region: Region, catalog: Catalog) -> list[Notice]:
    """Return a notice of both zones of a region that sources put into different ones."""
    if region.zone_other is None:
        return []
    rows = [catalog.zone(key) for key in (region.zone, region.zone_other)]
    used, other = (f"{row.zone} ({row.intensity.value:.0f} gCO2e/kWh a year)" for row in rows)
    text = f"{region.id} lies in {used}, by another source in {other}: {rows[0].zone} is used."
    return [Notice("zone-alternative", text, "operational_g")]


def _contradiction(zone: str | None, place: Place, catalog: Catalog) -> str | None:
    """Return a sentence where a declared zone neither holds the region nor lies in its zone."""
    if not zone or place.zone is None or place.region is None:
        return None
    row, region = catalog.zone(place.zone), place.region
    own = [key for key in (region.zone, region.zone_other) if key]
    near = any(
        key == row.zone or key.startswith(f"{row.zone}-") or row.zone.startswith(f"{key}-")
        for key in own
    )
    # A zone of the user's own names no country, so nothing contradicts it.
    if row.country is None or (near and row.country == region.country):
        return None
    return (
        f"zone {row.zone} is declared beside region {region.id}, which lies in {own[0]}: "
        f"the intensity is that of {row.zone}"
    )


def _deviating(place: Place, text: str) -> Place:
    notice = Notice("place-conflict", f"{text[0].upper()}{text[1:]}.", "operational_g")
    notices, deviations = (*place.notices, notice), (*place.deviations, text)
    return replace(place, notices=notices, deviations=deviations)


def locate_nodes(job: MergedJob, catalog: Catalog, *, data_centre: bool) -> Place:
    """Return the place of a job from what it declares as a whole, and what each of its nodes does.

    Nodes in several zones or of several PUE are scored each with its own, since a score is a sum
    over components (SCI specification v1.1). One node in two zones, or one without a zone among
    others that differ, makes the job no SCI: the intensity of its energy is not known.
    """
    whole = NodePlace("", job.head.zone, job.head.region, job.head.pue)
    nodes, names = job.places, [node.name for node in job.nodes]
    place = _located(whole, catalog, data_centre)
    own = {node.node: _of_node(node, whole, catalog, data_centre) for node in nodes}
    by_name = {name: own.get(name, place) for name in names}
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
    contradictions: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        if text := _contradiction(node.zone, own[node.node], catalog):
            contradictions[text].append(node.node)
    place = _with_pues(place, by_name)
    for text, there in contradictions.items():
        where = "" if len(there) == len(names) else f" (on {_named(there)})"
        place = _deviating(place, f"{text}{where}")
    return place


def _several(place: Place, zones: Mapping[str, str], own: Mapping[str, Place]) -> Place:
    """Return the place of a job whose nodes stand in several zones, each scored in its own."""
    named = ", ".join(f"{zone} on {node}" for node, zone in zones.items())
    text = f"Nodes stand in different zones, each counted in its own: {named}."
    supplies = {own[node].supply for node in zones}
    return replace(
        place,
        nodes=tuple(zones.items()),
        notices=(*place.notices, Notice("zones-several", text, "operational_g")),
        supply=supplies.pop() if len(supplies) == 1 else "grid",
        annual_notices=tuple(dict.fromkeys(n for node in zones for n in own[node].annual_notices)),
        annual=tuple(row for node in zones for row in own[node].annual),
        annual_faults=tuple(dict.fromkeys(f for node in zones for f in own[node].annual_faults)),
    )


def _conflicts(
    nodes: Sequence[NodePlace], zones: Mapping[str, str], whole: NodePlace, catalog: Catalog
) -> Iterator[str]:
    """Yield a fault for every node whose writers put it in two zones."""
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


def _of_node(
    node: NodePlace, whole: NodePlace, catalog: Catalog, data_centre: bool = False
) -> Place:
    """Return a node's place: its own zone and region, or the job's where it names neither.

    A PUE that another node declares holds for it too, one published for another's region does not.
    """
    named = node if node.zone or node.region else whole
    place = replace(named, pue=node.pue or whole.pue)
    return _located(place, catalog, data_centre)


def _with_pues(place: Place, by_name: Mapping[str, Place]) -> Place:
    """Return the place with the PUE of every node, and what is to be said of those."""
    by_pue: dict[Quantity, list[str]] = defaultdict(list)
    for name, own in by_name.items():
        by_pue[own.pue].append(name)
    differing: tuple[tuple[str, Quantity], ...] = ()
    notices = [notice for notice in place.notices if notice.code != "pue-undeclared"]
    notices += [n for own in by_name.values() for n in own.notices if n.code == "pue-undeclared"]
    if len(by_pue) > 1:
        differing = tuple((name, own.pue) for name, own in by_name.items())
        named = "; ".join(f"{pue.value:g} on {_named(there)}" for pue, there in by_pue.items())
        text = f"Nodes have different PUE, each counted with its own: {named}."
        notices.append(Notice("pue-several", text, "operational_g"))
    return replace(
        place,
        pue=next(iter(by_pue)),
        pues=differing,
        notices=tuple(dict.fromkeys(notices)),
        deviations=tuple(dict.fromkeys(d for own in by_name.values() for d in own.deviations)),
    )


def _named(nodes: Sequence[str]) -> str:
    return ", ".join(nodes) if len(nodes) <= NAMED_AT_MOST else f"{len(nodes)} nodes"


def _stand_in(row: ZoneIntensity) -> tuple[Notice, ...]:
    """Return a notice where the annual intensity of a zone is its country's, or the world's."""
    if row.world_fallback:
        text = (
            f"{row.zone} is {row.name}; the catalog has no value of it, so the world's is used: "
            "import one (gramwatt import intensity), or name it in an overlay."
        )
    elif row.country_fallback:
        text = f"{row.zone} has no intensity of its own; that of its country ({row.name}) is used."
    else:
        return ()
    return (Notice("intensity-reused", text, "operational_g"),)


def _pue(
    declared: float | None, region: Region | None, data_centre: bool
) -> tuple[Quantity, tuple[str, ...]]:
    if declared is not None:
        return Quantity.exact(declared, "1", "declared", "PUE declared by the user"), ()
    if region is not None and region.pue is not None:
        return region.pue, ()
    figure = DATA_CENTRE_PUE if data_centre else OFFICE_PUE  # never the least possible for one
    text = f"PUE not declared: {figure.value:g} ({figure.low:g} to {figure.high:g}) is used"
    return figure, (text,)


def in_data_centre(part: Hardware | None) -> bool:
    """Return whether a part is known, and made for data centres: what shows that it is in one."""
    return part is not None and part.host_class in DATA_CENTRE_HOSTS


def _known_region(name: str | None, catalog: Catalog, notices: list[Notice]) -> Region | None:
    if not name:
        return None
    try:
        region = catalog.region(name)
    except LookupFailed as error:
        notices.append(Notice("region-unmapped", error.message, "region"))
        return None
    if name.strip().lower() != region.id:
        text = f"{name.strip()} is taken as {region.id} ({region.place or region.country})."
        notices.append(Notice("place-taken", text, "region"))
    return region


def _known_zone(
    zone: str | None, region: Region | None, catalog: Catalog, notices: list[Notice]
) -> str | None:
    names = [zone] if zone else [region.zone, region.country] if region else []
    for key in names:
        try:
            row = catalog.zone(key)
        except LookupFailed as error:
            notices.append(Notice("region-unmapped", error.message, "zone"))
            continue
        notices += zone_taken(zone, row) if zone else ()
        return row.zone
    return None
