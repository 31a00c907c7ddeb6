"""Files of intensity as publishers give them: recognised by their header, one row a format.

Electricity Maps' portal, NESO (UK), ENTSO-E's three exports, EIA (API and balance files) and AEMO's
daily index. Values in g/kWh are taken; generation by fuel becomes intensity by our factors, imports
left out. Times become UTC: by their offset, by the zone that the header names, and an hour that
comes twice in autumn by its order.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise
from typing import NamedTuple
from unicodedata import normalize
from zoneinfo import ZoneInfo

from gramwatt.sci.grid.fuels import IMPORTS, STORAGE
from gramwatt.sci.grid.intensity import Basis
from gramwatt.service.intensity.points import DAY_S
from gramwatt.service.providers import eia, entsoe
from gramwatt.service.providers.base import Generation, readings

STEPS_S = range(300, 3601, 300)
"""From 5 to 60 minutes; those that do not divide a day are refused."""


LONGEST = timedelta(hours=1)


class IntensityFileError(ValueError):
    """What cannot be imported; the message names the line or point and what to change."""


class Point(NamedTuple):
    """A value [gCO2e/kWh] from a time on, and where it stands; NaN where it is not known."""

    where: str
    start: datetime
    value: float


class Span(NamedTuple):
    """Values in equal steps from `start` on."""

    start: datetime
    step: timedelta
    values: list[float]

    @property
    def end(self) -> datetime:
        """When the last step ends."""
        return self.start + self.step * len(self.values)


def spans(
    points: Sequence[Point], step: timedelta | None = None, *, gaps: bool = False
) -> list[Span]:
    """Return points, in order, as spans; with `gaps`, rows that are missing are not known.

    `step` is the length of the first, where it is stated. Raises IntensityFileError for a step
    that cannot be kept, or a missing row.
    """
    if not points:
        raise IntensityFileError("no row has a value")
    lengths = [after.start - point.start for point, after in zip(points, points[1:], strict=False)]
    if step is None:
        if not lengths:
            raise IntensityFileError("fewer than two rows: the length of a step cannot be known")
        step = min(lengths[:24]) if gaps else lengths[0]
    span = Span(points[0].start, _checked(points[:2], step), [points[0].value])
    result = [span]
    for number, length in enumerate(lengths, start=1):
        point = points[number]
        missing = length // span.step - 1 if length > span.step else 0
        twice = lengths[number : number + 1] == [length]
        if length != span.step and twice and not (gaps and length > LONGEST):
            value = span.values.pop()  # its step is the first of the new length
            _checked(points[number - 1 : number + 1], length)
            span = Span(points[number - 1].start, length, [value])
            result.append(span)
        elif gaps and missing and not length % span.step:
            span.values.extend([math.nan] * missing)
        elif length != span.step:
            raise IntensityFileError(
                f"{point.where}: starts at {point.start:%Y-%m-%dT%H:%M:%SZ}, and "
                f"{span.end:%Y-%m-%dT%H:%M:%SZ} is due: write every step once, in order, and leave "
                "its value empty where it is not known"
            )
        span.values.append(point.value)
    return [_on_the_day(span) for span in result if span.values]


def _checked(points: Sequence[Point], step: timedelta) -> timedelta:
    """Return a step that the store can keep; raises IntensityFileError for another."""
    seconds = step.total_seconds()
    if seconds not in STEPS_S or DAY_S % seconds:
        raise IntensityFileError(
            f"{points[-1].where}: a step of {seconds / 60:g} minutes; 5, 10, 15, 20, 30 and 60 are"
            " known"
        )
    if _since_midnight(points[0].start) % timedelta(seconds=STEPS_S.start):
        raise IntensityFileError(
            f"{points[0].where}: {points[0].start:%H:%M:%S} is not a whole number of steps after "
            "midnight UTC"
        )
    return step


def _on_the_day(span: Span) -> Span:
    """Return a span whose steps begin at midnight UTC: an hour of India is two half hours."""
    seconds = round(span.step.total_seconds())
    finer = math.gcd(seconds, round(_since_midnight(span.start).total_seconds()))
    times = seconds // finer
    values = [value for value in span.values for _ in range(times)] if times > 1 else span.values
    return Span(span.start, timedelta(seconds=finer), values)


def _since_midnight(moment: datetime) -> timedelta:
    return moment - moment.replace(hour=0, minute=0, second=0, microsecond=0)


HOUR, HOUR_S = timedelta(hours=1), 3600
DAYS_OF_HOURS = 24
CENTRAL_EUROPE = ZoneInfo("Europe/Brussels")
MARKET_AU = ZoneInfo("Etc/GMT-10")
"""The time of Australia's national market: UTC+10 all year."""
EMPTY = frozenset({"", "-", "n/e", "n/a", "na", "nan", "null"})
G_PER_T_AND_KWH_PER_MWH = 1000.0
"""1 t/MWh is 1000 g/kWh."""


