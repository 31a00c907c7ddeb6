"""R in one unit: amounts that were counted in another are converted by a declared factor.

SCI specification v1.1: where a component has another unit, it is converted first and the factor is
disclosed. A factor is declared as a tag of the job, with its source and date:

    convert.page = "500 token; mean of our own corpus; 2026-05-01"

means that 1 page is 500 token. What was counted in pages then counts as tokens, and only so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gramwatt.sci.base.document import ConversionDoc
from gramwatt.sci.base.notices import Notice
from gramwatt.sci.journal.merge import MergedJob
from gramwatt.sci.journal.records import UNIT_PATTERN

PREFIX = "convert."
EXAMPLE = '"500 token; mean of our own corpus; 2026-05-01"'
_DATE = re.compile(r"(19|20|21)\d\d(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?")


@dataclass(frozen=True, slots=True)
class Conversion:
    """1 `unit` is `factor` of `to`, as `source` said on `date`; `counted` is in `unit`."""

    unit: str
    to: str
    factor: float
    source: str
    date: str
    counted: float = 0.0

    def to_doc(self) -> ConversionDoc:
        """This factor as JSON-ready data."""
        return {
            "unit": self.unit,
            "to": self.to,
            "factor": self.factor,
            "source": self.source,
            "date": self.date,
            "counted": self.counted,
        }


@dataclass(frozen=True, slots=True)
class Converted:
    """A job whose counts are in the units to report, and the factors that were used."""

    job: MergedJob
    used: tuple[Conversion, ...]
    notices: tuple[Notice, ...]


def convert(job: MergedJob) -> Converted:
    """The job with every declared factor applied to its counts and units.

    A factor that cannot be used is left out with a notice: the amounts then stay as counted.
    """
    declared, notices = declared_factors(job.head.tags)
    counted: dict[str, float] = {}
    for count in job.counts:
        counted[count.unit] = counted.get(count.unit, 0.0) + count.amount
    used = {
        unit: replace(factor, counted=counted[unit])
        for unit, factor in declared.items()
        if counted.get(unit, 0.0) > 0
    }
    counts = tuple(
        replace(count, unit=used[count.unit].to, amount=count.amount * used[count.unit].factor)
        if count.unit in used
        else count
        for count in job.counts
    )
    units = tuple(dict.fromkeys(used[u].to if u in used else u for u in job.units))
    return Converted(replace(job, counts=counts, units=units), tuple(used.values()), notices)


def declared_factors(
    tags: Mapping[str, str],
) -> tuple[dict[str, Conversion], tuple[Notice, ...]]:
    """The factors declared in tags by unit, and a notice for each that cannot be used."""
    found: dict[str, Conversion] = {}
    problems: list[str] = []
    for key in sorted(tags):
        if not key.startswith(PREFIX):
            continue
        unit = key.removeprefix(PREFIX)
        try:
            found[unit] = _parsed(unit, tags[key])
        except ValueError as error:
            problems.append(f"The tag {key!r} is ignored: {error}.")
    for unit in [unit for unit, factor in found.items() if factor.to in found]:
        to = found[unit].to
        problems.append(f"The tag '{PREFIX}{unit}' is ignored: {to!r} is converted itself.")
        del found[unit]
    return found, tuple(Notice("argument-ignored", text, "sci") for text in problems)


def _parsed(unit: str, text: str) -> Conversion:
    amount, *rest = (part.strip() for part in text.split(";"))
    if len(rest) != 2 or not all(rest):
        raise ValueError(f"it needs a factor, a source and a date, such as {EXAMPLE}")
    number, _, to = amount.partition(" ")
    factor = float(number) if re.fullmatch(r"[\d.eE+-]+", number) else math.nan
    if not 0 < factor < math.inf:
        raise ValueError(f"{number!r} is not a number above zero")
    for name in (unit, to.strip()):
        if not UNIT_PATTERN.fullmatch(name):
            raise ValueError(f"{name!r} is not a unit name")
    if unit == to.strip():
        raise ValueError("it converts a unit to itself")
    if not _DATE.fullmatch(rest[1]):
        raise ValueError(f"{rest[1]!r} is not a date, such as 2026-05-01, 2026-05 or 2026")
    return Conversion(unit, to.strip(), factor, rest[0], rest[1])
