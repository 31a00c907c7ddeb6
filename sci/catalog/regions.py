"""Cloud regions: the grid zone of each, and the PUE published or declared for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Struct, field, to_builtins

from gramwatt.sci.catalog.names import HINTS, similar_ids
from gramwatt.sci.figures.csv_data import SOURCE, Cell, Id, Row, Year, between, column
from gramwatt.sci.figures.quantity import Quantity

PUE_SPREAD = 0.05
"""82 of the 87 changes from one published PUE to the next in regions.csv are at most this."""
ZONE_LETTER = re.compile(r"-?[a-f]$")
"""Suffix of an availability zone in a region: us-east-1a, us-central1-a."""


Pue = Annotated[float, between(1, 5)]


class RegionRow(Row, frozen=True, kw_only=True):
    """Cloud regions with their grid zone and the latest published PUE."""

    files = ("regions.csv",)
    key = ("provider", "name")

    provider: Annotated[Cell, column("Cloud provider")]
    name: Annotated[Cell, column("Region as the provider writes it")] = field(name="region")
    place: Annotated[Cell | None, column("Place")] = None
    country: Annotated[Cell, column("ISO 3166-1 alpha-3", "countries.csv:alpha3")]
    zone: Annotated[Cell, column("Grid zone: Electricity Maps key")]
    zone_source: Annotated[Id, column("Source key of the zone", SOURCE)]
    zone_other: Annotated[Cell | None, column("Zone that another source assigns")] = None
    zone_other_source: Annotated[Id | None, column("Source key of that", SOURCE)] = None
    pue: Annotated[Pue | None, column("Latest published PUE")] = None
    pue_year: Annotated[Year | None, column("Its year")] = None
    pue_basis: Annotated[
        Literal["annual", "design"] | None,
        column("annual: measured over a year; design: of a new site, probably not measured"),
    ] = None
    pue_history: Annotated[dict[str, Pue], column("Published values as year=PUE")] = {}
    pue_source: Annotated[Id | None, column("Source key", SOURCE)] = None
    notes: Annotated[Cell | None, column("Disagreements")] = None

    @property
    def id(self) -> str:
        """Return provider:name."""
        return f"{self.provider}:{self.name}"


class Region(Struct, frozen=True, kw_only=True):
    """A cloud region: `id` is provider:name, `country` ISO 3166 alpha-3, `zone` its grid zone.

    `pue` is the newest published value with its range, None where none is published. `zone_other`
    is the grid zone that another source gives for it.
    """

    id: str
    provider: str
    name: str
    place: str | None
    country: str
    zone: str
    zone_other: str | None
    pue: Quantity | None
    pue_year: int | None
    pue_basis: str | None
    sources: tuple[str, ...]
    notes: str | None

    def to_doc(self) -> dict[str, Any]:
        """Return this region as JSON-ready data."""
        doc: dict[str, Any] = to_builtins(self)
        return doc | {"pue": self.pue.bare() if self.pue else None}


def region_of(row: RegionRow, highest: float) -> Region:
    """Return a line as a region; `highest` is the provider's highest measured annual PUE."""
    return Region(
        id=row.id,
        provider=row.provider,
        name=row.name,
        place=row.place,
        country=row.country,
        zone=row.zone,
        zone_other=row.zone_other,
        pue=_pue(row, highest),
        pue_year=row.pue_year,
        pue_basis=row.pue_basis,
        sources=tuple(dict.fromkeys(filter(None, (row.zone_source, row.pue_source)))),
        notes=row.notes,
    )


def _pue(row: RegionRow, highest: float) -> Quantity | None:
    """Return PUE -+ 0.05; that of a design value reaches the provider's highest measured."""
    value = row.pue
    if value is None:
        return None
    source = f"{row.id} PUE {row.pue_year}, {row.pue_basis} value ({row.pue_source})"
    high = max(value + PUE_SPREAD, highest) if row.pue_basis == "design" else value + PUE_SPREAD
    low, high = round(max(1.0, value - PUE_SPREAD), 3), round(high, 3)
    return Quantity(value, low, high, "1", "catalog", source).as_input(f"pue:{row.id}")


def close_regions(name: str, regions: Mapping[str, Region]) -> list[str]:
    """Return ids of regions with a similar name, best first, of the provider in it or else of all.

    Names and ids are compared, also without the letter of an availability zone ("us-east1-a"); then
    places ("Frankfurt").
    """
    asked = name.strip().lower()
    provider, _, own = asked.rpartition(":")
    searched = [r for r in regions.values() if r.provider == provider] or list(regions.values())
    ids = {key: region.id for region in searched for key in (region.name, region.id)}
    whole = ZONE_LETTER.sub("", own)
    found = [r.id for r in searched if not own or r.name in (own, whole)]
    found += [r.id for r in searched if len(own) > 3 and own in (r.place or "").lower()]
    found += [*similar_ids(asked, ids), *similar_ids(own, ids)]
    return list(dict.fromkeys(found))[:HINTS]
