"""The user's overlay: a TOML text that adds or overrides catalog entries, each with its source.

    [hardware.acme-x1]              parts: columns of hardware.csv, and embodied_kg
    [instances."lab:node-a"]        machines: the columns of instances.csv
    [zones.MY-GRID]                 annual intensity: g_per_kwh, low, high, year, country;
                                    off_grid = true for a supply without a connection to a grid
    [regions."lab:paris"]           places: zone, country, place
    [pue."lab:paris"]               PUE of a region: value, low, high, year
    [lifetimes.acme-x1]             EL: years, low, high; "default" is for every part

Every entry needs `source`, which each figure out of it carries into every report. Fields have the
types and bounds of the columns, or of the classes here. Parsing is pure; reading the file is the
caller's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from gramwatt.sci.catalog.hardware import Hardware
from gramwatt.sci.catalog.instances import Instance
from gramwatt.sci.catalog.names import similar
from gramwatt.sci.catalog.regions import PUE_SPREAD, RegionRow
from gramwatt.sci.figures.checks import Problem, Pue, Years, missing, read, types_of
from gramwatt.sci.figures.csv_data import OVERLAY, Row, Year, check_rising
from gramwatt.sci.figures.errors import GramwattError
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.grid.plausible import wrong_unit
from gramwatt.sci.grid.spreads import OTHER, spread_over
from gramwatt.sci.grid.zones import UNIT, USUAL_HOURS, ZoneIntensity

Values = Mapping[str, Any]
Line = Annotated[
    str,
    Meta(
        title="one line of 1 to 500 characters",
        min_length=1,
        max_length=500,
        pattern=r"^\S([^\n]*\S)?$",
    ),
]
_MARKET = re.compile(
    r"(?i:market-based|guarantees? of origin|energy certificates?|\boffsets?\b|carbon credits?)"
    r"|\b(?:PPA|REC|EAC|GO)s?\b"
)
"""Market-based sources, which are refused: SCI excludes contracts, certificates and offsets."""


Grams = Annotated[
    float, Meta(title="an intensity above 0 and at most 5000 gCO2e/kWh", gt=0, le=5000)
]


class OverlayError(GramwattError, ValueError):
    """An overlay that cannot be used; the message names every entry that is wrong."""

    code = "bad-overlay"


class OwnZone(Struct, frozen=True, kw_only=True):
    """Intensity of a grid of the user's own, or in place of a packaged one."""

    source: Line
    g_per_kwh: Grams
    low: Grams | None = None
    high: Grams | None = None
    year: Year
    off_grid: bool = False
    name: Line | None = None
    country: Line | None = None


class OwnPue(Struct, frozen=True, kw_only=True):
    """PUE of a cloud region or of a place of the user's own."""

    source: Line
    value: Pue
    low: Pue | None = None
    high: Pue | None = None
    year: Year | None = None


class OwnLife(Struct, frozen=True, kw_only=True):
    """EL of a part, or of every part."""

    source: Line
    years: Years
    low: Years | None = None
    high: Years | None = None


OWN_LICENCE = "of the user's own"
"""The licence of an intensity that the overlay declares."""


class DeclaredPue(NamedTuple):
    """PUE declared for a region, with its year where it is given."""

    figure: Quantity
    year: int | None


class Overlay(Struct, frozen=True):
    """A parsed overlay: values of columns by id for rows, other figures by key.

    `cited` has what an entry names as its source, by the source of figures that are made of it.
    """

    digest: str
    cited: Mapping[str, str]
    hardware: Mapping[str, Values]
    instances: Mapping[str, Values]
    regions: Mapping[str, Values]
    zones: Mapping[str, ZoneIntensity]
    pue: Mapping[str, DeclaredPue]
    lifetimes: Mapping[str, Quantity]


class Table(NamedTuple):
    """A kind of entry: its fields with their types, those it needs, and figures that rise."""

    types: Mapping[str, Any]
    needed: tuple[str, ...]
    ranges: tuple[tuple[str, ...], ...]


def _of_row(kind: type[Row], without: Iterable[str]) -> Table:
    """Return the entries of a class of rows: its columns but these, and a source."""
    types = {**types_of(kind), "source": Line}
    types = {name: of for name, of in types.items() if name not in without}
    return Table(types, ("source",), kind.ranges)


def _of_figure(kind: type[Struct], value: str) -> Table:
    return Table(types_of(kind), tuple(missing(kind, ())), (("low", value, "high"),))


@cache
def tables() -> Mapping[str, Table]:
    """Return the tables of an overlay.

    They are made when an overlay is read: every command imports this module.
    """
    cited = {name for name in types_of(Hardware) if name.endswith("sources")}
    other = {*types_of(RegionRow)} - {"zone", "country", "place", "notes"}
    return {
        "hardware": _of_row(Hardware, cited | {"id", "peak_other", "study", "inputs", "overlay"}),
        "instances": _of_row(
            Instance, {"id", "provider", "name", "price_source", "price_note", "sources", "overlay"}
        ),
        "regions": _of_row(RegionRow, other),
        "zones": _of_figure(OwnZone, "g_per_kwh"),
        "pue": _of_figure(OwnPue, "value"),
        "lifetimes": _of_figure(OwnLife, "years"),
    }


