"""R and C per R: what was counted in another unit is converted by a declared factor first.

ISO/IEC 21031 (SCI specification v1.1), "Functional unit": where a component has another unit, it is
converted and the factor is disclosed. A factor is declared as a tag of the job, with source and
date:

    convert.page = "500 token; mean of our own corpus; 2026-05-01"

means that 1 page is 500 token. What was counted in pages then counts as tokens, and only so.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gramwatt.sci.base.document import ConversionDoc, SciDoc
from gramwatt.sci.base.errors import ScoreError
from gramwatt.sci.base.notices import CODES, Notice
from gramwatt.sci.base.quantity import Quantity
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
    counted = _counted(job)
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


def _counted(job: MergedJob) -> dict[str, float]:
    counted: dict[str, float] = defaultdict(float)
    for count in job.counts:
        counted[count.unit] += count.amount
    return counted


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


@dataclass(frozen=True, slots=True)
class UnitScore:
    """R in one unit and C per R [gCO2e/unit], which is None where C is not known."""

    unit: str
    count: float
    g_per_unit: Quantity | None

    def to_doc(self) -> SciDoc:
        """This score as JSON-ready data."""
        figure = self.g_per_unit.to_doc() if self.g_per_unit else None
        return {"unit": self.unit, "count": self.count, "g_per_unit": figure}


def per_unit(total_g: Quantity, count: float, unit: str) -> Quantity:
    """C per R [gCO2e/unit]; raises ScoreError for R <= 0, which has no meaning."""
    if count <= 0:
        raise ScoreError(f"R must be above zero, not {count} {unit}", code="bad-functional-unit")
    return total_g.scaled(1 / count, f"gCO2e/{unit}")


def unit_scores(
    job: MergedJob, total_g: Quantity | None
) -> tuple[tuple[UnitScore, ...], list[Notice]]:
    """The score in each counted unit, declared ones first, and per job where nothing was counted.

    A unit that was declared and never counted leaves a notice, and so does a job without a unit.
    """
    counted = {unit: amount for unit, amount in _counted(job).items() if amount > 0}
    notices = [
        Notice("unit-not-counted", f"The unit {unit!r} was declared but never counted.", "sci")
        for unit in job.units
        if unit not in counted and unit != "job"
    ]
    if not counted:
        counted = {"job": 1.0}
        if not job.units:
            notices.append(Notice("unit-undeclared", CODES["unit-undeclared"], "sci"))
    scores = tuple(
        UnitScore(unit, counted[unit], per_unit(total_g, counted[unit], unit) if total_g else None)
        for unit in sorted(counted, key=lambda unit: (unit not in job.units, unit))
    )
    return scores, notices