class Line(NamedTuple):
    """A row of a file, by the names of its columns as `column_name` has them."""

    where: str
    cells: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Question:
    """What is wanted of a file: the zone, and values of a basis; the sign of its decimals."""

    zone: str
    basis: Basis
    decimal: str = "."


@dataclass(frozen=True, slots=True)
class Format:
    """A publisher's file: the columns it is known by, and what reads its rows."""

    name: str
    publisher: str
    columns: tuple[str, ...]
    read: Callable[[Iterator[Line], Question], list[Point]]
    derived: bool = False
    """Whether lifecycle intensity is derived from generation by fuel."""
    licence: str | None = None
    note: str | None = None


def column_name(text: str) -> str:
    """Return a column's name in small letters, with plain digits and single spaces."""
    return " ".join(normalize("NFKD", text).casefold().split())


def format_of(header: Sequence[str]) -> Format | None:
    """Return the format whose columns a header has; None for none."""
    names = [column_name(name) for name in header]
    for candidate in FORMATS:
        if all(any(name.startswith(needed) for name in names) for needed in candidate.columns):
            return candidate
    return None


def lines(header: Sequence[str], rows: Iterator[list[str]]) -> Iterator[Line]:
    """Yield the rows of a file; raises IntensityFileError for one shorter than the header."""
    names = [column_name(name) for name in header]
    for number, row in enumerate(rows, start=2):
        if not any(map(str.strip, row)):
            continue
        if len(row) < len(names):
            raise IntensityFileError(f"line {number}: {len(row)} columns instead of {len(names)}")
        yield Line(f"line {number}", dict(zip(names, row, strict=False)))


def in_order(points: list[Point]) -> list[Point]:
    """Return points by time, equal ones once; raises IntensityFileError where two disagree."""
    ordered: list[Point] = []
    for point in sorted(points, key=lambda point: point.start):
        last = ordered[-1] if ordered else None
        if last is None or last.start != point.start:
            ordered.append(point)
        elif math.isnan(last.value):
            ordered[-1] = point
        elif not math.isnan(point.value) and point.value != last.value:
            raise IntensityFileError(
                f"{point.where}: {point.start:%Y-%m-%dT%H:%MZ} has {point.value:g}, and "
                f"{last.value:g} on {last.where}; leave one of them in the file"
            )
    return ordered


def number(line: Line, column: str, question: Question) -> float:
    """Return a figure, NaN for an empty cell; raises IntensityFileError for a text."""
    text = line.cells[column].strip()
    if text.casefold() in EMPTY:
        return math.nan
    plain = text.replace(".", "").replace(",", ".") if question.decimal == "," else text
    try:
        return float(plain.replace(",", "").replace(" ", ""))
    except ValueError:
        raise IntensityFileError(
            f"{line.where}: {text[:40]!r} is not a number ({column})"
        ) from None


