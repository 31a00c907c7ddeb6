"""The sums of a month's document out of the parts of its jobs; no document of a job is read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import numpy as np
from msgspec.structs import asdict

from gramwatt.sci.advice.jobs import examined
from gramwatt.sci.analysis.documents import (
    ChangeDoc,
    MarketFactor,
    ModelRow,
    ModelUnitRow,
    MonthTotals,
    ProjectRow,
)
from gramwatt.sci.analysis.model_totals import UNFINISHED
from gramwatt.sci.analysis.month import TOP, sci_row
from gramwatt.sci.analysis.month_rows import (
    AdviceRow,
    GradeLimit,
    LackingJob,
    ProjectChange,
)
from gramwatt.sci.base.document import (
    DayDoc,
    QualityDoc,
    doc,
)
from gramwatt.sci.base.notices import Notice
from gramwatt.sci.base.quantity import QuantityDoc
from gramwatt.sci.score.assess import GRADE_NEEDS, quality, sum_of, worst_status
from gramwatt.service.months.sums.accounts import Accounts
from gramwatt.service.months.sums.arrays import grouped, read_parts, values
from gramwatt.service.months.sums.avoidable import avoidable
from gramwatt.service.months.sums.decomposition import MonthByWork, by_work, change_effects
from gramwatt.service.months.sums.factors import factor_rows
from gramwatt.service.months.sums.figures import Floats, Ints, by, spans
from gramwatt.service.months.sums.part import BLOCKS, PartRow
from gramwatt.service.months.sums.previous import PreviousMonth
from gramwatt.service.months.sums.totals import Sums, Totals, by_day, by_job, change

UnitOf = TypeVar("UnitOf", ProjectRow, ModelUnitRow)
TERMS = ("energy_kwh", "operational_g", "embodied_g", "total_g")
_WEIGHTS = {"energy": 0, "intensity": 0, "embodied": 2}
"""The term whose value weights each block of the quality of a job's data."""


OVER_BEFORE = "this month over the month before"
NAMED_JOBS = 3
"""Jobs named for each thing that a better grade asks for."""


