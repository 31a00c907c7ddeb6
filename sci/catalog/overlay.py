"""The user's overlay: a TOML text that adds or overrides catalog entries, each with its source.

    [hardware.acme-x1]              parts: columns of hardware.csv, and embodied_kg
    [instances."lab:node-a"]        machines: the columns of instances.csv
    [zones.MY-GRID]                 annual intensity: g_per_kwh, low, high, year, country;
                                    off_grid = true for a supply without a connection to a grid
    [regions."lab:paris"]           places: zone, country, place
    [pue."lab:paris"]               PUE of a region: value, low, high, year
    [lifetimes.acme-x1]             EL: years, low, high; "default" is for every part

Every entry needs `source`, which each figure out of it carries into every report. Parsing is pure;
reading the file is the caller's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple, get_args

from gramwatt.sci.base.csv_data import LIST_SEPARATOR
from gramwatt.sci.base.errors import GramwattError
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.catalog.embodied_facts import Tier
from gramwatt.sci.catalog.hardware import Availability, HostClass, IdlePstate, Market
from gramwatt.sci.catalog.names import similar
from gramwatt.sci.catalog.regions import PUE_SPREAD
from gramwatt.sci.grid.plausible import LARGEST, wrong_unit
from gramwatt.sci.grid.spreads import OTHER, spread_over
from gramwatt.sci.grid.zones import UNIT, USUAL_HOURS, ZoneIntensity

Cells = Mapping[str, str]
CLASSES = ("gpu", "accelerator", "module")
_MARKET = re.compile(
    r"(?i:market-based|guarantees? of origin|energy certificates?|\boffsets?\b|carbon credits?)"
    r"|\b(?:PPA|REC|EAC|GO)s?\b"
)
"""Market-based sources, which are refused: SCI excludes contracts, certificates and offsets."""


class OverlayError(GramwattError, ValueError):
    """An overlay that cannot be used; the message names every entry that is wrong."""

    code = "bad-overlay"


class DeclaredPue(NamedTuple):
    """PUE declared for a region, with its year where it is given."""

    figure: Quantity
    year: int | None


@dataclass(frozen=True, slots=True)
class Overlay:
    """A parsed overlay: cells of hardware, instances and regions by id, other figures by key."""

    digest: str
    hardware: Mapping[str, Cells]
    instances: Mapping[str, Cells]
    regions: Mapping[str, Cells]
    zones: Mapping[str, ZoneIntensity]
    pue: Mapping[str, DeclaredPue]
    lifetimes: Mapping[str, Quantity]
    sources: tuple[str, ...]
    """The sources of all entries, each once."""


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > 500 or "\n" in value:
        raise ValueError("must be one line of 1 to 500 characters")
    return value.strip()


def _positive(value: Any) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value <= 0:
        raise ValueError("must be a number above 0")
    return repr(value)


def _whole(value: Any) -> str:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError("must be a whole number above 0")
    return str(value)


def _share(value: Any) -> str:
    if not 0 < float(_positive(value)) <= 1:
        raise ValueError("must be above 0 and at most 1")
    return repr(value)


def _list(value: Any) -> str:
    items = [_text(item) for item in value] if isinstance(value, list) else []
    if not items or any(LIST_SEPARATOR in item for item in items):
        raise ValueError(f"must be a list of texts without {LIST_SEPARATOR!r}")
    return LIST_SEPARATOR.join(items)


def _one_of(choices: tuple[str, ...]) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return str(value)

    return check


def _flag(value: Any) -> str:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return "1" if value else "0"


_RANGE = {"low": _positive, "high": _positive}
FIELDS: Mapping[str, Mapping[str, Callable[[Any], str]]] = {
    "hardware": {
        **dict.fromkeys(("vendor", "name", "architecture", "form_factor", "status"), _text),
        **dict.fromkeys(("memory_type", "idle_state", "host_cpu", "notes"), _text),
        **dict.fromkeys(("release_year", "die_count", "devices_per_board"), _whole),
        **dict.fromkeys(("process_nm", "die_area_mm2"), _positive),
        **dict.fromkeys(("tdp_w", "idle_w", "idle_low_w", "idle_high_w"), _positive),
        **dict.fromkeys(("fp64_tflops", "fp32_tflops", "tf32_tflops", "fp8_tflops"), _positive),
        **dict.fromkeys(("fp16_tensor_tflops", "bf16_tensor_tflops", "int8_tops"), _positive),
        **dict.fromkeys(("memory_gb", "memory_bandwidth_gbs", "interconnect_gbs"), _positive),
        **dict.fromkeys(("embodied_kg", "embodied_low_kg", "embodied_high_kg"), _positive),
        **dict.fromkeys(("software", "intended_use", "aliases"), _list),
        "mig_slices": _whole,
        "class": _one_of(CLASSES),
        "host_class": _one_of(get_args(HostClass)),
        "market": _one_of(get_args(Market)),
        "availability": _one_of(get_args(Availability)),
        "idle_pstate": _one_of(get_args(IdlePstate)),
        "embodied_tier": _one_of(get_args(Tier)),
        "embodied_includes_host": _flag,
    },
    "instances": {
        **dict.fromkeys(("hardware", "host", "host_cpu", "cpu", "family", "notes"), _text),
        **dict.fromkeys(("count", "count_low", "count_high"), _whole),
        **dict.fromkeys(("vcpu", "host_memory_gib", "price_usd_per_hour"), _positive),
        **dict.fromkeys(("price_region", "price_date"), _text),
        "share": _share,
    },
    "regions": {"zone": _text, "country": _text, "place": _text, "notes": _text},
    "zones": {
        "g_per_kwh": _positive,
        "year": _whole,
        "off_grid": _flag,
        "name": _text,
        "country": _text,
        **_RANGE,
    },
    "pue": {"value": _positive, "year": _whole, **_RANGE},
    "lifetimes": {"years": _positive, **_RANGE},
}
"""The fields of each kind of entry beside `source`, with the check of each value."""
REQUIRED = {"zones": ("g_per_kwh", "year"), "pue": ("value",), "lifetimes": ("years",)}


def parse_overlay(text: str) -> Overlay:
    """Parse an overlay in TOML; raises OverlayError that names every wrong entry."""
    import tomllib

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise OverlayError(f"the overlay is not TOML: {error}") from None
    problems: list[str] = []
    kinds = {kind: _entries(kind, document.pop(kind, {}), problems) for kind in FIELDS}
    problems += [f"unknown table [{name}]; known: {', '.join(FIELDS)}" for name in document]
    if problems:
        raise OverlayError("the overlay cannot be used: " + "; ".join(problems))
    return _assembled(kinds, sha256(text.encode()).hexdigest())


def _assembled(kinds: Mapping[str, Mapping[str, Cells]], digest: str) -> Overlay:
    entries = [cells for table in kinds.values() for cells in table.values()]
    return Overlay(
        digest=digest,
        hardware=kinds["hardware"],
        instances=kinds["instances"],
        regions={key.lower(): cells for key, cells in kinds["regions"].items()},
        zones={key.upper(): _zone(key.upper(), cells) for key, cells in kinds["zones"].items()},
        pue={key.lower(): _pue(key, cells) for key, cells in kinds["pue"].items()},
        lifetimes={key: _lifetime(key, cells) for key, cells in kinds["lifetimes"].items()},
        sources=tuple(dict.fromkeys(cells["overlay"] for cells in entries)),
    )


def _entries(kind: str, table: Any, problems: list[str]) -> dict[str, Cells]:
    if not isinstance(table, dict):
        problems.append(f"[{kind}] must be a table of entries")
        return {}
    found: dict[str, Cells] = {}
    for key, entry in table.items():
        where = f"[{kind}.{key}]"
        if isinstance(entry, dict):
            found[key] = _cells(kind, where, entry, problems)
        else:
            problems.append(f"{where} must be a table")
    return found


def _cells(kind: str, where: str, entry: Mapping[str, Any], problems: list[str]) -> Cells:
    checks = {**FIELDS[kind], "source": _text}
    cells: dict[str, str] = {}
    for name, value in entry.items():
        try:
            cells[name] = checks[name](value)
        except KeyError:
            close = similar(name, checks) or list(checks)
            problems.append(f"{where} unknown key {name!r}; perhaps {', '.join(close)}")
        except (TypeError, ValueError) as error:
            problems.append(f"{where} {name} {error}")
    missing = [name for name in ("source", *REQUIRED.get(kind, ())) if name not in entry]
    problems += [f"{where} needs {name}" for name in missing]
    problems += [f"{where} {text}" for text in _unordered(cells)]
    if kind in ("zones", "hardware") and _MARKET.search(cells.get("source", "")):
        problems.append(f"{where} source names a market-based instrument, which is no part of SCI")
    cells["overlay"] = cells.pop("source", "")
    return cells


def _unordered(cells: Cells) -> Iterable[str]:
    """Yield what is wrong where figures break low <= value <= high, or PUE is below 1."""
    triples = [("idle_low_w", "idle_w", "idle_high_w"), ("count_low", "count_low", "count_high")]
    triples.append(("embodied_low_kg", "embodied_kg", "embodied_high_kg"))
    triples += [("low", name, "high") for name in ("g_per_kwh", "value", "years")]
    for low, name, high in triples:
        ends = [float(cells[part]) for part in (low, name, high) if part in cells]
        if ends != sorted(ends):
            yield f"{low}, {name} and {high} must rise in that order"
    if not 1 <= float(cells.get("value", 1)) <= 5:
        yield "value must be a PUE from 1 to 5 (write 20 % on top as 1.2)"
    intensity = float(cells.get("g_per_kwh", 0))
    if text := wrong_unit([intensity]):
        yield f"g_per_kwh {text}"
    if intensity > LARGEST:
        yield f"g_per_kwh must be an intensity up to {LARGEST:g} gCO2e/kWh"


def _ranged(cells: Cells, name: str, unit: str, usual: tuple[float, float]) -> Quantity:
    """Return a figure with its declared range, else with `usual` ends as multiples of it."""
    value = float(cells[name])
    low = float(cells["low"]) if "low" in cells else min(value, value * usual[0])
    high = float(cells["high"]) if "high" in cells else max(value, value * usual[1])
    source = f"overlay: {cells['overlay']}"
    return Quantity(value, low, high, unit, "declared", source)


def _zone(key: str, cells: Cells) -> ZoneIntensity:
    declared = "low" in cells or "high" in cells or cells.get("off_grid") == "1"
    figure = _ranged(cells, "g_per_kwh", UNIT, spread_over(OTHER, USUAL_HOURS))
    return ZoneIntensity(
        zone=key,
        name=cells.get("name", key),
        country=cells.get("country"),
        intensity=figure.sourced(f"{key} {cells['year']}, annual mean, {figure.source}"),
        year=int(cells["year"]),
        scope="consumption",
        source=f"overlay: {cells['overlay']}",
        licence="of the user's own",
        supply="off-grid" if cells.get("off_grid") == "1" else "grid",
        spread_of=None if declared else OTHER,
    )


def _pue(key: str, cells: Cells) -> DeclaredPue:
    value = float(cells["value"])
    spread = (max(1.0, value - PUE_SPREAD) / value, (value + PUE_SPREAD) / value)
    figure = _ranged(cells, "value", "1", spread)
    year = int(cells["year"]) if "year" in cells else None
    figure = figure.sourced(f"PUE of {key}, {figure.source}").as_input(f"pue:{key.lower()}")
    return DeclaredPue(figure, year)


def _lifetime(key: str, cells: Cells) -> Quantity:
    figure = _ranged(cells, "years", "years", (1.0, 1.0))
    of = "every part" if key == "default" else key
    return figure.sourced(f"EL of {of}, {figure.source}").as_input(f"life:{key}")