def moment(line: Line, text: str, zone: tzinfo | None, patterns: Sequence[str] = ()) -> datetime:
    """Return a time in UTC: by its offset, else in `zone`; raises IntensityFileError."""
    text = text.strip()
    when = None
    for parse in (datetime.fromisoformat, *(_by(pattern) for pattern in patterns)):
        try:
            when = parse(text)
            break
        except ValueError:
            continue
    if when is None or (when.tzinfo is None and zone is None):
        example = "2026-05-01T08:00+02:00"
        raise IntensityFileError(f"{line.where}: {text[:40]!r} is not a time such as {example}")
    return (when if when.tzinfo else when.replace(tzinfo=zone)).astimezone(UTC)


def _by(pattern: str) -> Callable[[str], datetime]:
    return lambda text: datetime.strptime(text, pattern)  # noqa: DTZ007 (the caller knows it)


def _column(line: Line, beginning: str) -> str:
    """Return the column whose name begins so; the format has it."""
    return next(name for name in line.cells if name.startswith(beginning))


def _electricity_maps(rows: Iterator[Line], question: Question) -> list[Point]:
    points = []
    bases = {"lifecycle": ("(life cycle)", "(lca)", "(lifecycle)"), "direct": ("(direct)",)}
    for line in rows:
        named = [name for name in line.cells if name.startswith("carbon intensity")]
        columns = [name for name in named if name.endswith(bases[question.basis])]
        if not columns:
            raise IntensityFileError(
                f"line 1: no column of {question.basis} intensity; it has {named}"
            )
        _same_zone(line, line.cells.get("zone id", question.zone), question)
        start = moment(line, line.cells["datetime (utc)"], UTC)
        points.append(Point(line.where, start, number(line, columns[0], question)))
    return points


def _same_zone(line: Line, zone: str, question: Question) -> None:
    if zone.strip().upper() != question.zone:
        text = f"the file is of zone {zone.strip()}, and {question.zone} was asked for"
        raise IntensityFileError(f"{line.where}: {text}; give --zone {zone.strip()}")


def _neso(rows: Iterator[Line], question: Question) -> list[Point]:
    """Return what NESO states of half hours: direct, imports traced."""
    if question.basis != "direct":
        raise IntensityFileError(
            "line 1: NESO's intensity is direct: give --basis direct (no score uses it), or import "
            "its historic generation mix, of which lifecycle intensity is derived"
        )
    points = []
    for line in rows:
        start = moment(line, line.cells[_column(line, "datetime")], UTC)
        points.append(Point(line.where, start, number(line, _column(line, "actual"), question)))
    return points


NESO_FUELS = {
    **{"gas": "gas", "coal": "coal", "nuclear": "nuclear", "wind": "wind", "wind_emb": "wind"},
    **{"hydro": "hydro", "imports": IMPORTS, "biomass": "biomass", "other": "other"},
    **{"solar": "solar", "storage": STORAGE},
}


def _neso_mix(rows: Iterator[Line], question: Question) -> list[Point]:
    if question.basis == "direct":
        return [
            Point(
                line.where,
                moment(line, line.cells["datetime"], UTC),
                number(line, "carbon_intensity", question),
            )
            for line in rows
        ]
    mix = _Mix(question)
    for line in rows:
        start = moment(line, line.cells["datetime"], UTC)
        for column, fuel in NESO_FUELS.items():
            if column in line.cells:
                mix.add(line, start, column, fuel, number(line, column, question))
    return mix.points()


