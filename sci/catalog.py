"""The catalog: hardware, CPUs, cloud regions and annual grid intensity, by name.

Names match exactly or not at all (`gramwatt.sci.names`). Everything here is immutable; the data are
the CSV files packaged beside this module, read once per process on first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from gramwatt.sci.board import modelled_te, published_te
from gramwatt.sci.embodied import cpu_die_te
from gramwatt.sci.errors import LookupFailed
from gramwatt.sci.hardware import Cpu, Embodied, Hardware, parse_cpu, parse_hardware
from gramwatt.sci.names import CLOSE_MATCHES, NameIndex, cpu_name
from gramwatt.sci.tables import Row, rows
from gramwatt.sci.zones import (
    Region,
    ZoneIntensity,
    country_intensity,
    parse_region,
    world_intensity,
    zone_intensity,
)

__all__ = ["Catalog", "Cpu", "Hardware", "Region", "Source", "ZoneIntensity", "load_catalog"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where figures come from; `evidence` says how far the document itself was read."""

    key: str
    title: str
    url: str | None
    licence: str | None
    year: int | None
    evidence: str


class Catalog:
    """Every row by every name it goes by. Build it with `load_catalog`."""

    def __init__(self) -> None:
        """Read the packaged data; `version` is the date of their last change, YYYY.MM.DD."""
        self.version = rows("version.csv")[0].text("version")
        self._hardware = {part.id: part for part in _parts()}
        self._cpus = {cpu.id: cpu for cpu in _cpus()}
        self._regions = {region.id: region for region in _regions()}
        parts, cpus = self._hardware.values(), self._cpus.values()
        self._hardware_names = NameIndex("hardware", _named(parts), _architectures(parts))
        self._cpu_names = NameIndex("cpu", _named(cpus), _architectures(cpus), cpu_name)
        self._grid = _Grid()
        self.sources: Mapping[str, Source] = {source.key: source for source in _sources()}

    def hardware(self, name: str) -> Hardware:
        """An accelerator by id, name or alias; raises AmbiguousName or LookupFailed."""
        return self._hardware[self._hardware_names.find(name)]

    def cpu(self, name: str) -> Cpu:
        """A CPU by id, name or alias; raises AmbiguousName or LookupFailed."""
        return self._cpus[self._cpu_names.find(name)]

    def region(self, name: str) -> Region:
        """A cloud region by "provider:region", in any case; raises LookupFailed."""
        found = self._regions.get(name.strip().lower())
        if found is None:
            raise LookupFailed("region", name, _close_regions(name, self._regions))
        return found

    def zone(self, key: str, year: int | None = None) -> ZoneIntensity:
        """Annual intensity of a zone: ISO 3166 alpha-2 or alpha-3, or an Electricity Maps key.

        A zone's own row wins over its country's. With `year`, that year's value where it is known;
        else the newest. Raises LookupFailed for a key that is none of these.
        """
        return self._grid.zone(key, year)

    def world(self) -> ZoneIntensity:
        """The world mean [gCO2e/kWh], the stand-in for a zone that is not known."""
        return self._grid.world

    def all_hardware(self) -> Sequence[Hardware]:
        """Every accelerator, in the order of the data file."""
        return tuple(self._hardware.values())

    def all_cpus(self) -> Sequence[Cpu]:
        """Every CPU, in the order of the data file."""
        return tuple(self._cpus.values())

    def all_regions(self) -> Sequence[Region]:
        """Every cloud region, in the order of the data file."""
        return tuple(self._regions.values())

    def all_zones(self) -> Sequence[ZoneIntensity]:
        """The newest value of every country and zone, by key."""
        return self._grid.newest()


@cache
def load_catalog() -> Catalog:
    """The packaged catalog, built once per process."""
    return Catalog()


RESERVED_CODES = {"UK": "GB", "EL": "GR"}
"""Codes in wide use that ISO 3166 only reserves; they are suggested, not accepted."""


class _Grid:
    """Zones and countries by key. A country's key means its zone where that has its own row."""

    def __init__(self) -> None:
        countries = [country_intensity(row) for row in rows("countries.csv")]
        self._countries = {country.zone: country for country in countries}
        self._alpha2 = {country.country: country.zone for country in countries}
        self._years: dict[str, dict[int, ZoneIntensity]] = {}
        for row in rows("odbl/zones.csv"):
            found = zone_intensity(row)
            self._years.setdefault(found.zone, {})[found.year] = found
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
        near = {found.zone: found.zone for found in self.newest()}
        near |= {code: code for code in self._without}
        near |= {found.name.upper(): found.zone for found in self.newest()}
        near |= RESERVED_CODES
        close = _close(key.strip().upper(), near)
        country = key.strip().upper().split("-")[0]
        return list(dict.fromkeys((*close, country) if country in self._countries else close))


def _standing_in(country: ZoneIntensity, zone: str) -> ZoneIntensity:
    from dataclasses import replace

    source = f"{country.intensity.source}, the country's value for zone {zone}"
    intensity = country.intensity.sourced(source)
    return replace(country, zone=zone, intensity=intensity, country_fallback=True)


def _parts() -> Iterable[Hardware]:
    names = _aliases("hardware")
    chosen = {
        study.text("hardware"): study
        for study in rows("embodied_studies.csv")
        if study.text("role") == "chosen"
    }
    given = {row.text("id"): row for row in rows("embodied_inputs.csv")}
    for row in rows("hardware.csv"):
        key = row.text("id")
        yield parse_hardware(row, names.get(key, ()), _te(row, chosen.get(key), given.get(key)))


def _te(row: Row, study: Row | None, given: Row | None) -> Embodied | None:
    return published_te(study) if study else modelled_te(row, given)


def _cpus() -> Iterable[Cpu]:
    names = _aliases("cpu")
    for row in rows("cpus.csv"):
        yield parse_cpu(row, names.get(row.text("id"), ()), cpu_die_te(row.number("die_area_mm2")))


def _regions() -> Iterable[Region]:
    highest: dict[str, float] = {}
    for row in rows("regions.csv"):
        if row.text("pue_basis") == "annual":
            provider = row.text("provider")
            highest[provider] = max(row.known("pue"), highest.get(provider, 1.0))
    return (parse_region(row, highest) for row in rows("regions.csv"))


def _sources() -> Iterable[Source]:
    for row in rows("sources.csv"):
        yield Source(
            row.text("key"),
            row.text("title"),
            row.optional("url"),
            row.optional("licence"),
            row.integer("year"),
            row.text("evidence"),
        )


def _aliases(what: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for row in rows("aliases.csv"):
        if row.text("what") == what:
            found[row.text("id")] = (*found.get(row.text("id"), ()), row.text("alias"))
    return found


def _named(parts: Iterable[Hardware | Cpu]) -> Iterable[tuple[str, str]]:
    return ((name, part.id) for part in parts for name in (part.id, part.name, *part.aliases))


def _architectures(parts: Iterable[Hardware | Cpu]) -> Iterable[tuple[str, str]]:
    return ((part.architecture, part.id) for part in parts)


def _close_regions(name: str, regions: Mapping[str, Region]) -> list[str]:
    near = {region.name: region.id for region in regions.values()} | {key: key for key in regions}
    return _close(name.strip().lower(), near)


def _close(name: str, near: Mapping[str, str]) -> list[str]:
    from difflib import get_close_matches

    found = get_close_matches(name, near, n=2 * CLOSE_MATCHES)
    return list(dict.fromkeys(near[key] for key in found))[:CLOSE_MATCHES]
