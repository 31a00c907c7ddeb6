"""A job's part of a month, and what a month's document says of single jobs.

A job that crosses the end of the month counts with its days inside it, and the score divides each
of its terms and R among its days by time. So months add up to the year in everything but `jobs`,
which has a job in each month of it. The sums over all jobs are made from their parts kept as
numbers (`service/months/sums`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import fsum

from msgspec import Struct

from gramwatt.sci.figures.document import DayDoc, JobDoc, JobHead, Term
from gramwatt.sci.figures.meters import energy
from gramwatt.sci.figures.quantity import (
    KINDS,
    Kind,
    Quantity,
    bare,
    kind_of_sum,
    total,
    total_known,
    weakest,
)
from gramwatt.sci.figures.units import J_PER_KWH
from gramwatt.sci.month.columns import JOB_TERMS
from gramwatt.sci.month.documents import ExcludedDoc, PendingDoc, PendingJobRow

TOP = 10
NAMED_MOST = 20
"""Running or unscored jobs that a month names; it counts all."""
ALIKE = 0.05
"""Relative difference up to which the range of a day counts as that of its job."""


class Pending(Struct, frozen=True):
    """A job that runs or has no score, and its energy so far in the month [J] by kind."""

    job_id: str
    name: str
    project: str
    joules: Mapping[str, float]

    @property
    def energy_kwh(self) -> Quantity | None:
        """Return its energy [kWh] so far; None where nothing was read."""
        by_kind = {kind: self.joules[kind] for kind in KINDS if kind in self.joules}
        figures = total(
            energy(joules, kind, "intervals so far") for kind, joules in by_kind.items()
        )
        if figures is None:
            return None
        return figures.of_kind(kind_of_sum(by_kind)).scaled(1 / J_PER_KWH, "kWh")


def previous_month(month: str) -> str:
    """Return the month that precedes `month`, both YYYY-MM."""
    year, number = int(month[:4]), int(month[5:7])
    return f"{year - 1:04d}-12" if number == 1 else f"{year:04d}-{number - 1:02d}"


class Terms(Struct, frozen=True, dict=True):
    """E [kWh], O and M [gCO2e] over days, of the figures that are known; None where none is."""

    energy_kwh: Quantity | None
    operational_g: Quantity | None
    embodied_g: Quantity | None

    @cached_property
    def total_g(self) -> Quantity | None:
        """Return C = O + M [gCO2e]."""
        operational, embodied = self.operational_g, self.embodied_g
        return operational + embodied if operational and embodied else None


class Part(Struct, frozen=True, dict=True):
    """A job over some of its days."""

    job: JobDoc
    days: Sequence[DayDoc]

    @property
    def ended(self) -> bool:
        """Return whether the job's last day is among them."""
        return self.days[-1].day == self.job.days[-1].day

    @cached_property
    def sums(self) -> Terms:
        """Return the terms of the job over these days."""
        return Terms(*(self._term(term) for term in JOB_TERMS))

    def count(self, unit: str) -> float:
        """Return R of the job in this unit over these days."""
        return sum(day.counts.get(unit, 0.0) for day in self.days)

    def _term(self, term: Term) -> Quantity | None:
        """Return a term of the job over these days, with the job's uncertainty by inputs.

        Days whose own range differs from the job's, such as those after a meter failed, have the
        inputs' effects fitted to it, so that a part of the job is as certain as its days are. Its
        kind is theirs too: of energy the one that nine tenths of it reach, else the weakest.
        """
        figures: list[Quantity] = [
            of_day for of_day in (getattr(day, term) for day in self.days) if of_day is not None
        ]
        whole: Quantity | None = getattr(self.job, term)
        if not figures or whole is None or whole.value <= 0:
            return total_known(figures)
        if len(self.days) == len(self.job.days) or not whole.relative:
            return whole.scaled(fsum(of_day.value for of_day in figures) / whole.value)
        values: dict[tuple[float, float] | None, list[float]] = defaultdict(list)
        kinds: dict[Kind, float] = defaultdict(float)
        for of_day in figures:
            values[_own_range(of_day, whole)].append(of_day.value)
            if of_day.value > 0:
                kinds[of_day.kind] += of_day.value
        summed = total(
            (whole.fitted(*ends) if ends else whole).scaled(fsum(of_ends) / whole.value)
            for ends, of_ends in values.items()
        )
        if summed is None or not kinds:
            return summed
        kind = kind_of_sum(kinds) if term == "energy_kwh" else weakest(kinds)
        return summed.of_kind(kind)


def _own_range(of_day: Quantity, whole: Quantity) -> tuple[float, float] | None:
    """Return the range of a day as multiples of its value; None where it is about the job's."""
    value, low, high = of_day.value, of_day.low, of_day.high
    if not low > 0 or not whole.low > 0:
        return None
    ends = round(low / value, 3), round(high / value, 3)
    usual = whole.low / whole.value, whole.high / whole.value
    pairs = zip(ends, usual, strict=True)
    alike = all(abs(end - of_job) <= ALIKE * abs(of_job - 1) for end, of_job in pairs)
    return None if alike else ends


def months_of(job: JobDoc) -> dict[str, Part]:
    """Return the job's part of each month (YYYY-MM) that it has a day in."""
    days: dict[str, list[DayDoc]] = defaultdict(list)
    for day in job.days:
        days[day.day[:7]].append(day)
    return {month: Part(job, of_month) for month, of_month in days.items()}


def excluded_row(job: JobHead) -> ExcludedDoc:
    """Return an excluded job, and why it is left out."""
    return ExcludedDoc(
        job_id=job.job_id, name=job.name, project=job.project, reason=job.excluded or ""
    )


def pending_doc(jobs: Sequence[Pending]) -> PendingDoc:
    """Return jobs without a score: how many, their energy, and those with the most by name."""
    energies = [(job, job.energy_kwh) for job in jobs]
    energies.sort(key=lambda pair: (-pair[1].value if pair[1] else 0.0, pair[0].job_id))
    named: list[PendingJobRow] = [
        PendingJobRow(
            job_id=job.job_id, name=job.name, project=job.project, energy_kwh=bare(energy_kwh)
        )
        for job, energy_kwh in energies[:NAMED_MOST]
    ]
    whole = total(energy_kwh for _, energy_kwh in energies if energy_kwh)
    amounts = {kind: fsum(job.joules.get(kind, 0.0) for job in jobs) for kind in KINDS}
    if whole and sum(amounts.values()) > 0:
        whole = whole.of_kind(kind_of_sum(amounts))
    return PendingDoc(jobs=len(jobs), energy_kwh=bare(whole), named=named)