EIA_FUELS = {
    "coal": "coal",
    "natural gas": "gas",
    "nuclear": "nuclear",
    "all petroleum products": "oil",
    "hydropower and pumped storage": "hydro",
    "hydropower excluding pumped storage": "hydro",
    "solar": "solar",
    "solar without integrated battery storage": "solar",
    "solar with integrated battery storage": "solar",
    "wind": "wind",
    "wind without integrated battery storage": "wind",
    "wind with integrated battery storage": "wind",
    "geothermal": "geothermal",
    "other fuel sources": "other",
    "unknown fuel sources": "other",
    **dict.fromkeys(
        ("pumped storage", "battery storage", "other energy storage", "unknown energy storage"),
        STORAGE,
    ),
}
_EIA_COLUMN = re.compile(r"net generation \(mw\) from (.+?)(?: \((adjusted|imputed)\))?")
EIA_TIMES = ("%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y %H:%M", "%m/%d/%Y %H:%M:%S")


def _of_authority(
    rows: Iterator[Line], column: str, question: Question, others: set[str]
) -> Iterator[Line]:
    """Yield the lines of the zone's balancing authority; `others` takes the names of the rest."""
    for line in rows:
        name = line.cells[column].strip()
        if name == question.zone.split("-")[-1]:
            yield line
        else:
            others.add(name)


def _eia_balance(rows: Iterator[Line], question: Question) -> list[Point]:
    """Return hours out of EIA's balance files, which name them by their end; adjusted first."""
    mix, others = _Mix(question), set[str]()
    for line in _of_authority(rows, "balancing authority", question, others):
        start = moment(line, line.cells["utc time at end of hour"], UTC, EIA_TIMES) - HOUR
        amounts: dict[str, float] = {}
        for column in line.cells:
            if named := _EIA_COLUMN.fullmatch(column):
                amount = number(line, column, question)
                if not math.isnan(amount) and (named[2] == "adjusted" or named[1] not in amounts):
                    amounts[named[1]] = amount
        for fuel, amount in amounts.items():
            mix.add(line, start, fuel, _fuel(line, EIA_FUELS, fuel), amount)
    return mix.points(others)


def _eia_api(rows: Iterator[Line], question: Question) -> list[Point]:
    mix, others = _Mix(question), set[str]()
    for line in _of_authority(rows, "respondent", question, others):
        start = moment(line, line.cells["period"], UTC, ("%Y-%m-%dT%H",)) - HOUR
        code = line.cells["fueltype"].strip()
        mix.add(line, start, code, _fuel(line, eia.FUELS, code), number(line, "value", question))
    return mix.points(others)


ENTSOE_FUELS = {
    "biomass": "biomass",
    **dict.fromkeys(
        ("fossil brown coal/lignite", "fossil coal-derived gas", "fossil hard coal"), "coal"
    ),
    **dict.fromkeys(("fossil oil shale", "fossil peat"), "coal"),
    "fossil gas": "gas",
    "fossil oil": "oil",
    "geothermal": "geothermal",
    **dict.fromkeys(("hydro run-of-river and poundage", "hydro run-of-river"), "hydro"),
    **dict.fromkeys(("hydro run-of-river and pondage", "hydro water reservoir"), "hydro"),
    "marine": "ocean",
    "nuclear": "nuclear",
    **dict.fromkeys(("other renewable", "other", "waste"), "other"),
    "solar": "solar",
    **dict.fromkeys(("wind offshore", "wind onshore"), "wind"),
    **dict.fromkeys(("hydro pumped storage", "energy storage"), STORAGE),
}
_MTU = re.compile(r"\s*(\d\d[./]\d\d[./]\d{4} \d\d:\d\d(?::\d\d)?)\s*(?:\([A-Z]+\)\s*)?-.*")
ENTSOE_TIMES = ("%d.%m.%Y %H:%M", "%d/%m/%Y %H:%M", "%d/%m/%Y %H:%M:%S", "%Y-%m-%d %H:%M:%S")