class MonthSums:
    """A month's parts, and the fields of its document that are sums over them."""

    def __init__(self, month: str, portions: Iterable[Sequence[PartRow]]) -> None:
        self._month, self._parts = month, read_parts(portions)
        parts = self._parts
        self._jobs = np.arange(len(parts.keys))
        self._whole = by_job(parts, self._jobs, np.zeros_like(self._jobs), 1, with_inputs=True)

    def as_previous(self) -> PreviousMonth:
        """Return what the document of the month after needs of this one."""
        return PreviousMonth(
            self.totals() if len(self._jobs) else None,
            self._terms(),
            self._by_work,
            self._by_project,
        )

    @cached_property
    def _accounts(self) -> Accounts:
        return Accounts(self._parts, self._whole)

    @cached_property
    def _by_work(self) -> MonthByWork:
        return by_work(self._parts)

    def fields(
        self,
        before: PreviousMonth,
        so_far: PreviousMonth | None = None,
        days: int | None = None,
        market_factors: Mapping[str, MarketFactor] = MappingProxyType({}),
    ) -> dict[str, Any]:
        """Fields of `MonthDoc`, beside the month before.

        Of a month in progress, `so_far` are its first `days` days, and `before` are as many.
        `market_factors` are those of the memo, by zone.
        """
        now = so_far or self.as_previous()
        changes = {term: _change(now, before, term) for term in TERMS}
        return {
            "compared_days": days,
            "compared": so_far.totals if so_far else None,
            "totals": self.totals(),
            "provisional": self._provisional(),
            "previous": before.totals,
            "changes": changes,
            "change_parts": _change_parts(now, before),
            "project_changes": _project_changes(now, before),
            **self._accounts.fields(),
            "market_based": self._accounts.market_based(market_factors),
            "factors": factor_rows(self._parts),
            "projects": self._per_unit(ProjectRow, "project"),
            "model_units": self._per_unit(ModelUnitRow, "model_id"),
            "models": self._models(),
            "days": self.days(),
            "data_quality": self._quality(),
            "grade_limits": self._grade_limits(),
            "conformance": self._counted("conformance"),
            "states": self._counted("state"),
            "by_state": self._by_state(),
            "notices": self._notices(),
            "notice_counts": self._notice_counts(),
            "methods": self.methods(),
            "intensity_methods": self._intensity_methods(),
            "sources": self._sources(),
        }

    def totals(self) -> MonthTotals:
        """Return the sums over all jobs."""
        return self._totals(self._whole, 0, self._jobs)

    def top(self) -> list[int]:
        """Keys of the jobs with the most carbon in the month, most first."""
        operational, embodied = values(self._parts, 1), values(self._parts, 2)
        grams = np.nan_to_num(operational + embodied)
        return list(map(int, self._parts.keys[np.argsort(-grams, kind="stable")[:TOP]]))

    def largest(self, most: int) -> list[int]:
        """Keys of so many jobs to examine (`sci.advice.jobs`), none of a synthetic meter."""
        parts = self._parts
        groups = [f"{of_job['hardware']} on {of_job['work']}" for of_job in parts.attributes]
        group = np.unique(np.array(groups, dtype=object), return_inverse=True)[1]
        real = self._by_attributes(lambda of_job: not of_job["synthetic"])[parts.attributes_of]
        jobs = np.flatnonzero(real)
        work = group.astype(np.int64)[parts.attributes_of[jobs]] if len(jobs) else jobs
        # No more than `most` of a work can be chosen: only its largest are looked at.
        order = np.lexsort((-parts.grams[jobs], work))
        rank = np.arange(len(order)) - np.searchsorted(work[order], work[order])
        jobs = jobs[order[rank < most]]
        rows = [(float(parts.grams[n]), parts.ids[n], groups[parts.attributes_of[n]]) for n in jobs]
        return [int(parts.keys[jobs[place]]) for place in examined(rows, most)]

    def avoidable(self) -> list[AdviceRow]:
        """Return actions by what all jobs used to no end."""
        return avoidable(self._parts, *self._accounts.idle_and_all_g())

    def methods(self) -> list[list[str]]:
        """Return the methods that the jobs are scored by."""
        return [
            list(m) for m in sorted({tuple(of_job["method"]) for of_job in self._parts.attributes})
        ]

    def _terms(self) -> dict[str, Sums]:
        return {term: getattr(self._whole, term) for term in TERMS}

    def _by_attributes(self, value: Callable[[dict[str, Any]], Any]) -> Ints:
        return np.array([value(of_job) for of_job in self._parts.attributes], np.int64)

    def _totals(self, totals: Totals, cell: int, jobs: Ints) -> MonthTotals:
        return MonthTotals(
            jobs=len(jobs),
            jobs_ended=int(self._parts.ended[jobs].sum()),
            jobs_unknown=int(len(jobs) - self._parts.known[jobs].sum()),
            energy_kwh=totals.energy_kwh.doc(cell),
            operational_g=totals.operational_g.doc(cell),
            embodied_g=totals.embodied_g.doc(cell),
            total_g=totals.total_g.doc(cell),
        )

    def _by_state(self) -> dict[str, MonthTotals]:
        """Totals of the jobs that ended in each state: what failed and killed jobs used counts."""
        states, jobs, cell = grouped(self._parts, lambda of_job: of_job["state"])
        totals = by_job(self._parts, jobs, cell, len(states))
        return {s: self._totals(totals, n, jobs[cell == n]) for n, s in enumerate(states)}

    def _provisional(self) -> MonthTotals:
        """Totals of the jobs whose grid intensity is not final."""
        _, jobs, cell = grouped(self._parts, lambda of_job: of_job["provisional"] or None)
        return self._totals(by_job(self._parts, jobs, cell, 1), 0, jobs)

    def _models(self) -> list[ModelRow]:
        """Return every model's runs; those that make it and those that use it are separate rows."""
        models, jobs, cell = grouped(
            self._parts,
            lambda of_job: (of_job["model_id"], of_job["persona"]) if of_job["model_id"] else None,
        )
        totals = by_job(self._parts, jobs, cell, len(models), with_inputs=True)
        ended = self._by_attributes(lambda of_job: of_job["state"] in UNFINISHED)[
            self._parts.attributes_of[jobs]
        ]
        lost = ended == 1
        without_result = by_job(self._parts, jobs[lost], cell[lost], len(models)).total_g
        counted, unfinished = (
            by(cell, np.ones(len(cell)), len(models)),
            by(cell, ended, len(models)),
        )
        return [
            ModelRow(
                model_id=model_id,
                persona=whose,
                jobs=int(counted[n]),
                unfinished=int(unfinished[n]),
                energy_kwh=totals.energy_kwh.doc(n),
                facility_kwh=doc(self._accounts.facility(totals, n, jobs[cell == n])),
                total_g=totals.total_g.doc(n),
                unfinished_g=without_result.doc(n),
            )
            for n, (model_id, whose) in enumerate(models)
        ]

    def _per_unit(self, shape: type[UnitOf], of: Literal["project", "model_id"]) -> list[UnitOf]:
        """Return sum(C) / sum(R) by project or model, and unit.

        Parts of jobs with an unknown total are left out of both sums.
        """
        parts = self._parts
        of_attributes = [[(t[of], unit) for unit in t["scored"] if t[of]] for t in parts.attributes]
        rows = sorted({row for named in of_attributes for row in named})
        number = {row: n for n, row in enumerate(rows)}
        cells = [[number[row] for row in named] for named in of_attributes]
        flat = np.array([n for of_one in cells for n in of_one], np.int64)
        sizes = np.array([len(of_one) for of_one in cells], np.int64)
        job = np.repeat(self._jobs, sizes[parts.attributes_of])
        cell = flat[
            spans((np.cumsum(sizes) - sizes)[parts.attributes_of], sizes[parts.attributes_of])
        ]
        known = parts.known[job] == 1
        energy = by_job(parts, job, cell, len(rows)).energy_kwh
        total_g = by_job(parts, job[known], cell[known], len(rows)).total_g
        counts, jobs = self._counts(number, of), by(cell, np.ones(len(cell)), len(rows))
        status: dict[int, set[str]] = defaultdict(set)
        for of_job, of_row in zip(parts.attributes, cells, strict=True):
            for n in of_row:
                status[n].add(of_job["conformance"])
        return [
            shape(
                **{of: name},
                **asdict(sci_row(unit, float(counts[n]), total_g.quantity(n))),
                jobs=int(jobs[n]),
                energy_kwh=energy.doc(n),
                total_g=total_g.doc(n),
                conformance=worst_status(status[n]),
            )
            for n, (name, unit) in enumerate(rows)
        ]

    def _counts(self, number: dict[tuple[str, str], int], of: str) -> Floats:
        """R by project or model, and unit, of jobs with a known total and a score in the unit."""
        parts, counts = self._parts, self._parts.counts
        keys, place = np.unique(
            parts.attributes_of[counts.job] * len(parts.units) + counts.what, return_inverse=True
        )
        cell = np.full(len(keys), -1)
        for n, key in enumerate(keys):
            of_job = parts.attributes[key // len(parts.units)]
            unit = parts.units[key % len(parts.units)]
            if of_job[of] and unit in of_job["scored"]:
                cell[n] = number[of_job[of], unit]
        rows = (cell[place] >= 0) & (parts.known[counts.job] == 1)
        return by(cell[place][rows], counts.amount[rows], len(number))

    def days(self) -> list[DayDoc]:
        """Return the sums of each day that has a part of a job."""
        parts, counts = self._parts, self._parts.counts
        totals, units = by_day(parts), len(parts.units)
        amounts = by(counts.day * units + counts.what, counts.amount, 32 * units)
        met = by(counts.day * units + counts.what, np.ones(len(counts.day)), 32 * units)
        rows: list[DayDoc] = []
        for day in parts.days:
            of_day = range(day * units, (day + 1) * units)
            row: DayDoc = DayDoc(
                day=f"{self._month}-{day:02d}",
                energy_kwh=totals.energy_kwh.doc(day),
                operational_g=totals.operational_g.doc(day),
                embodied_g=totals.embodied_g.doc(day),
                counts={parts.units[n % units]: float(amounts[n]) for n in of_day if met[n]},
            )
            rows.append(row)
        return rows

    def _quality(self) -> QualityDoc:
        """Shares over the month: those of each job, weighted by its energy or embodied carbon."""
        amounts: dict[str, dict[str, float]] = {block: {} for block in BLOCKS}
        for (block, key), of_jobs in self._amounts.items():
            amounts[block][key] = float(of_jobs.sum())
        return quality(*(amounts[block] for block in BLOCKS))

    @cached_property
    def _amounts(self) -> dict[tuple[str, str], Floats]:
        """Energy [kWh] or embodied carbon [gCO2e] of each job by block and key of quality."""
        parts, rows = self._parts, self._parts.quality
        weights = {term: np.nan_to_num(values(parts, term)) for term in set(_WEIGHTS.values())}
        found: dict[tuple[str, str], Floats] = {}
        for number, (block, key) in enumerate(parts.keys_of_quality):
            if block in _WEIGHTS:
                mine = rows.what == number
                weighted = rows.amount[mine] * weights[_WEIGHTS[block]][rows.job[mine]]
                found[block, key] = by(rows.job[mine], weighted, len(self._jobs))
        return found

    def _grade_limits(self) -> list[GradeLimit]:
        """Return what the next better grade asks for and the month lacks, and which jobs most."""
        shares = self._quality()
        grades = [name for name, _ in GRADE_NEEDS]
        place = grades.index(shares.grade) if shares.grade in grades else len(grades)
        if place == 0:
            return []
        better, needs = GRADE_NEEDS[place - 1]
        return [
            self._grade_limit(better, block, kinds, least)
            for block, kinds, least in needs
            if (known := getattr(shares, block)) and sum_of(known, kinds) < least
        ]

    def _grade_limit(
        self, better: str, block: str, kinds: Sequence[str], least: float
    ) -> GradeLimit:
        mine = {key: of for (of_block, key), of in self._amounts.items() if of_block == block}
        whole = sum(float(of.sum()) for of in mine.values())
        others = [of for key, of in mine.items() if key not in kinds]
        lacking = np.sum(others, axis=0)
        most = [n for n in np.argsort(-lacking, kind="stable")[:NAMED_JOBS] if lacking[n] > 0]
        parts = self._parts
        return GradeLimit(
            grade=better,
            block=block,
            kinds=list(kinds),
            share=1 - float(lacking.sum()) / whole,
            needed=least,
            jobs=[
                LackingJob(
                    job_id=parts.ids[n],
                    name=parts.ids[n],
                    project=parts.attributes[parts.attributes_of[n]]["project"],
                    share=float(lacking[n]) / whole,
                )
                for n in most
            ],
        )

    def _intensity_methods(self) -> list[list[str]]:
        """Return zone, resolution and series of the intensities that the jobs are scored with."""
        found = {tuple(row[:3]) for of_job in self._parts.attributes for row in of_job["intensity"]}
        return [list(row) for row in sorted(found)]

    @cached_property
    def _by_project(self) -> tuple[list[str], Sums]:
        names, jobs, cell = grouped(self._parts, lambda of_job: of_job["project"])
        return names, by_job(self._parts, jobs, cell, len(names), with_inputs=True).total_g

    def _counted(self, name: str) -> dict[str, int]:
        found: Counter[str] = Counter()
        for of_job, jobs in zip(self._parts.attributes, self._jobs_by_attributes(), strict=True):
            found[of_job[name]] += int(jobs)
        return dict(found)

    def _jobs_by_attributes(self) -> Ints:
        return np.bincount(self._parts.attributes_of, minlength=len(self._parts.attributes))

    def _sources(self) -> list[str]:
        """Return each source once."""
        return sorted({source for of_job in self._parts.attributes for source in of_job["sources"]})

    def _notices(self) -> list[Notice]:
        unique = {
            (code, text) for of_job in self._parts.attributes for code, text in of_job["notices"]
        }
        return [Notice(code=code, message=text, field=None) for code, text in sorted(unique)]

    def _notice_counts(self) -> dict[str, int]:
        """Return how many jobs have each notice, by code."""
        found: Counter[str] = Counter()
        for of_job, jobs in zip(self._parts.attributes, self._jobs_by_attributes(), strict=True):
            for code in {code for code, _ in of_job["notices"]}:
                found[code] += int(jobs)
        return dict(sorted(found.items()))


def _change(after: PreviousMonth, before: PreviousMonth, term: str) -> QuantityDoc | None:
    found = change(after.terms[term], before.terms[term])
    return doc(found.sourced(OVER_BEFORE) if found else None)


def _change_parts(after: PreviousMonth, before: PreviousMonth) -> ChangeDoc | None:
    """None where the total of either month is not known: unknown is not zero."""
    known = [of.terms["total_g"].quantity(0) for of in (after, before)]
    return change_effects(after.by_work, before.by_work) if all(known) else None


def _project_changes(after: PreviousMonth, before: PreviousMonth) -> list[ProjectChange]:
    """Return the total of each project in both months, the largest differences first."""
    if before.totals is None or after.totals is None:
        return []
    (names, now), (names_then, then) = after.projects, before.projects
    rows: list[ProjectChange] = []
    for project in sorted({*names, *names_then}):
        new = names.index(project) if project in names else None
        old = names_then.index(project) if project in names_then else None
        ratio = None if new is None or old is None else change(now, then, (new, old))
        rows.append(
            ProjectChange(
                project=project,
                total_g=None if new is None else now.doc(new),
                previous_g=None if old is None else then.doc(old),
                change=doc(ratio.sourced(OVER_BEFORE) if ratio else None),
            )
        )
    return sorted(rows, key=lambda row: (-_difference(row), row.project))


def _difference(row: ProjectChange) -> float:
    """Return how far the totals of a project lie apart [gCO2e]; what is not known counts as 0."""
    now, then = row.total_g, row.previous_g
    return abs((now["value"] if now else 0.0) - (then["value"] if then else 0.0))
