"""Figures as text: one unit prefix, and no more digits than their range supports.

A figure has two significant digits, three where its range is within 5 %, four where it is within
0.5 %. An unknown figure is `UNKNOWN`, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from msgspec import Struct

from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.figures.units import g_from_kg

UNKNOWN = "not known"
NARROW_SPACE = "\u202f"
DECIDING = (0.5, 0.7, 0.9, 1.0)
"""Shares from which on a grade is given, a sum of energy has a kind, and a whole is whole."""
TIMES = 2.0
"""From this ratio on a change is a multiple, not in percent."""
GRADE_WORDS = {"A": "measured", "B": "mostly measured", "C": "half measured", "D": "estimated"}
"""Grades of data quality as a word or two."""
_MARK: ContextVar[str] = ContextVar("decimal mark", default=".")
Steps = tuple[tuple[float, str], ...]
"""Prefixed units, greatest first: how many base units one is, and its name."""

_ENERGY: Steps = ((1e6, "GWh"), (1e3, "MWh"), (1.0, "kWh"), (1e-3, "Wh"))
_MASS: Steps = ((1e6, "t"), (1e3, "kg"), (1.0, "g"), (1e-3, "mg"), (1e-6, "µg"), (1e-9, "ng"))
_POWER: Steps = ((1e6, "MW"), (1e3, "kW"), (1.0, "W"), (1e-3, "mW"))
_JOULE: Steps = ((1e9, "GJ"), (1e6, "MJ"), (1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"))


SMALL_KWH = 1e-6
"""Energy below it is in µWh; the mWh between is not what people compare [kWh]."""


class Shown(Struct, frozen=True):
    """A figure as text, all three numbers in one unit; `low` and `high` are "" when exact."""

    value: str
    low: str
    high: str
    unit: str

    @property
    def span(self) -> str:
        """Return the range, as "0.9 to 1.6"; "" for an exact figure."""
        return f"{self.low} to {self.high}" if self.low else ""

    def with_unit(self, number: str) -> str:
        """Return a number of this figure followed by the unit."""
        return f"{number}{NARROW_SPACE}{self.unit}" if self.unit else number

    def __str__(self) -> str:
        value = self.with_unit(self.value)
        return f"{value} ({self.span})" if self.low else value


@contextmanager
def decimal_mark(mark: str) -> Iterator[None]:
    """Print figures with this decimal mark, a point or a comma, within the block."""
    before = _MARK.set(mark)
    try:
        yield
    finally:
        _MARK.reset(before)


def marked(printed: str) -> str:
    """Return a printed number with the decimal mark of the reader."""
    return printed.replace(".", _MARK.get())


def shown(figure: Quantity) -> Shown:
    """Return the figure with the prefix that suits its value, or its high end where that is 0."""
    digits = significant_digits(figure.value, figure.low, figure.high)
    # By what is printed: 999.6 ng in two digits is 1.0 µg.
    size, unit = prefix(_rounded(abs(figure.value) or abs(figure.high), digits), figure.unit)
    value, low, high = (end / size for end in (figure.value, figure.low, figure.high))
    exact = low == high
    return Shown(
        number(value, digits),
        "" if exact else number(low, digits),
        "" if exact else number(high, digits),
        unit,
    )


def text(figure: Quantity | None) -> str:
    """Return the figure with its range and unit; `UNKNOWN` for None."""
    return UNKNOWN if figure is None else str(shown(figure))


def value_text(figure: Quantity | None) -> str:
    """Return the figure with its unit, without its range; `UNKNOWN` for None."""
    if figure is None:
        return UNKNOWN
    printed = shown(figure)
    return printed.with_unit(printed.value)


def span_text(figure: Quantity | None) -> str:
    """Return the range with its unit; "" for an exact or unknown figure."""
    if figure is None or figure.low == figure.high:
        return ""
    printed = shown(figure)
    return printed.with_unit(printed.span)


def grams(figure: Quantity | None) -> Quantity | None:
    """Return a figure in kgCO2e as one in gCO2e, which prints with the prefix that suits it."""
    if figure is None:
        return None
    return figure.scaled(g_from_kg(1.0), "gCO2e")


def significant_digits(value: float, low: float, high: float) -> int:
    """Return how many significant digits a range supports: 4 within 0.5 %, 3 within 5 %, else 2."""
    if value == 0:
        return 2
    spread = (high - low) / 2 / abs(value)
    return 4 if spread < 0.0051 else 3 if spread < 0.051 else 2


def number(value: float, digits: int) -> str:
    """Return `value` with so many significant digits; an exponent only below 1e-6 and from 1e12 on.

    Thousands are separated by a narrow space. From four digits on, trailing zeros after the point
    are dropped: such a figure is exact or nearly so.
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = _rounded(value, digits)
    magnitude = math.floor(math.log10(abs(rounded)))
    if not -6 <= magnitude < 12:
        return marked(f"{value:.{digits - 1}e}")
    places = digits - 1 - magnitude
    printed = f"{rounded:,.{max(0, places)}f}".replace(",", NARROW_SPACE)
    if digits >= 4 and "." in printed:
        printed = printed.rstrip("0").rstrip(".")
    return marked(printed)


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits - 1}e}")