def _entsoe_table(rows: Iterator[Line], question: Question) -> list[Point]:
    """Return steps of the export with a column for each production type."""
    mix, times = _Mix(question), _Times()
    for line in rows:
        column = _column(line, "mtu")
        start = times.of(line, column, line.cells[column])
        for name in line.cells:
            fuel, mark, _ = name.partition(" - actual aggregated")
            fuel = fuel.strip()
            if mark:
                amount = number(line, name, question)
                mix.add(line, start, fuel, _fuel(line, ENTSOE_FUELS, fuel), amount)
    return mix.points()


def _entsoe_rows(rows: Iterator[Line], question: Question) -> list[Point]:
    """Return steps of the exports with a row for each production type."""
    mix, times, others = _Mix(question), _Times(), set()
    area = entsoe.AREAS.get(question.zone, question.zone)
    for line in rows:
        cells = line.cells
        own = {cells.get("areacode", "").strip(), cells.get("areamapcode", "").strip()}
        map_code = question.zone.rpartition("-")[2]  # as ENTSO-E writes it: SE3 of SE-SE3
        if "areacode" in cells and own.isdisjoint({area, question.zone, map_code}):
            others.add(cells.get("areamapcode", cells["areacode"]).strip())
            continue
        column = _column(line, "mtu" if any(n.startswith("mtu") for n in cells) else "datetime")
        start = times.of(line, column, cells[column])
        step = entsoe.RESOLUTIONS.get(cells.get("resolutioncode", "").strip(), 0)
        fuel = column_name(cells[_column(line, "production")])
        named = next(n for n in cells if n.startswith(("generation (mw", "actualgeneration")))
        amount = number(line, named, question)
        mix.add(line, start, fuel, _fuel(line, ENTSOE_FUELS, fuel), amount, step)
    return mix.points(others)


class _Times:
    """Times of a file of ENTSO-E in UTC: its header says whether they are UTC or CET/CEST."""

    def __init__(self) -> None:
        self._last: datetime | None = None

    def of(self, line: Line, column: str, text: str) -> datetime:
        """Return a step's start; of an hour that comes twice in autumn the later is the second."""
        span = _MTU.fullmatch(text)
        text = span[1] if span else text.strip()
        zone = UTC if "utc" in column or not column.startswith("mtu") else CENTRAL_EUROPE
        start = moment(line, text, zone, ENTSOE_TIMES)
        if zone is UTC:
            return start
        local = start.astimezone(CENTRAL_EUROPE)
        again = local.replace(fold=1).astimezone(UTC)
        if again != start and self._last is not None and self._last >= start:
            start = again
        self._last = start
        return start


def _aemo(rows: Iterator[Line], question: Question) -> list[Point]:
    """Return hours out of AEMO's daily index [t/MWh]: those of a day have its value."""
    if question.basis != "direct":
        text = "AEMO's index is direct: give --basis direct (no score uses it)"
        raise IntensityFileError(f"line 1: {text}")
    region = {"AU-NSW": "NSW1", "AU-QLD": "QLD1", "AU-SA": "SA1", "AU-TAS": "TAS1"}
    region |= {"AU-VIC": "VIC1", "AU": "NEM"}
    points, others = [], set()
    for line in rows:
        if line.cells["regionid"].strip().upper() != region.get(question.zone):
            others.add(line.cells["regionid"].strip())
            continue
        text = line.cells["settlementdate"]
        patterns = ("%Y/%m/%d %H:%M:%S", "%d/%m/%Y", "%d/%m/%Y %H:%M", "%Y/%m/%d")
        start = moment(line, text, MARKET_AU, patterns)
        grams = number(line, "co2e_intensity_index", question) * G_PER_T_AND_KWH_PER_MWH
        points += [Point(line.where, start + hour * HOUR, grams) for hour in range(DAYS_OF_HOURS)]
    return _or_none(points, others, question)


def _fuel(line: Line, fuels: Mapping[str, str], name: str) -> str:
    if name not in fuels:
        raise IntensityFileError(
            f"{line.where}: {name[:60]!r} is not a fuel of this file's publisher"
        )
    return fuels[name]


