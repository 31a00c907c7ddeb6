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
from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gramwatt.sci.figures.document import ConversionDoc, SciDoc
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.figures.quantity import Quantity, per_unit
from gramwatt.sci.figures.unit_names import misspelt
from gramwatt.sci.figures.units import J_PER_KWH
from gramwatt.sci.records.merge import MergedJob
from gramwatt.sci.records.records import SYNTHETIC_METERS, UNIT_PATTERN, CountRecord
from gramwatt.sci.score.allocation import EmbodiedShares
from gramwatt.sci.score.identify import IdentifiedJob, ScoreContext
from gramwatt.sci.score.location import Place
from gramwatt.sci.score.operational import JobEnergy

PREFIX = "convert."
UNIT_UNDECLARED = "No functional unit was declared, so R is 1 job: count one, such as --unit image."
EXAMPLE = '"500 token; mean of our own corpus; 2026-05-01"'
_DATE = re.compile(r"(19|20|21)\d\d(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?")


class ScoredJob(Struct, frozen=True, dict=True):
    """A job with its energy joined with intensity, its embodied shares, and C per R.

    The counts of `job` are in the units to report, by the `conversions` that were used. The terms
    `energy_kwh` [kWh], `operational_g` and `embodied_g` [gCO2e] are None where not known: one
    device without a reading makes the job's energy unknown.
    """

    job: MergedJob
    identified: IdentifiedJob
    energy: JobEnergy
    embodied: EmbodiedShares
    conversions: tuple[ConversionDoc, ...]
    unit_notices: tuple[Notice, ...]

    @property
    def context(self) -> ScoreContext:
        """Return what the score was made with."""
        return self.identified.context

    @property
    def place(self) -> Place:
        """Return where the job ran."""
        return self.identified.place

    @cached_property
    def synthetic(self) -> bool:
        """Return whether any reading comes from a meter that is no hardware."""
        noted = any(notice.code == "meter-synthetic" for notice in self.job.notices)
        return noted or any(d.record.meter in SYNTHETIC_METERS for d in self.job.devices)

    @cached_property
    def complete(self) -> bool:
        """Return whether every device of the job was read at least once."""
        return all(device.intervals for device in self.job.devices)

    @cached_property
    def energy_kwh(self) -> Quantity | None:
        """E, the energy of the IT equipment [kWh]."""
        energy = self.energy.energy_j() if self.complete else None
        return energy.scaled(1 / J_PER_KWH, "kWh") if energy else None

    @cached_property
    def operational_g(self) -> Quantity | None:
        """O [gCO2e]."""
        return self.energy.operational_g() if self.complete else None

    @property
    def embodied_g(self) -> Quantity | None:
        """M [gCO2e]."""
        return self.embodied.embodied_g

    @cached_property
    def total_g(self) -> Quantity | None:
        """C = O + M [gCO2e]."""
        operational, embodied = self.operational_g, self.embodied_g
        return operational + embodied if operational and embodied else None

    @cached_property
    def counts(self) -> Mapping[str, float]:
        """R by unit, declared units first; 1 job where nothing was counted."""
        counted = {unit: amount for unit, amount in _counted(self.job).items() if amount > 0}
        declared_first = sorted(counted, key=lambda unit: (unit not in self.job.units, unit))
        return {unit: counted[unit] for unit in declared_first} or {"job": 1.0}

    @cached_property
    def sci(self) -> list[SciDoc]:
        """C per R [gCO2e/unit] in each unit of `counts`."""
        return [sci_doc(self.total_g, count, unit) for unit, count in self.counts.items()]


def divide(identified: IdentifiedJob, energy: JobEnergy, embodied: EmbodiedShares) -> ScoredJob:
    """Return the job with C per R, after every declared factor is applied to its counts.

    A factor that cannot be used is left out with a notice: the amounts then stay as counted. A unit
    that was declared and never counted leaves a notice, and so does a job without a unit.
    """
    job = identified.job
    declared, ignored = declared_factors(job.head.tags)
    counted = _counted(job)
    used: dict[str, ConversionDoc] = {
        unit: msgspec.structs.replace(factor, counted=counted[unit])
        for unit, factor in declared.items()
        if counted.get(unit, 0.0) > 0
    }
    units = tuple(dict.fromkeys(used[u].to if u in used else u for u in job.units))
    counts = tuple(_converted(count, used) for count in job.counts)
    windows = tuple(_converted(window, used) for window in job.windows)
    converted = replace(job, counts=counts, units=units, windows=windows)
    units_counted = {unit for unit, amount in _counted(converted).items() if amount > 0}
    notices = [
        Notice("unit-not-counted", f"The unit {unit!r} was declared but never counted.", "sci")
        for unit in units
        if unit not in units_counted and unit != "job"
    ]
    notices += unit_notices([*job.units, *counted])
    if not units_counted and not units:
        notices.append(Notice("unit-undeclared", UNIT_UNDECLARED, "sci"))
    conversions = tuple(used.values())
    return ScoredJob(converted, identified, energy, embodied, conversions, (*notices, *ignored))


def unit_notices(units: Iterable[str]) -> list[Notice]:
    """Return a notice for each unit that is named like one that many jobs count."""
    texts = (misspelt(unit) for unit in dict.fromkeys(units))
    return [Notice("unit-misspelt", f"The unit {text}.") for text in texts if text]


def _converted(count: CountRecord, factors: Mapping[str, ConversionDoc]) -> CountRecord:
    factor = factors.get(count.unit)
    if factor is None:
        return count
    return msgspec.structs.replace(count, unit=factor.to, amount=count.amount * factor.factor)


def _counted(job: MergedJob) -> dict[str, float]:
    """Return R by unit as counted: the sum over all ranks and nodes of the job."""
    counted: dict[str, float] = defaultdict(float)
    for count in job.counts:
        counted[count.unit] += count.amount
    return counted


def declared_factors(
    tags: Mapping[str, str],
) -> tuple[dict[str, ConversionDoc], tuple[Notice, ...]]:
    """Return the factors declared in tags by unit, and a notice for each that cannot be used."""
    factors: dict[str, ConversionDoc] = {}
    problems: list[str] = []
    for key in sorted(tags):
        if not key.startswith(PREFIX):
            continue
        unit = key.removeprefix(PREFIX)
        try:
            factors[unit] = _parsed(unit, tags[key])
        except ValueError as error:
            problems.append(f"The tag {key!r} is ignored: {error}.")
    for unit in [unit for unit, factor in factors.items() if factor.to in factors]:
        to = factors[unit].to
        problems.append(f"The tag '{PREFIX}{unit}' is ignored: {to!r} is converted itself.")
        del factors[unit]
    return factors, tuple(Notice("argument-ignored", text, "sci") for text in problems)


def _parsed(unit: str, text: str) -> ConversionDoc:
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
    return ConversionDoc(
        unit=unit, to=to.strip(), factor=factor, source=rest[0], date=rest[1], counted=0.0
    )


def sci_doc(total_g: Quantity | None, count: float, unit: str) -> SciDoc:
    """Return R and C / R in one unit; None where C is not known, or nothing was counted."""
    figure = per_unit(total_g, count, unit).bare() if total_g and count > 0 else None
    return SciDoc(unit=unit, count=count, g_per_unit=figure)
