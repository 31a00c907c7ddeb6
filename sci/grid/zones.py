"""Annual grid intensity of countries and zones: packaged values, which need no network.

The range of an annual value depends on the zone and on the hours that it stands for: the mean of
one hour lies further from it than that of a month, and a night may always lie above it (`spreads`).
The value itself is the published one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from statistics import quantiles
from typing import Annotated, Any, Literal, Protocol

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from gramwatt.sci.figures.csv_data import Cell, Row, Source, Year, between, column, rows
from gramwatt.sci.figures.days import DAY
from gramwatt.sci.figures.errors import LookupFailed
from gramwatt.sci.figures.quantity import Effect, Quantity, of_effects
from gramwatt.sci.figures.units import S_PER_HOUR
from gramwatt.sci.grid.intensity import Basis, IntensityPoint, Quality, Signal
from gramwatt.sci.grid.spreads import (
    LONG_HOURS,
    OTHER,
    spread_around,
    spread_over,
    traced_zones,
    usual_over,
)

UNIT = "gCO2e/kWh"
RESERVED_CODES = {"UK": "GB", "EL": "GR"}
"""Codes in wide use that ISO 3166 only reserves: not accepted, but the right code is suggested."""
STATES = {"GEORGIA": "US-SE-SOCO"}
"""US states with the name of a country, and the zone that has most of their grid."""
Scope = Literal["consumption", "production"]
Supply = Literal["grid", "off-grid"]
"""The supply of a zone: a public grid, or the user's own without a connection to one."""
USUAL_HOURS = 24.0
"""The length of time where none is known."""
SAME_HOURS = 3
"""In a zone without a trace, jobs in the same so many hours of the day share their own part: a grid
repeats itself daily."""
HOURS_OF, USUAL = "@", "usual"
"""In ids of inputs: what stands between the id of an annual value and the hours that differ from
it; and the known part of that difference, by the usual shape of the hours (`usual_over`)."""
HOURLY_SPREAD = 0.1
"""Relative range of an hour's value as published; stated, not fitted, because no two publishers'
lifecycle values of the same hours were at hand. Of 23 years of zones, later editions of the same
publisher moved 8 in 10 by at most 4 %, all by at most 12 % (`python -m benchmarks.calibration`).
Publishers differ by more: annual values of 7 countries by 0 to 23 %, 3 of them by at most 10 %."""
DERIVED_SPREAD = 0.3
"""Relative range of an hour that is derived from generation by fuel: the factor of gas alone spans
410 to 650 of 490 gCO2e/kWh (IPCC AR5, Annex III), and imports are left out."""
EXPECTED_SPREADS = {"forecast": 0.22, "profile": 0.27}
"""Relative range of an hour that was expected: eight in ten hours up to 96 h ahead came within 0.20
of a forecast and 0.25 of the usual value for the hour (means over the zones' hourly traces of
`python -m benchmarks.planning`), together with the range of an hour as published."""


Name = Annotated[Cell, column("English name")]
Country = Annotated[Cell, column("ISO 3166-1 alpha-3", "countries.csv:alpha3")]
ZoneKey = Annotated[Cell, column("Electricity Maps zone key")]
FigureYear = Annotated[Year, column("Year of the figure")]
Grams = Annotated[float, between(5, 1500, "gCO2e/kWh"), column("Intensity")]


class CountryRow(Row, frozen=True, kw_only=True):
    """Annual mean intensity of electricity generated in a country, lifecycle."""

    files = ("countries.csv",)
    key = ("alpha3",)

    alpha3: Annotated[Cell, column("ISO 3166-1 alpha-3")]
    alpha2: Annotated[Cell, column("ISO 3166-1 alpha-2")]
    name: Annotated[Cell, column("English short name")]
    year: FigureYear
    g_per_kwh: Grams
    source: Source


class WorldRow(Row, frozen=True, kw_only=True):
    """The world mean, used for a zone that is not known."""

    files = ("world.csv",)
    key = ("name",)

    name: Name
    year: FigureYear
    g_per_kwh: Grams
    source: Source