def count_text(count: float) -> str:
    """Return a count of units: all digits before the point, and six of one below 100 000.

    From 1e15 on, where a float no longer holds every digit, it has an exponent.
    """
    if abs(count) >= 1e15:
        return marked(f"{count:.6g}")
    if count == round(count) or abs(count) >= 1e5:
        return f"{count:,.0f}".replace(",", NARROW_SPACE)
    return number(count, 6)


def jobs_text(number: int) -> str:
    """Return a number of jobs: "1 job", "20 jobs"."""
    return f"{number} job{'' if number == 1 else 's'}"


def all_digits(value: float) -> str:
    """Return what was counted or stated without an exponent or a separator: "1281167"."""
    return f"{value:.0f}" if value == round(value) else f"{value:.15g}"


def percent(share: float) -> str:
    """Return a share (0 to 1) in percent; "<1 %" for a small one, which is not 0.

    One just below a limit that grades and kinds go by has a decimal, so that it does not print as
    what it does not reach.
    """
    if 0 < share < 0.01:
        return f"<1{NARROW_SPACE}%"
    if round(share, 2) in DECIDING and share < round(share, 2) - 1e-9:
        return marked(f"{math.floor(share * 1000) / 10:.1f}{NARROW_SPACE}%")
    return f"{share * 100:.0f}{NARROW_SPACE}%"


def change_text(ratio: Quantity | None) -> str:
    """Return a ratio of after over before as "12 % less"; `UNKNOWN` for None."""
    return UNKNOWN if ratio is None else "".join(_change(ratio.value))


def change_range(ratio: Quantity | None) -> str:
    """Return the range of such a ratio, "20 % less to 3 % more"; "" for an exact one."""
    if ratio is None or ratio.low == ratio.high:
        return ""
    (amount, way), (most, other) = _change(ratio.low), _change(ratio.high)
    # The words once, where both ends go the same way.
    return f"{amount} to {most}{other}" if way == other else f"{amount}{way} to {most}{other}"


def against(ratio: float, then: str) -> str:
    """Return a ratio as a phrase: "12 % less than in May", "3.4 times as much as in May"."""
    amount, way = _change(ratio)
    return f"{amount}{way} {'as' if ratio >= TIMES or not way else 'than'} {then}"


def percent_digits(ratio: float, digits: int) -> int:
    """Return the digits of a change in percent: three where fewer print "99.6 % less" as all."""
    return 3 if ratio < 0.005 else digits


def _change(ratio: float) -> tuple[str, str]:
    """Return how much a ratio changes, and which way in words."""
    if ratio >= TIMES:
        return number(ratio, 2), " times as much"
    share = abs(ratio - 1)
    if share < 0.0005:
        return "the same", ""
    digits = percent_digits(ratio, 2 if share >= 0.1 else 1)
    amount = f"{number(share * 100, digits)}{NARROW_SPACE}%"
    return amount, " less" if ratio < 1 else " more"


def duration(seconds: float | None) -> str:
    """Return a duration [s] in its two largest units; `UNKNOWN` for None."""
    if seconds is None:
        return UNKNOWN
    if seconds < 60:
        return f"{number(seconds, 3)}{NARROW_SPACE}s"
    whole = round(seconds)
    for size, unit, below, under in ((86400, "d", 3600, "h"), (3600, "h", 60, "min")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // below} {under}"
    return f"{whole // 60} min {whole % 60} s"


def minute_text(time: str) -> str:
    """Return a time as documents write it (RFC 3339, UTC), to the minute."""
    return f"{time[:10]} {time[11:16]}"


def plain(line: str) -> str:
    """Return a line with ordinary spaces: not every terminal shows narrow ones."""
    return line.replace(NARROW_SPACE, " ").replace("\u00a0", " ")


def prefix(reference: float, unit: str) -> tuple[float, str]:
    """Return the size [unit] and name of the prefixed unit that suits `reference` [unit]."""
    base, slash, per = unit.partition("/")
    if unit in ("1", "gCO2e/kWh"):
        return 1.0, "" if unit == "1" else "gCO2e/kWh"
    steps, suffix = {
        "kWh": (_ENERGY, ""),
        "gCO2e": (_MASS, "\u00a0CO2e"),
        "J": (_JOULE, ""),
        "W": (_POWER, ""),
    }.get(base, (((1.0, base),), ""))
    reference = abs(reference) or 1.0
    if base == "kWh" and reference < SMALL_KWH:
        return 1e-9, f"µWh{slash}{per}"
    size, name = next((step for step in steps if reference >= step[0]), steps[-1])
    return size, f"{name}{suffix}{slash}{per}"
