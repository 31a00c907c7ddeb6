"""Annual grid intensity of countries and zones: packaged values, which need no network.

The range of an annual value depends on the zone and on the hours that it stands for: the mean of
one hour lies further from it than that of a month, and a night may always lie above it (`spreads`).
The value itself is the published one. A country that two
publishers have a value of has a range that reaches to the other's of the same year.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from statistics import quantiles
from typing import Annotated, Any, Literal, Protocol

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from gramwatt.sci.figures.csv_data import Cell, Row, Source, Year, between, column, rows
from gramwatt.sci.figures.days import DAY
from gramwatt.sci.figures.document import Quality
from gramwatt.sci.figures.errors import AmbiguousName, LookupFailed
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.figures.quantity import Effect, Quantity, of_effects
from gramwatt.sci.figures.units import S_PER_HOUR
from gramwatt.sci.grid.intensity import Basis, IntensityPoint, Signal
from gramwatt.sci.grid.places import PlaceNames, PlaceRow, bare_place, plain, short_key
from gramwatt.sci.grid.spreads import (
    LONG_HOURS,
    OTHER,
    Ends,
    spread_around,
    spread_over,
    traced_zones,
    usual_over,
)

UNIT = "gCO2e/kWh"
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
Publishers differ by more (`ONE_PUBLISHER`)."""
ONE_PUBLISHER = (0.74, 1.35)
"""Range of a country's annual value that one publisher alone has, as multiples. Of 196 countries,
Ember's and Electricity Maps' values of one year differ by 12 % in the median, by at most 35 % in
eight of ten: one counts what is generated, the other what is used, and both model small grids."""
DERIVED_SPREAD = 0.3
"""Relative range of an hour that is derived from generation by fuel: the factor of gas alone spans
410 to 650 of 490 gCO2e/kWh (IPCC AR5, Annex III), and imports are left out."""
EXPECTED_SPREADS = {"forecast": 0.22, "profile": 0.27}
"""Relative range of an hour that was expected: eight in ten hours up to 96 h ahead came within 0.20
of a forecast and 0.25 of the usual value for the hour (means over the zones' hourly traces of
`python -m benchmarks.planning`), together with the range of an hour as published."""


SPELLINGS = (
    (re.compile(r"(SE|NO|DK)[-_ ]?(\d)"), r"\1-\1\2"),
    (re.compile(r"(?:US[-_])?(CAISO|PJM|MISO|ERCOT|NYISO|NEISO|ISONE|SPP|BPA)(?:_\w+)?"), r"\1"),
    (re.compile(r"([A-Z]{2,3})_(\w+)"), r"\1-\2"),
)
"""How other tools write keys of zones: SE_3, AU_NSW, and WattTime's CAISO_NORTH."""
_PART_OF = re.compile(r"([A-Z]{3})-([A-Z0-9]{1,3})")
"""A part of a country with the country's longer code: CAN-QC."""

Name = Annotated[Cell, column("English name")]
Country = Annotated[Cell, column("ISO 3166-1 alpha-3", "countries.csv:alpha3")]
ZoneKey = Annotated[Cell, column("Electricity Maps zone key")]
FigureYear = Annotated[Year, column("Year of the figure")]
Grams = Annotated[float, between(5, 1500, "gCO2e/kWh"), column("Intensity")]