class ZoneRow(Row, frozen=True, kw_only=True):
    """Annual mean intensity of electricity used in a zone, lifecycle.

    ODbL 1.0: see LICENSE.md beside it.
    """

    files = ("odbl/zones.csv",)
    key = ("zone", "year")

    zone: ZoneKey
    name: Name
    country: Country
    year: FigureYear
    g_per_kwh: Grams
    source: Source


class ZoneKeyRow(Row, frozen=True, kw_only=True):
    """Zone keys that exist.

    So one without a value can fall back on its country, and a misspelt one is refused.
    """

    files = ("zone_keys.csv",)
    key = ("zone",)

    zone: ZoneKey
    country: Country
    source: Source


class ZoneIntensity(Struct, frozen=True, kw_only=True):
    """Annual mean intensity of a grid zone or country [gCO2e/kWh].

    `scope` is "consumption" where imports are traced, "production" where only generation counts.
    `country_fallback` is true for a zone without its own value, which has its country's. The range
    of `intensity` is that of a day; `spread_of` is the zone whose spread it has, or `OTHER`;
    None where the range is declared or the world's.
    """

    zone: str
    name: str
    country: str | None
    intensity: Quantity
    year: int
    basis: Basis = "lifecycle"
    signal: Signal = "average"
    scope: Scope
    supply: Supply = "grid"
    source: str
    licence: str
    country_fallback: bool = False
    spread_of: str | None = None

    def over(self, hours: float, start: datetime | None = None) -> Quantity:
        """Return the mean over so many hours [gCO2e/kWh], with the range of these hours.

        Means share the error of the annual value for a month or more, and have one of their own
        below that, shared by those of the same hours of the day. Without `start` the range is that
        of any hours; with it, where the hours of the zone are known, that of the hours from then.
        """
        figure, key = self.intensity, self.spread_of
        if key is None:
            return figure.as_input(self.input_id)
        usual = usual_over(key, hours, start) if start else None
        if usual is None or start is None:
            ends, shared = spread_over(key, hours), spread_over(key, LONG_HOURS)
        else:
            ends = spread_around(key, hours, start)
            shared = spread_around(key, LONG_HOURS, start)
        if hours >= LONG_HOURS:
            shared = ends
        shared = max(shared[0], ends[0]), min(shared[1], ends[1])
        annual = self.input_id
        effects: dict[str, Effect] = {annual: (math.log(shared[0]), math.log(shared[1]))}
        if hours < LONG_HOURS:
            own = _when(hours, start, usual=usual is not None)
            low, high = (_beyond(end, long) for end, long in zip(ends, shared, strict=True))
            effects[f"{annual}{HOURS_OF}{own}"] = low, high
        if usual is not None:
            effects[f"{annual}{HOURS_OF}{USUAL}"] = math.log(usual), math.log(usual)
        return of_effects(figure.value, effects, UNIT, figure.kind, *figure.sources)

    @property
    def input_id(self) -> str:
        """Return the id of the annual value as an input of figures."""
        return f"grid:{self.zone}:{self.year}"

    def to_doc(self) -> dict[str, Any]:
        """Return this zone as JSON-ready data."""
        doc: dict[str, Any] = to_builtins(self)
        del doc["intensity"]
        return doc | {"intensity_g_per_kwh": self.intensity.bare()}


