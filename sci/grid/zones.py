"""Annual grid intensity of zones and countries, and cloud regions with their PUE.

The one rule for the range of an annual value. Hourly accounting differs from annual accounting by
up to 30 to 35 % (Miller, Novan and Jenn 2022); the mean error of the annual value for jobs of 24 h
in 12 zones was 1 to 36 % (hourly lifecycle series of 2024). Without better knowledge of the hour
every annual value therefore gets value x (1 -+ 0.35). docs/data-sources.md tells more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from gramwatt.sci.base.csv_data import Row
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.grid.intensity import Basis, Signal

ANNUAL_SPREAD = 0.35
"""Relative half-width of an annual intensity's range; see the module's text."""
PUE_SPREAD = 0.05
"""59 of the 62 year-to-year changes of PUE in regions.csv are at most this."""
UNIT = "gCO2e/kWh"
Scope = Literal["consumption", "production"]
Supply = Literal["grid", "off-grid"]
"""Where a zone's power comes from: a public grid, or a supply of one's own without a connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneIntensity:
    """Annual mean intensity of a grid zone or country [gCO2e/kWh].

    `scope` is "consumption" where imports are traced, "production" where only generation counts.
    `country_fallback`: the zone has no value of its own and its country's stands in.
    """

    zone: str
    name: str
    country: str | None
    intensity: Quantity
    year: int
    basis: Basis
    signal: Signal
    scope: Scope
    source: str
    licence: str
    country_fallback: bool = False
    supply: Supply = "grid"

    def to_doc(self) -> dict[str, Any]:
        """This zone as JSON-ready data."""
        return {
            "zone": self.zone,
            "name": self.name,
            "country": self.country,
            "intensity_g_per_kwh": self.intensity.to_doc(),
            "year": self.year,
            "basis": self.basis,
            "signal": self.signal,
            "scope": self.scope,
            "supply": self.supply,
            "source": self.source,
            "licence": self.licence,
            "country_fallback": self.country_fallback,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A cloud region: `id` is provider:name, `country` ISO 3166 alpha-3, `zone` its grid zone.

    `pue` is the latest published value with its range, None where none is published.
    `zone_other` is the zone that another source assigns to it.
    """

    id: str
    provider: str
    name: str
    place: str | None
    country: str
    zone: str
    zone_other: str | None
    watttime_region: str | None
    pue: Quantity | None
    pue_year: int | None
    pue_basis: str | None
    sources: tuple[str, ...]
    notes: str | None

    def to_doc(self) -> dict[str, Any]:
        """This region as JSON-ready data."""
        return {
            "id": self.id,
            "provider": self.provider,
            "name": self.name,
            "place": self.place,
            "country": self.country,
            "zone": self.zone,
            "zone_other": self.zone_other,
            "watttime_region": self.watttime_region,
            "pue": self.pue.to_doc() if self.pue else None,
            "pue_year": self.pue_year,
            "pue_basis": self.pue_basis,
            "sources": list(self.sources),
            "notes": self.notes,
        }


def country_intensity(row: Row) -> ZoneIntensity:
    """A country's line of countries.csv: Ember, lifecycle, counted where it is generated."""
    value, year = row.known("g_per_kwh"), int(row.known("year"))
    source = f"Ember {row.text('alpha3')} {year}, annual mean, lifecycle, production-based"
    return ZoneIntensity(
        zone=row.text("alpha2"),
        name=row.text("name"),
        country=row.text("alpha3"),
        intensity=Quantity.around(value, ANNUAL_SPREAD, UNIT, "catalog", source),
        year=year,
        basis="lifecycle",
        signal="average",
        scope="production",
        source=row.text("source"),
        licence="CC BY 4.0",
    )


def zone_intensity(row: Row) -> ZoneIntensity:
    """A zone's line of odbl/zones.csv: Electricity Maps, lifecycle, counted where it is used."""
    value, year = row.known("g_per_kwh"), int(row.known("year"))
    zone = row.text("zone")
    source = f"Electricity Maps {zone} {year}, annual mean, lifecycle, consumption-based (ODbL)"
    return ZoneIntensity(
        zone=zone,
        name=row.text("name"),
        country=row.text("country"),
        intensity=Quantity.around(value, ANNUAL_SPREAD, UNIT, "catalog", source),
        year=year,
        basis="lifecycle",
        signal="average",
        scope="consumption",
        source=row.text("source"),
        licence="ODbL-1.0",
    )


def world_intensity(row: Row, countries: list[ZoneIntensity]) -> ZoneIntensity:
    """The world mean for a zone that is not known; its range is the spread of the countries."""
    value, year = row.known("g_per_kwh"), int(row.known("year"))
    figures = sorted(country.intensity.value for country in countries)
    low, high = percentile(figures, 0.1), percentile(figures, 0.9)
    source = (
        f"Ember world {year}, annual mean, lifecycle, production-based, stand-in for an unknown "
        f"zone, range: 10th to 90th percentile of {len(figures)} countries"
    )
    return ZoneIntensity(
        zone="WORLD",
        name=row.text("name"),
        country=None,
        intensity=Quantity(value, low, high, UNIT, "catalog", source),
        year=year,
        basis="lifecycle",
        signal="average",
        scope="production",
        source=row.text("source"),
        licence="CC BY 4.0",
    )


def percentile(ordered: list[float], share: float) -> float:
    """The given share (0 to 1) of ordered figures lies below this, by linear interpolation."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def parse_region(row: Row, highest: dict[str, float]) -> Region:
    """A line of regions.csv; `highest` holds the highest measured annual PUE by provider."""
    provider, name = row.text("provider"), row.text("region")
    keys = (row.text("zone_source"), row.text("pue_source"))
    return Region(
        id=f"{provider}:{name}",
        provider=provider,
        name=name,
        place=row.optional("place"),
        country=row.text("country"),
        zone=row.text("zone"),
        zone_other=row.optional("zone_other"),
        watttime_region=row.optional("watttime_region"),
        pue=_pue(row, highest.get(provider, 1.0)),
        pue_year=row.integer("pue_year"),
        pue_basis=row.optional("pue_basis"),
        sources=tuple(dict.fromkeys(key for key in keys if key)),
        notes=row.optional("notes"),
    )


def _pue(row: Row, highest: float) -> Quantity | None:
    """PUE: published -+ 0.05; a design value reaches up to the provider's highest measured one."""
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
    return Quantity(value, low, high, "1", "catalog", source)
