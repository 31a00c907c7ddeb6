"""Annual grid intensity by key: countries, zones, and zones that fall back on their country."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gramwatt.sci.base.csv_data import rows
from gramwatt.sci.base.errors import LookupFailed
from gramwatt.sci.base.name_index import CLOSE_MATCHES, close_names
from gramwatt.sci.grid.zones import (
    ZoneIntensity,
    country_intensity,
    world_intensity,
    zone_intensity,
)

RESERVED_CODES = {"UK": "GB", "EL": "GR"}
"""Codes in wide use that ISO 3166 only reserves; they are suggested, not accepted."""


class Grid:
    """Zones and countries by key. A country's key means its zone where that has its own row."""

    def __init__(self, overlay: Mapping[str, ZoneIntensity] | None = None) -> None:
        """Read the packaged data; zones of the overlay replace every year of theirs."""
        countries = [country_intensity(row) for row in rows("countries.csv")]
        self._countries = {country.zone: country for country in countries}
        self._alpha2 = {country.country: country.zone for country in countries}
        self._years: dict[str, dict[int, ZoneIntensity]] = {}
        for row in rows("odbl/zones.csv"):
            found = zone_intensity(row)
            self._years.setdefault(found.zone, {})[found.year] = found
        for key, own in (overlay or {}).items():
            code = self._alpha2.get(key, key)
            self._years[code] = {own.year: replace(own, zone=code)}
        self._without = {row.text("zone"): row.text("country") for row in rows("zone_keys.csv")}
        self.world = world_intensity(rows("world.csv")[0], countries)

    def zone(self, key: str, year: int | None) -> ZoneIntensity:
        """See `Catalog.zone`."""
        code = key.strip().upper()
        code = self._alpha2.get(code, code)
        if code in self._years:
            years = self._years[code]
            return years.get(year or 0, years[max(years)])
        if code in self._countries:
            return self._countries[code]
        if code in self._without:
            return _standing_in(self._countries[self._alpha2[self._without[code]]], code)
        raise LookupFailed("zone", key, self._close(key))

    def newest(self) -> Sequence[ZoneIntensity]:
        """The newest value of every key, once each."""
        keys = sorted({*self._countries, *self._years})
        return tuple(self.zone(key, None) for key in keys)

    def _close(self, key: str) -> list[str]:
        asked = key.strip().upper()
        newest = self.newest()
        near = {found.zone: found.zone for found in newest}
        near |= {code: code for code in self._without}
        near |= {found.name.upper(): found.zone for found in newest}
        near |= RESERVED_CODES
        country = asked.split("-")[0]
        found = [
            *(near[name] for name in near if name == asked or (len(asked) > 3 and asked in name)),
            *close_names(asked, near)[: CLOSE_MATCHES - 1],
            *(near[name] for name in (country,) if name in near),
        ]
        found += _one_letter_off(asked, self._countries) if not found else []
        return list(dict.fromkeys(found))[:CLOSE_MATCHES]


def _one_letter_off(code: str, known: Iterable[str]) -> list[str]:
    """Codes of two letters that share one with `code` at the same place, the first letter first."""
    if len(code) != 2:
        return []
    first = [name for name in known if name[0] == code[0]]
    return [*first, *(name for name in known if name[1] == code[1])]


def _standing_in(country: ZoneIntensity, zone: str) -> ZoneIntensity:
    source = f"{country.intensity.source}, the country's value for zone {zone}"
    intensity = country.intensity.sourced(source)
    return replace(country, zone=zone, intensity=intensity, country_fallback=True)