class Zones:
    """Zones and countries by key; a zone of the same code as a country replaces it."""

    def __init__(self, overlay: Mapping[str, ZoneIntensity] | None = None) -> None:
        """Read the newest value of each; zones of the overlay replace packaged ones."""
        countries = [_country(row) for row in rows(CountryRow)]
        self._countries = {country.zone: country for country in countries}
        self._alpha2 = {country.country: country.zone for country in countries}
        zones = sorted(map(_zone, rows(ZoneRow)), key=lambda zone: zone.year)
        self._zones = {zone.zone: zone for zone in zones}
        for key, own in (overlay or {}).items():
            code = self._alpha2.get(key, key)
            self._zones[code] = replace(own, zone=code)
        self._without = {row.zone: row.country for row in rows(ZoneKeyRow)}
        self.world = _world(rows(WorldRow)[0], countries)

    def zone(self, key: str) -> ZoneIntensity:
        """Return newest annual intensity [gCO2e/kWh] by ISO 3166 code or zone key, in any case.

        A zone's own row wins over its country's. Raises LookupFailed for an unknown key.
        """
        code = key.strip().upper()
        code = self._alpha2.get(code, code)
        if code in self._zones:
            return self._zones[code]
        if code in self._countries:
            return self._countries[code]
        if code in self._without:
            return _standing_in(self._countries[self._alpha2[self._without[code]]], code)
        raise LookupFailed("zone", key, self._close(key))

    def newest(self) -> Sequence[ZoneIntensity]:
        """Return the newest value of every key, once each."""
        return tuple(self.zone(key) for key in sorted({*self._countries, *self._zones}))

    def _close(self, key: str) -> list[str]:
        from difflib import get_close_matches  # a known key, the usual case, does not need it

        asked = key.strip().upper()
        newest = self.newest()
        near = {found.zone: found.zone for found in newest}
        near |= {code: code for code in self._without}
        near |= {found.name.upper(): found.zone for found in newest}
        near |= RESERVED_CODES
        country = asked.split("-")[0]
        found = [
            *(near[name] for name in near if name == asked or (len(asked) > 3 and asked in name)),
            *(STATES[name] for name in (asked,) if name in STATES),
            *(near[name] for name in get_close_matches(asked, near, n=4)),
            *(near[name] for name in (country,) if name in near),
        ]
        found += _one_letter_off(asked, self._countries) if not found else []
        return list(dict.fromkeys(found))[:5]


class AnnualValues(Protocol):
    """Anything with annual intensity by zone, such as the catalog."""

    def zone(self, key: str) -> ZoneIntensity:
        """Return newest annual intensity of a zone; raises LookupFailed for an unknown key."""
        ...

    def world(self) -> ZoneIntensity:
        """Return the world mean."""
        ...


class AnnualIntensity:
    """The intensity lookup that needs no network: annual means as one point each."""

    def __init__(self, values: AnnualValues) -> None:
        self._values = values

    def points(self, zone: str | None, start: datetime, end: datetime) -> Sequence[IntensityPoint]:
        """Return one point [gCO2e/kWh] over [start, end): of the zone, or of the world for None.

        Raises LookupFailed for an unknown zone.
        """
        row = self._values.zone(zone) if zone else self._values.world()
        quality: Quality = "annual" if zone else "world"
        mean = row.over((end - start).total_seconds() / S_PER_HOUR, start)
        about = quality, row.signal, row.basis, row.source
        return (IntensityPoint(row.zone, start, end, mean, *about),)


def _when(hours: float, start: datetime | None, *, usual: bool) -> str:
    """Return the hours whose own part of the range of an annual value a span has, for an id.

    Where it is known what is usual for hours, the rest is weather, which jobs of one day share.
    Elsewhere jobs that run each night are all off by what nights are off by: so spans below a day
    share it with those of the same hours of other days.
    """
    if start is None:
        return f"{hours:g}h"
    length = timedelta(hours=hours)
    if length >= DAY:
        return f"{start:%Y-%m-%dT%H:%M:%S}/{hours:g}h"
    middle = (start + length / 2).astimezone(UTC)
    if usual:
        return f"{middle:%Y-%m-%d}"
    first = middle.hour // SAME_HOURS * SAME_HOURS
    return f"{first:02d}-{first + SAME_HOURS:02d}"


def _country(row: CountryRow) -> ZoneIntensity:
    """Return a country's line of countries.csv."""
    source = f"Ember {row.alpha3} {row.year}, annual mean, lifecycle, production-based"
    figure, spread_of = _annual(row.g_per_kwh, row.alpha2, source)
    return _by_generation(row, row.alpha2, row.alpha3, figure, spread_of)