class CountryRow(Row, frozen=True, kw_only=True):
    """Every country, with the annual mean intensity of electricity generated in it, lifecycle."""

    files = ("countries.csv",)
    key = ("alpha3",)

    alpha3: Annotated[Cell, column("ISO 3166-1 alpha-3")]
    alpha2: Annotated[Cell, column("ISO 3166-1 alpha-2")]
    name: Annotated[Cell, column("English short name")]
    year: FigureYear | None = None
    g_per_kwh: Grams | None = None
    source: Source | None = None


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
    `country_fallback` is true for a zone without its own value, which has its country's, and
    `world_fallback` for a country without one, which has the world's. The range of `intensity` is
    that of a day; `spread_of` is the zone whose spread it has, or `OTHER`; None where the range is
    declared or the world's. `publishers` are the ends between which those of a country's value
    differ, as multiples of it.
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
    world_fallback: bool = False
    spread_of: str | None = None
    publishers: tuple[float, float] = (1.0, 1.0)

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
        whole = _both(shared, self.publishers)
        effects: dict[str, Effect] = {annual: (math.log(whole[0]), math.log(whole[1]))}
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
        """Read the newest row of each; zones of the overlay replace packaged ones.

        A row becomes a value when it is asked for: a command needs few of them.
        """
        listed = rows(CountryRow)
        self._names = {row.alpha2: row.name for row in listed}
        self._alpha2 = {row.alpha3: row.alpha2 for row in listed}
        self._countries = {row.alpha2: row for row in listed if row.g_per_kwh}
        published = sorted(rows(ZoneRow), key=lambda row: row.year)
        self._of_year = {(row.zone, row.year): row.g_per_kwh for row in published}
        self._zones: dict[str, ZoneRow | ZoneIntensity] = {row.zone: row for row in published}
        for key, own in (overlay or {}).items():
            code = self._alpha2.get(key, key)
            self._zones[code] = replace(own, zone=code)
        self._without = {row.zone: row.country for row in rows(ZoneKeyRow)}

    @cached_property
    def world(self) -> ZoneIntensity:
        """Return the world mean."""
        return _world(rows(WorldRow)[0], [row.g_per_kwh or 0.0 for row in self._countries.values()])

    def zone(self, key: str) -> ZoneIntensity:
        """Return newest annual intensity [gCO2e/kWh] by ISO 3166 code, zone key or name.

        Codes and keys in any case, and names of countries, states, cities and grids. A zone's own
        row wins over its country's; a country that no publisher has a value of has the world's.
        Raises AmbiguousName for a name of several zones, LookupFailed for an unknown one.
        """
        code = key.strip().upper()
        row = self._of_code(code) or self._spelled(code)
        if row is not None:
            return row
        code, bracket, name = key.strip().partition(" (")
        if bracket and name.endswith(")") and (row := self._of_code(code.upper())):
            return row  # "CA-ON (Ontario)"
        if bracket and len(self._places.zones(code)) == 1 and not self._places.zones(key):
            key = code  # "Finland (Puhti)"
        meant = self._places.zones(key)
        row = self._of_code(meant[0]) if len(meant) == 1 else None
        if row is not None:
            return row
        if meant:
            raise AmbiguousName("zone", key, tuple(meant))
        if (bare := bare_place(key)) != key:
            return self.zone(bare)
        raise LookupFailed("zone", key, self._close(key))

    def within(self, country: str, name: str) -> Sequence[ZoneIntensity]:
        """Return the zones of a country that a name may mean: several, one or none.

        Names are those of `zone`, and the last part of a zone's key: SE3 in SE, QC in CA. Raises
        LookupFailed for an unknown country.
        """
        outer = self.zone(country).zone
        own = self._of_code(f"{outer}-{name.strip().upper()}") if name.strip() else None
        codes = [own] if own else map(self._of_code, self._places.within(name, (outer,)))
        return [row for row in codes if row is not None]

    def parts(self, country: str) -> Sequence[str]:
        """Return the keys of the zones within a country that have a value of their own."""
        return [key for key in self._zones if key.startswith(f"{country}-")]

    def newest(self) -> Sequence[ZoneIntensity]:
        """Return the newest value of every key, once each."""
        return tuple(self.zone(key) for key in sorted({*self._countries, *self._zones}))

    def _spelled(self, key: str) -> ZoneIntensity | None:
        """Return the zone of a key as other tools write it; None for any other."""
        code = key
        for pattern, ours in SPELLINGS:
            if pattern.fullmatch(code):
                code = pattern.sub(ours, code)
        part = _PART_OF.fullmatch(code)
        if part:
            code = f"{self._alpha2[part[1]]}-{part[2]}" if part[1] in self._alpha2 else code
        if code == key:
            return None
        meant = self._places.zones(code)
        return self._of_code(code) or (self._of_code(meant[0]) if len(meant) == 1 else None)

    def _of_code(self, code: str) -> ZoneIntensity | None:
        code = self._alpha2.get(code, code)
        row, country = self._zones.get(code), self._countries.get(code)
        if isinstance(row, ZoneRow):
            row = self._zones[code] = _zone(row, country, self._of_year)
        if row is not None:
            return row
        if country is not None:
            return _country(country)
        if code in self._without:
            outer = self._of_code(self._alpha2[self._without[code]])
            return outer and _standing_in(outer, code)
        if code in self._names:
            alpha3 = next(alpha3 for alpha3, alpha2 in self._alpha2.items() if alpha2 == code)
            return _without_value(self.world, code, alpha3, self._names[code])
        return None

    @cached_property
    def _places(self) -> PlaceNames:
        """Return the index of names, which a code or a key, the usual case, does not need."""
        named = [(row.name, key) for key, row in self._zones.items()]
        named += [(name, code) for code, name in self._names.items()]
        keys = {*self._zones, *self._without}
        named += [(short, key) for key in keys if (short := short_key(key))]
        return PlaceNames(named, rows(PlaceRow))

    def _close(self, key: str) -> list[str]:
        from difflib import get_close_matches  # a known key, the usual case, does not need it

        code, name = key.strip().upper(), plain(key)
        names = self._places.close()
        near = {zone: zone for zone in (*self._names, *self._zones, *self._without)}
        country = code.split("-")[0]
        close = [
            *(near[text] for text in near if len(code) > 3 and code in text),
            *(names[text] for text in names if len(name) > 3 and name in text),
            *(near[text] for text in get_close_matches(code, near, n=4)),
            *(names[text] for text in get_close_matches(name, names, n=4)),
            *(near[text] for text in (country,) if text in near),
        ]
        close += _one_letter_off(code, self._countries) if not close else []
        return list(dict.fromkeys(close))[:5]


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

        It is the world's too for a country that no publisher has a value of.

        Raises LookupFailed for an unknown zone.
        """
        row = self._values.zone(zone) if zone else self._values.world()
        is_annual = zone is not None and not row.world_fallback
        quality: Quality = "annual" if is_annual else "world"
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
    assert row.g_per_kwh, row
    source = f"Ember {row.alpha3} {row.year}, annual mean, lifecycle, production-based"
    figure, spread_of = _annual(row.g_per_kwh, row.alpha2, source, ONE_PUBLISHER)
    country = _by_generation(row, row.alpha2, row.alpha3, figure, spread_of)
    return replace(country, publishers=ONE_PUBLISHER)


def _world(row: WorldRow, figures: Sequence[float]) -> ZoneIntensity:
    """Return the world mean for a zone that is not known; its range is that of the countries."""
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
        year=row.year or 0,
        scope="production",
        source=row.source or "",
        licence="CC BY 4.0",
        spread_of=spread_of,
    )


def _annual(value: float, key: str, source: str, publishers: Ends) -> tuple[Quantity, str]:
    """Return an annual value with the range of a day of its zone, and whose spread that is."""
    spread_of = key if key in traced_zones() else OTHER
    exact = Quantity.exact(value, UNIT, "catalog", source)
    return exact.ranged(*_both(spread_over(spread_of, USUAL_HOURS), publishers)), spread_of


def _both(ends: Ends, others: Ends) -> Ends:
    """Return the range of two independent reasons for one, all as multiples: root of squares."""
    low, high = (math.hypot(math.log(a), math.log(b)) for a, b in zip(ends, others, strict=True))
    return math.exp(-low), math.exp(high)


def _beyond(end: float, long: float) -> float:
    """Return what an end of a range adds to that of a longer time, as an independent effect."""
    width = math.sqrt(max(math.log(end) ** 2 - math.log(long) ** 2, 0.0))
    return math.copysign(width, math.log(end))


def _zone(
    row: ZoneRow, other: CountryRow | None, of_year: Mapping[tuple[str, int], float]
) -> ZoneIntensity:
    """Return a zone's line of odbl/zones.csv: Electricity Maps, lifecycle, imports traced.

    `other` is the country's value of Ember, which its range reaches to: by as much as the two
    differ in one year.
    """
    kind = "annual mean, lifecycle, consumption-based (ODbL)"
    source = f"Electricity Maps {row.zone} {row.year}, {kind}"
    publishers = (1.0, 1.0) if "-" in row.zone else ONE_PUBLISHER
    if other and other.g_per_kwh and other.year:
        same = of_year.get((row.zone, other.year), row.g_per_kwh)
        ratio = other.g_per_kwh / same
        publishers = min(ratio, 1.0), max(ratio, 1.0)
        source += f"; Ember has {other.g_per_kwh:g} of {other.year}, where this series has {same:g}"
    figure, spread_of = _annual(row.g_per_kwh, row.zone, source, publishers)
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
        publishers=publishers,
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


def _without_value(world: ZoneIntensity, code: str, alpha3: str, name: str) -> ZoneIntensity:
    """Return a country that no publisher has a value of, with the world's in place of it."""
    source, *own = world.intensity.sources
    figure = world.intensity.sourced(f"{source}, for {name}", *own)
    return replace(
        world, zone=code, name=name, country=alpha3, intensity=figure, world_fallback=True
    )


def zone_taken(name: str, row: ZoneIntensity) -> list[Notice]:
    """Return a notice of the zone that a place was taken as, if it was not named by its code."""
    if name.strip().upper() in (row.zone, row.country):
        return []
    text = f"{name.strip()} is taken as the grid zone {row.zone} ({row.name})."
    return [Notice("place-taken", text, "zone")]


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
