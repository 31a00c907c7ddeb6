"""The sums of a month's document out of the parts of its jobs; no document of a job is read."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from gramwatt.sci.advice.jobs import examined
from gramwatt.sci.analysis.documents import ChangeDoc, ModelRow, MonthTotals, ProjectRow
from gramwatt.sci.analysis.model_totals import UNFINISHED
from gramwatt.sci.analysis.month import TOP, sci_row
from gramwatt.sci.base.document import (
    DayDoc,
    QualityDoc,
    doc,
)
from gramwatt.sci.base.notices import NoticeDoc
from gramwatt.sci.base.quantity import QuantityDoc
from gramwatt.sci.score.assess import quality, worst_status
from gramwatt.service.months.sums.accounts import Accounts
from gramwatt.service.months.sums.arrays import grouped, read_parts, values
from gramwatt.service.months.sums.decomposition import Side, change_effects, side
from gramwatt.service.months.sums.earlier import Earlier
from gramwatt.service.months.sums.figures import Floats, Ints, by, spans
from gramwatt.service.months.sums.part import BLOCKS, PartRow
from gramwatt.service.months.sums.totals import Sums, Totals, by_day, by_job, change

TERMS = ("energy_kwh", "operational_g", "embodied_g", "total_g")
_BETWEEN = re.compile(r"; (?![^()]*\))")
"""Between the sources of a figure, not within one's remark in parentheses."""
_WEIGHTS = {"energy": 0, "intensity": 0, "embodied": 2}
"""The term whose value weights each block of the quality of a job's data."""


