"""Cloud regions: the grid zone of each, and the PUE published or declared for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gramwatt.sci.base.csv_data import Row, read_as
from gramwatt.sci.base.document import to_json
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.catalog.names import HINTS, similar_ids

PUE_SPREAD = 0.05
"""82 of the 87 changes from one published PUE to the next in regions.csv are at most this."""
ZONE_LETTER = re.compile(r"-?[a-f]$")
"""Suffix of an availability zone in a region: us-east-1a, us-central1-a."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
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
        return to_json(self)


def parse_region(row: Row, highest: dict[str, float]) -> Region:
    """Parse a line of regions.csv; `highest` has the highest measured annual PUE by provider."""
    provider, name = row.text("provider"), row.text("region")
    keys = (row.text("zone_source"), row.text("pue_source"))
    return read_as(
        Region,
        row,
        id=f"{provider}:{name}",
        name=name,
        pue=_pue(row, highest.get(provider, 1.0)),
        sources=tuple(dict.fromkeys(key for key in keys if key)),
    )


def _pue(row: Row, highest: float) -> Quantity | None:
    """Return PUE -+ 0.05; that of a design value reaches the provider's highest measured."""
    value = row.number("pue")
    if value is None:
        return None
    basis = row.text("pue_basis")
    source = (
        f"{row.text('provider')}:{row.text('region')} PUE {row.text('pue_year')}, {basis} value "
        f"({row.text('pue_source')})"
    )
    high = max(value + PUE_SPREAD, highest) if basis == "design" else value + PUE_SPREAD
    low, high = round(max(1.0, value - PUE_SPREAD), 3), round(high, 3)
    id_ = f"pue:{row.text('provider')}:{row.text('region')}"
    return Quantity(value, low, high, "1", "catalog", source).as_input(id_)


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