def _world(row: WorldRow, countries: Sequence[ZoneIntensity]) -> ZoneIntensity:
    """Return the world mean for a zone that is not known; its range is that of the countries."""
    figures = [country.intensity.value for country in countries]
    low, *_, high = quantiles(figures, n=10, method="inclusive")
    source = (
        f"Ember world {row.year}, annual mean, lifecycle, production-based, stand-in for "
        f"an unknown zone, range: 10th to 90th percentile of {len(figures)} countries"
    )
    figure = Quantity(row.g_per_kwh, low, high, UNIT, "catalog", source)
    return _by_generation(row, "WORLD", None, figure)


def _by_generation(
    row: CountryRow | WorldRow,
    zone: str,
    country: str | None,
    figure: Quantity,
    spread_of: str | None = None,
) -> ZoneIntensity:
    """Return a value of Ember: lifecycle emissions of the generation in a country."""
    return ZoneIntensity(
        zone=zone,
        name=row.name,
        country=country,
        intensity=figure,
        year=row.year,
        scope="production",
        source=row.source,
        licence="CC BY 4.0",
        spread_of=spread_of,
    )


def _annual(value: float, key: str, source: str) -> tuple[Quantity, str]:
    """Return an annual value with the range of a day of its zone, and whose spread that is."""
    spread_of = key if key in traced_zones() else OTHER
    exact = Quantity.exact(value, UNIT, "catalog", source)
    return exact.ranged(*spread_over(spread_of, USUAL_HOURS)), spread_of


def _beyond(end: float, long: float) -> float:
    """Return what an end of a range adds to that of a longer time, as an independent effect."""
    width = math.sqrt(max(math.log(end) ** 2 - math.log(long) ** 2, 0.0))
    return math.copysign(width, math.log(end))


def _zone(row: ZoneRow) -> ZoneIntensity:
    """Return a zone's line of odbl/zones.csv: Electricity Maps, lifecycle, imports traced."""
    kind = "annual mean, lifecycle, consumption-based (ODbL)"
    source = f"Electricity Maps {row.zone} {row.year}, {kind}"
    figure, spread_of = _annual(row.g_per_kwh, row.zone, source)
    return ZoneIntensity(
        zone=row.zone,
        name=row.name,
        country=row.country,
        intensity=figure,
        year=row.year,
        scope="consumption",
        source=row.source,
        licence="ODbL-1.0",
        spread_of=spread_of,
    )


def _one_letter_off(code: str, known: Iterable[str]) -> list[str]:
    """Return codes of two letters that differ in one, those with the same first letter first."""
    if len(code) != 2:
        return []
    first = [name for name in known if name[0] == code[0]]
    return [*first, *(name for name in known if name[1] == code[1])]


def _standing_in(country: ZoneIntensity, zone: str) -> ZoneIntensity:
    source, *own = country.intensity.sources
    intensity = country.intensity.sourced(f"{source}, the country's value for zone {zone}", *own)
    return replace(country, zone=zone, intensity=intensity, country_fallback=True)


def at_equal_grid(before: Quantity, after: Quantity) -> tuple[Quantity, Quantity]:
    """Return two figures to compare, as if hours that have one annual value had one intensity.

    Annual values say nothing about the hours of either; what differs between the figures then is
    what the jobs did.
    """
    grids = [{annual_of(id_) for id_ in figure.inputs} for figure in (before, after)]
    shared = set.intersection(*grids)
    hours = {
        id_
        for figure in (before, after)
        for id_ in figure.inputs
        if annual_of(id_) != id_ and annual_of(id_) in shared
    }
    return before.without(hours), after.without(hours)


def annual_of(input_id: str) -> str:
    """Return the id of the annual value whose hours an input is, else its own id."""
    return input_id.partition(HOURS_OF)[0]