class MonthSums:
    """A month's parts, and the fields of its document that are sums over them."""

    def __init__(self, month: str, portions: Iterable[Sequence[PartRow]]) -> None:
        self._month, self._parts = month, read_parts(portions)
        parts = self._parts
        self._jobs = np.arange(len(parts.keys))
        self._whole = by_job(parts, self._jobs, np.zeros_like(self._jobs), 1, with_inputs=True)

    def earlier(self) -> Earlier:
        """Return what the document of the month after needs of this one."""
        return Earlier(self.totals() if self.last() else None, self._terms(), self._side)

    @cached_property
    def _side(self) -> Side:
        return side(self._parts)

    def fields(self, before: Earlier) -> dict[str, Any]:
        """Fields of `MonthDoc`, beside the month before."""
        changes = {term: self._change(before, term) for term in TERMS}
        return {
            "totals": self.totals(),
            "provisional": self._provisional(),
            "previous": before.totals,
            "changes": changes,
            "change_parts": self._change_parts(before),
            **Accounts(self._parts, self._whole).fields(),
            "projects": self._projects(),
            "models": self._models(),
            "days": self.days(),
            "data_quality": self._quality(),
            "conformance": self._counted("conformance"),
            "states": self._counted("state"),
            "by_state": self._by_state(),
            "notices": self._notices(),
            "notice_counts": self._notice_counts(),
            "methods": self.methods(),
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
        parts, groups = self._parts, [f"{t['hardware']} on {t['work']}" for t in self._parts.traits]
        group = np.unique(np.array(groups, dtype=object), return_inverse=True)[1]
        real = self._by_trait(lambda trait: not trait["synthetic"])[parts.trait]
        jobs = np.flatnonzero(real)
        work = group.astype(np.int64)[parts.trait[jobs]] if len(jobs) else jobs
        # No more than `most` of a work can be chosen: only its largest are looked at.
        order = np.lexsort((-parts.grams[jobs], work))
        rank = np.arange(len(order)) - np.searchsorted(work[order], work[order])
        jobs = jobs[order[rank < most]]
        rows = [(float(parts.grams[n]), parts.ids[n], groups[parts.trait[n]]) for n in jobs]
        return [int(parts.keys[jobs[place]]) for place in examined(rows, most)]

    def methods(self) -> list[list[str]]:
        """Return the methods that the jobs are scored by."""
        return [list(m) for m in sorted({tuple(trait["method"]) for trait in self._parts.traits})]

    def last(self) -> list[int]:
        """Return the key of the job that started last; none where there is no job."""
        return list(map(int, self._parts.keys[-1:]))

    def _change_parts(self, before: Earlier) -> ChangeDoc | None:
        """None where the total of either month is not known: unknown is not zero."""
        known = [of["total_g"].quantity(0) for of in (self._terms(), before.terms)]
        return change_effects(self._side, before.side) if all(known) else None

    def _change(self, before: Earlier, term: str) -> QuantityDoc | None:
        found = change(self._terms()[term], before.terms[term])
        return doc(found.sourced("this month over the month before") if found else None)

    def _terms(self) -> dict[str, Sums]:
        return {term: getattr(self._whole, term) for term in TERMS}

    def _by_trait(self, value: Callable[[dict[str, Any]], Any]) -> Ints:
        return np.array([value(trait) for trait in self._parts.traits], np.int64)

    def _totals(self, totals: Totals, cell: int, jobs: Ints) -> MonthTotals:
        return {
            "jobs": len(jobs),
            "jobs_ended": int(self._parts.ended[jobs].sum()),
            "jobs_unknown": int(len(jobs) - self._parts.known[jobs].sum()),
            "energy_kwh": totals.energy_kwh.doc(cell),
            "operational_g": totals.operational_g.doc(cell),
            "embodied_g": totals.embodied_g.doc(cell),
            "total_g": totals.total_g.doc(cell),
        }

    def _by_state(self) -> dict[str, MonthTotals]:
        """Totals of the jobs that ended in each state: what failed and killed jobs used counts."""
        states, jobs, cell = grouped(self._parts, lambda trait: trait["state"])
        totals = by_job(self._parts, jobs, cell, len(states))
        return {s: self._totals(totals, n, jobs[cell == n]) for n, s in enumerate(states)}

    def _provisional(self) -> MonthTotals:
        """Totals of the jobs whose grid intensity is not final."""
        _, jobs, cell = grouped(self._parts, lambda trait: trait.get("provisional") or None)
        return self._totals(by_job(self._parts, jobs, cell, 1), 0, jobs)

    def _models(self) -> list[ModelRow]:
        """Return every model's runs; those that make it and those that use it are separate rows."""
        models, jobs, cell = grouped(
            self._parts,
            lambda trait: (trait["model_id"], trait["persona"]) if trait["model_id"] else None,
        )
        totals = by_job(self._parts, jobs, cell, len(models))
        ended = self._by_trait(lambda trait: trait["state"] in UNFINISHED)[self._parts.trait[jobs]]
        lost = ended == 1
        without_result = by_job(self._parts, jobs[lost], cell[lost], len(models)).total_g
        counted, unfinished = (
            by(cell, np.ones(len(cell)), len(models)),
            by(cell, ended, len(models)),
        )
        return [
            {
                "model_id": model_id,
                "persona": whose,
                "jobs": int(counted[n]),
                "unfinished": int(unfinished[n]),
                "energy_kwh": totals.energy_kwh.doc(n),
                "total_g": totals.total_g.doc(n),
                "unfinished_g": without_result.doc(n),
            }
            for n, (model_id, whose) in enumerate(models)
        ]

    def _projects(self) -> list[ProjectRow]:
        """sum(C) / sum(R): parts of jobs with an unknown total are left out of both sums."""
        parts = self._parts
        of_trait = [[(t["project"], unit) for unit in t["scored"]] for t in parts.traits]
        rows = sorted({row for named in of_trait for row in named})
        number = {row: n for n, row in enumerate(rows)}
        cells = [[number[row] for row in named] for named in of_trait]
        flat = np.array([n for of_one in cells for n in of_one], np.int64)
        sizes = np.array([len(of_one) for of_one in cells], np.int64)
        job = np.repeat(self._jobs, sizes[parts.trait])
        cell = flat[spans((np.cumsum(sizes) - sizes)[parts.trait], sizes[parts.trait])]
        known = parts.known[job] == 1
        energy = by_job(parts, job, cell, len(rows)).energy_kwh
        total_g = by_job(parts, job[known], cell[known], len(rows)).total_g
        counts, jobs = self._counts(number), by(cell, np.ones(len(cell)), len(rows))
        status: dict[int, set[str]] = defaultdict(set)
        for trait, of_row in zip(parts.traits, cells, strict=True):
            for n in of_row:
                status[n].add(trait["conformance"])
        return [
            {
                "project": project,
                **sci_row(unit, float(counts[n]), total_g.quantity(n)),
                "jobs": int(jobs[n]),
                "energy_kwh": energy.doc(n),
                "total_g": total_g.doc(n),
                "conformance": worst_status(status[n]),
            }
            for n, (project, unit) in enumerate(rows)
        ]

    def _counts(self, number: dict[tuple[str, str], int]) -> Floats:
        """R by project and unit, of jobs whose total is known and that have a score in the unit."""
        parts, counts = self._parts, self._parts.counts
        keys, place = np.unique(
            parts.trait[counts.job] * len(parts.units) + counts.what, return_inverse=True
        )
        cell = np.full(len(keys), -1)
        for n, key in enumerate(keys):
            trait, unit = parts.traits[key // len(parts.units)], parts.units[key % len(parts.units)]
            if unit in trait["scored"]:
                cell[n] = number[trait["project"], unit]
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
            row: DayDoc = {
                "day": f"{self._month}-{day:02d}",
                "energy_kwh": totals.energy_kwh.doc(day),
                "operational_g": totals.operational_g.doc(day),
                "embodied_g": totals.embodied_g.doc(day),
                "counts": {parts.units[n % units]: float(amounts[n]) for n in of_day if met[n]},
            }
            rows.append(row)
        return rows

    def _quality(self) -> QualityDoc:
        """Shares over the month: those of each job, weighted by its energy or embodied carbon."""
        parts, rows = self._parts, self._parts.quality
        amounts: dict[str, dict[str, float]] = {block: {} for block in BLOCKS}
        weights = {term: np.nan_to_num(values(parts, term)) for term in set(_WEIGHTS.values())}
        for number, (block, key) in enumerate(parts.keys_of_quality):
            if block not in _WEIGHTS:
                continue
            mine = rows.what == number
            weighted = rows.amount[mine] * weights[_WEIGHTS[block]][rows.job[mine]]
            amounts[block][key] = float(weighted.sum())
        return quality(*(amounts[block] for block in BLOCKS))

    def _counted(self, name: str) -> dict[str, int]:
        found: Counter[str] = Counter()
        for trait, jobs in zip(self._parts.traits, self._jobs_by_trait(), strict=True):
            found[trait[name]] += int(jobs)
        return dict(found)

    def _jobs_by_trait(self) -> Ints:
        return np.bincount(self._parts.trait, minlength=len(self._parts.traits))

    def _sources(self) -> list[str]:
        """Return each source once, also of those that a figure has together."""
        found = {source for trait in self._parts.traits for source in trait["sources"]}
        return sorted({one for together in found for one in _BETWEEN.split(together)})

    def _notices(self) -> list[NoticeDoc]:
        unique = {(code, text) for trait in self._parts.traits for code, text in trait["notices"]}
        return [{"code": code, "message": text, "field": None} for code, text in sorted(unique)]

    def _notice_counts(self) -> dict[str, int]:
        """Return how many jobs have each notice, by code."""
        found: Counter[str] = Counter()
        for trait, jobs in zip(self._parts.traits, self._jobs_by_trait(), strict=True):
            for code in {code for code, _ in trait["notices"]}:
                found[code] += int(jobs)
        return dict(sorted(found.items()))