def parse_overlay(text: str) -> Overlay:
    """Parse an overlay in TOML; raises OverlayError that names every wrong entry."""
    import tomllib

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise OverlayError(f"the overlay is not TOML: {error}") from None
    problems: list[str] = []
    kinds = {kind: _entries(kind, document.pop(kind, {}), problems) for kind in tables()}
    problems += [f"unknown table [{name}]; known: {', '.join(tables())}" for name in document]
    if problems:
        raise OverlayError("the overlay cannot be used: " + "; ".join(problems))
    from hashlib import sha256  # with OpenSSL, for those who have an overlay

    return Overlay(
        digest=sha256(text.encode()).hexdigest(),
        cited={
            f"{OVERLAY}{values['source']}": values["source"]
            for entries in kinds.values()
            for values in entries.values()
        },
        hardware=kinds["hardware"],
        instances=kinds["instances"],
        regions={key.lower(): values for key, values in kinds["regions"].items()},
        zones={key.upper(): _zone(key.upper(), OwnZone(**v)) for key, v in kinds["zones"].items()},
        pue={key.lower(): _pue(key, OwnPue(**v)) for key, v in kinds["pue"].items()},
        lifetimes={key: _lifetime(key, OwnLife(**v)) for key, v in kinds["lifetimes"].items()},
    )


def _entries(kind: str, table: Any, problems: list[str]) -> dict[str, Values]:
    if not isinstance(table, dict):
        problems.append(f"[{kind}] must be a table of entries")
        return {}
    entries: dict[str, Values] = {}
    for key, entry in table.items():
        where = f"[{kind}.{key}]"
        if isinstance(entry, dict):
            entries[key], texts = _entry(kind, entry)
            problems += [f"{where} {text}" for text in texts]
        else:
            problems.append(f"{where} must be a table")
    return entries


def _entry(kind: str, entry: Mapping[str, Any]) -> tuple[Values, list[str]]:
    """Return the values of an entry, and what is wrong with it."""
    table = tables()[kind]
    problems: list[Problem] = []
    values = read(table.types, entry, problems)
    texts = [f"{problem.field} {problem.text}" for problem in problems]
    for name in entry.keys() - table.types.keys():
        close = similar(name, table.types) or list(table.types)
        texts.append(f"unknown key {name!r}; perhaps {', '.join(close)}")
    texts += [f"needs {name}" for name in table.needed if name not in entry]
    for names in table.ranges:
        try:
            check_rising({name: values.get(name) for name in names})
        except ValueError as error:
            texts.append(str(error))
    if text := wrong_unit([values.get("g_per_kwh", 0.0)]):
        texts.append(f"g_per_kwh {text}")
    if kind in ("zones", "hardware") and _MARKET.search(values.get("source", "")):
        texts.append("source names a market-based instrument, which SCI does not take")
    return values, texts


def _ranged(
    value: float, entry: OwnZone | OwnPue | OwnLife, unit: str, usual: tuple[float, float]
) -> Quantity:
    """Return a figure with its declared range, else with `usual` ends as multiples of it."""
    low = min(value, value * usual[0]) if entry.low is None else entry.low
    high = max(value, value * usual[1]) if entry.high is None else entry.high
    return Quantity(value, low, high, unit, "declared", f"{OVERLAY}{entry.source}")


def _zone(key: str, entry: OwnZone) -> ZoneIntensity:
    declared = entry.off_grid or entry.low is not None or entry.high is not None
    figure = _ranged(entry.g_per_kwh, entry, UNIT, spread_over(OTHER, USUAL_HOURS))
    return ZoneIntensity(
        zone=key,
        name=entry.name or key,
        country=entry.country,
        intensity=figure.sourced(f"{key} {entry.year}, annual mean", figure.source),
        year=entry.year,
        scope="consumption",
        source=f"{OVERLAY}{entry.source}",
        licence=OWN_LICENCE,
        supply="off-grid" if entry.off_grid else "grid",
        spread_of=None if declared else OTHER,
    )


def _pue(key: str, entry: OwnPue) -> DeclaredPue:
    value = entry.value
    spread = (max(1.0, value - PUE_SPREAD) / value, (value + PUE_SPREAD) / value)
    figure = _ranged(value, entry, "1", spread)
    figure = figure.sourced(f"PUE of {key}", figure.source).as_input(f"pue:{key.lower()}")
    return DeclaredPue(figure, entry.year)


def _lifetime(key: str, entry: OwnLife) -> Quantity:
    figure = _ranged(entry.years, entry, "years", (1.0, 1.0))
    of = "every part" if key == "default" else key
    return figure.sourced(f"EL of {of}", figure.source).as_input(f"life:{key}")