class _Mix:
    """Generation by fuel of a file, which becomes intensity."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._rows: dict[str, list[tuple[datetime, float, int]]] = defaultdict(list)
        self._fuels: dict[str, str] = {}
        self._where: dict[datetime, str] = {}

    def add(
        self, line: Line, start: datetime, name: str, fuel: str, amount: float, step_s: int = 0
    ) -> None:
        """Add the mean power of a step; one that is not known is left out."""
        self._fuels[name] = fuel
        self._where.setdefault(start, line.where)
        if not math.isnan(amount):
            self._rows[name].append((start, amount, step_s))

    def points(self, others: Sequence[str] | set[str] = ()) -> list[Point]:
        """Return the intensity of every step of which all fuels are known."""
        generation = Generation()
        for name, rows in self._rows.items():
            lengths = _lengths(sorted({start for start, _, _ in rows}))
            for start, amount, step_s in rows:
                generation.add(name, self._fuels[name], start, step_s or lengths[start], amount)
        if not self._rows:
            return _or_none([], others, self._question)
        return [
            Point(self._where.get(reading.start, "the file"), reading.start, reading.value)
            for reading in readings(generation, self._question.basis)
            if reading.value is not None
        ]


def _lengths(starts: Sequence[datetime]) -> dict[datetime, int]:
    """Return the step that begins at each time [s]: up to the next, where that is no gap.

    A length that stands alone between others is a gap; so is one above an hour.
    """
    gaps = [round((b - a).total_seconds()) for a, b in pairwise(starts)]
    lengths = {}
    for number, start in enumerate(starts):
        near = [gap for gap in gaps[max(number - 1, 0) : number + 2] if gap <= HOUR_S]
        own = gaps[number] if number < len(gaps) else 0
        lengths[start] = own if near.count(own) > 1 else min(near, default=HOUR_S)
    return lengths


def _or_none(
    points: list[Point], others: Sequence[str] | set[str], question: Question
) -> list[Point]:
    if not points:
        named = f"; it has {', '.join(sorted(others)[:8])}" if others else ""
        raise IntensityFileError(f"the file has no row of zone {question.zone}{named}")
    return points


FORMATS: tuple[Format, ...] = (
    Format(
        "electricity-maps",
        "Electricity Maps",
        ("datetime (utc)", "carbon intensity"),
        _electricity_maps,
    ),
    Format(
        "neso-mix",
        "NESO",
        ("datetime", "gas", "coal", "nuclear", "wind", "carbon_intensity"),
        _neso_mix,
        True,
    ),
    Format("neso", "NESO", ("datetime", "actual", "forecast", "index"), _neso),
    Format(
        "entsoe-rows",
        "ENTSO-E",
        ("datetime", "areacode", "productiontype", "actualgenerationoutput"),
        _entsoe_rows,
        True,
        entsoe.Entsoe.licence,
    ),
    Format(
        "entsoe-rows",
        "ENTSO-E",
        ("mtu", "production type", "generation (mw"),
        _entsoe_rows,
        True,
        entsoe.Entsoe.licence,
    ),
    Format(
        "entsoe-table",
        "ENTSO-E",
        ("mtu", "biomass - actual aggregated"),
        _entsoe_table,
        True,
        entsoe.Entsoe.licence,
    ),
    Format(
        "eia-balance",
        "US Energy Information Administration",
        ("balancing authority", "utc time at end of hour", "net generation (mw) from"),
        _eia_balance,
        True,
        "public domain",
    ),
    Format(
        "eia-api",
        "US Energy Information Administration",
        ("period", "respondent", "fueltype", "value"),
        _eia_api,
        True,
        "public domain",
    ),
    Format(
        "aemo",
        "AEMO",
        ("settlementdate", "regionid", "co2e_intensity_index"),
        _aemo,
        note="The file has a value a day: each hour of a day has that value.",
    ),
)
"""Every format, the more exact before one that it looks like."""
