"""A month's carbon by component, boundary, outcome, owner and hardware; they sum to the total."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from gramwatt.sci.analysis.breakdown import WEIGHTS
from gramwatt.sci.analysis.documents import (
    BoundaryDoc,
    ChargeRow,
    ComponentRow,
    LedgerRow,
    MarketFactor,
    MarketRow,
    ProjectCharge,
    WorkRow,
)
from gramwatt.sci.analysis.factors import KWH, FactorKey
from gramwatt.sci.analysis.month_rows import (
    MonthMethodDoc,
)
from gramwatt.sci.base.document import doc
from gramwatt.sci.base.quantity import Quantity, QuantityDoc, weakest
from gramwatt.sci.journal.records import ACCELERATORS
from gramwatt.sci.score.boundary import APPROACH, FORMULA, INCLUDED, STANDARD
from gramwatt.service.months.sums.arrays import Parts, grouped, values
from gramwatt.service.months.sums.figures import Floats, Ints
from gramwatt.service.months.sums.totals import Totals, by_job, component_sums, factor
from gramwatt.service.store.documents import to_text

_TERMS = ("energy_kwh", "operational_g", "embodied_g")
COMPLETED, SWEEP, IDLE, OTHER = "completed", "sweep", "idle", "other"
OUTCOMES = (COMPLETED, IDLE, SWEEP, "failed", "killed", "lost")
"""What became of the work, in the order of the ledger."""


class Accounts:
    """The accounts of a month's parts; `whole` are the sums over all jobs."""

    def __init__(self, parts: Parts, whole: Totals) -> None:
        self._parts, self._whole = parts, whole
        self._values = [np.nan_to_num(values(parts, n)) for n in range(len(_TERMS))]
        self._number = {key: n for n, key in enumerate(parts.keys_of_quality)}

    def fields(self) -> dict[str, Any]:
        """Return the fields of `MonthDoc` that these accounts are."""
        return {
            "components": self._components("operational") + self._components("embodied"),
            "boundary": self._boundary(),
            "ledger": self._ledger(),
            "idle_not_seen_kwh": self._idle_not_seen(),
            "chargeback": self._chargeback(),
            "by_project": self._by_project(),
            "work": self._work(),
            "method": self.method(),
        }

    def _weighted(self, block: str, key: str, weight: str) -> Floats:
        """Return a share of each job times the term [of the month] that it is a share of."""
        found, rows = np.zeros(len(self._parts.keys)), self._parts.quality
        within = rows.what == self._number.get((f"{block} by", key), -1)
        jobs = rows.job[within]
        found[jobs] = rows.amount[within] * self._values[_TERMS.index(weight)][jobs]
        return found

    def _of(self, block: str, key: str) -> Floats:
        return self._weighted(block, key, WEIGHTS[block, key])

    def _components(self, part: str) -> list[ComponentRow]:
        """O or M by class of device, each with its own range.

        What no job divides stands as `other`, with a share of the term's range.
        """
        whole = getattr(self._whole, f"{part}_g").quantity(0)
        if whole is None or whole.value <= 0:
            return []
        found = {key: g for (of, key), g in sorted(self._by_component.items()) if of == part}
        summed = math.fsum(g.value for g in found.values())
        rest = whole.value - summed
        if rest > 1e-9 * whole.value:
            found[OTHER] = whole.scaled(rest / whole.value)
            summed = whole.value
        return [
            ComponentRow(part=part, component=key, g=share_of(g, whole.value / summed))
            for key, g in found.items()
            if g.value > 0
        ]

    @cached_property
    def _by_component(self) -> dict[tuple[str, str], Quantity]:
        return component_sums(self._parts)

    def facility(self, totals: Totals, cell: int, jobs: Ints) -> Quantity | None:
        """Return the energy of the facility [kWh], E times PUE, with the ranges of both."""
        energy, pue = totals.energy_kwh.quantity(cell), self._pue(totals, cell, jobs)
        return energy.times(pue, "kWh") if energy and pue else None

    def market_based(self, factors: Mapping[str, MarketFactor]) -> list[MarketRow]:
        """Return the energy of the facility in each zone with a factor, times that factor."""
        named = [
            FactorKey.from_text(text) if block == f"{KWH} by" else None
            for block, text in self._parts.keys_of_quality
        ]
        pue = np.array([key.pue[0] if key else 0.0 for key in named])
        rows, found = self._parts.quality, []
        for zone, stated in sorted(factors.items()):
            within = np.array([key is not None and key.zone == zone for key in named], bool)
            mine = within[rows.what]
            jobs = np.unique(rows.job[mine]).astype(np.int64)
            totals = by_job(self._parts, jobs, np.zeros_like(jobs), 1, with_inputs=True)
            whole = self.facility(totals, 0, jobs) if len(jobs) else None
            if whole is None or whole.value <= 0:
                continue
            # Of a job in several zones, what it drew in this one.
            kwh = float((rows.amount[mine] * pue[rows.what[mine]]).sum())
            energy = whole.scaled(kwh / whole.value)
            declared = Quantity.exact(stated.g_per_kwh, "gCO2e/kWh", "declared", stated.source)
            found.append(
                MarketRow(
                    zone=zone,
                    energy_kwh=energy.to_doc(),
                    factor_g_per_kwh=declared.to_doc(),
                    market_g=energy.times(declared, "gCO2e").to_doc(),
                )
            )
        return found

    def _pue(self, totals: Totals, cell: int, jobs: Ints) -> Quantity | None:
        """Return the mean PUE of these jobs by energy; `totals` are sums with their inputs."""
        energy = totals.energy_kwh.quantity(cell)
        facility_kwh = float(self._of("boundary", "facility")[jobs].sum())
        if energy is None or not (energy.value > 0 and facility_kwh > 0):
            return None
        known = [
            self._parts.attributes[n]["pue"] for n in np.unique(self._parts.attributes_of[jobs])
        ]
        sources = sorted({source for _, of_job, _ in known for source in of_job})
        kind = weakest(kind for kind, *_ in known)
        ids = {id_ for *_, of_job in known for id_ in of_job}
        spread = factor(totals.operational_g, totals.energy_kwh, cell, ids, only=True)
        value = facility_kwh / energy.value
        if spread is None or not spread.value > 0:
            return Quantity.exact(value, "1", kind, *sources)
        ends = (spread.low / spread.value, spread.high / spread.value)
        return Quantity.exact(value, "1", kind, *sources).ranged(*ends)

    def method(self) -> MonthMethodDoc | None:
        """Return by what the month's jobs are scored, with means over the month; None for no job.

        The mean intensity is weighted by the energy of the facility, so that E x I x PUE is O.
        """
        attributes = self._parts.attributes
        if not attributes:
            return None
        jobs = np.arange(len(self._parts.keys))
        pue = self._pue(self._whole, 0, jobs)
        ids = {id_ for of_job in attributes for id_ in of_job["pue"][2]}
        by_energy = factor(self._whole.operational_g, self._whole.energy_kwh, 0, ids)
        intensity = by_energy.scaled(1 / pue.value, "gCO2e/kWh") if by_energy and pue else None
        lives = {to_text(of_job["life"]): of_job["life"] for of_job in attributes}
        if intensity is not None:
            used = {row[3] for of_job in attributes for row in of_job["intensity"]}
            intensity = intensity.sourced(*(sorted(used) or intensity.sources))

        def said(number: int) -> str:
            return "; ".join(sorted({of_job["method"][number] for of_job in attributes}))

        supplies = sorted({of_job["supply"] for of_job in attributes})
        return MonthMethodDoc(
            standard=STANDARD,
            formula=FORMULA,
            engine_version=said(0),
            catalog_version=said(1),
            boundary_included=list(INCLUDED),
            boundary_excluded=sorted(
                {text for of_job in attributes for text in of_job["excludes"]}
            ),
            intensity_signal=said(2),
            intensity_basis=said(3),
            intensity_approach=APPROACH,
            supply="; ".join(supplies),
            supplies=supplies,
            zones=sorted({zone for of_job in attributes for zone in of_job["zones"]}),
            lifetime_years=next(iter(lives.values())) if len(lives) == 1 else None,
            pue=doc(pue),
            intensity_g_per_kwh=doc(intensity),
            time_zone="; ".join(sorted({of_job["time_zone"] for of_job in attributes})),
        )

    def _boundary(self) -> BoundaryDoc | None:
        """Accelerators' electricity alone, and everything in the boundary."""
        energy, grams = self._whole.energy_kwh.quantity(0), self._whole.operational_g.quantity(0)
        total_g = self._whole.total_g.quantity(0)
        if not (energy and grams and energy.value > 0 and grams.value > 0):
            return None
        narrow = self._of("boundary", "accelerators").sum() / self._values[0].sum()
        facility = self.facility(self._whole, 0, np.arange(len(self._parts.keys)))
        accelerators = (self._weighted("operational", n, "operational_g") for n in ACCELERATORS)
        narrow_g = sum(of_class.sum() for of_class in accelerators) / grams.value
        return BoundaryDoc(
            narrow_kwh=share_of(energy, narrow),
            narrow_g=share_of(grams, narrow_g),
            full_kwh=(facility or energy).to_doc(),
            full_g=doc(total_g),
        )

    def _ledger(self) -> list[LedgerRow]:
        """Carbon by what became of the work; idle accelerators of completed work apart."""
        outcomes, jobs, cell = grouped(self._parts, _outcome)
        totals = by_job(self._parts, jobs, cell, len(outcomes))
        found: dict[str, LedgerRow] = {}
        for n, outcome in enumerate(outcomes):
            of_cell = jobs[cell == n]
            energy, total_g = totals.energy_kwh.quantity(n), totals.total_g.quantity(n)
            if outcome == COMPLETED and total_g is not None and energy is not None:
                found |= self._without_idle(of_cell, energy, total_g)
                continue
            found[outcome] = _row(outcome, len(of_cell), energy, total_g)
        return [
            found[name] for name in (*OUTCOMES, *sorted(found.keys() - OUTCOMES)) if name in found
        ]

    def _without_idle(
        self, jobs: Ints, energy: Quantity, total_g: Quantity
    ) -> dict[str, LedgerRow]:
        idle_kwh = self._of("idle", "energy")[jobs]
        idle_g = (self._of("idle", "operational") + self._of("idle", "embodied"))[jobs]
        if total_g.value <= 0 or energy.value <= 0 or not idle_g.any():
            return {COMPLETED: _row(COMPLETED, len(jobs), energy, total_g)}
        of_g, of_kwh = idle_g.sum() / total_g.value, idle_kwh.sum() / energy.value
        idle = (energy.scaled(of_kwh), total_g.scaled(of_g))
        busy = (energy.scaled(1 - of_kwh), total_g.scaled(1 - of_g))
        return {
            COMPLETED: _row(COMPLETED, len(jobs), *busy),
            IDLE: _row(IDLE, int((idle_g > 0).sum()), *idle),
        }

    def idle_and_all_g(self) -> tuple[Floats, Floats]:
        """Return the carbon [gCO2e] of each job of times without work on its accelerators, and all
        of it.
        """
        idle_g = self._of("idle", "time operational") + self._of("idle", "time embodied")
        return idle_g, self._values[1] + self._values[2]

    def _idle_not_seen(self) -> QuantityDoc | None:
        """Energy of accelerators that report no utilisation, among which idle ones may be."""
        energy = self._whole.energy_kwh.quantity(0)
        amount = self._of("idle", "not seen").sum()
        return share_of(energy, amount / energy.value) if energy and amount > 0 else None

    def _chargeback(self) -> list[ChargeRow]:
        """Carbon by project and owner, most first."""
        rows = self._charges(lambda of_job: (of_job["project"], of_job["owner"]))
        return [ChargeRow(project=key[0], owner=key[1] or None, **charge) for key, charge in rows]

    def _by_project(self) -> list[ProjectCharge]:
        """Carbon by project, most first."""
        rows = self._charges(lambda of_job: (of_job["project"],))
        return [ProjectCharge(project=key[0], **charge) for key, charge in rows]

    def _charges(
        self, key: Callable[[dict[str, Any]], tuple[str, ...]]
    ) -> list[tuple[tuple[str, ...], dict[str, Any]]]:
        """Jobs and terms by key, most carbon first."""
        groups, jobs, cell = grouped(self._parts, key)
        totals = by_job(self._parts, jobs, cell, len(groups))
        counted = np.bincount(cell, minlength=len(groups))
        rows = [
            (
                group,
                {
                    "jobs": int(counted[n]),
                    "energy_kwh": totals.energy_kwh.doc(n),
                    "operational_g": totals.operational_g.doc(n),
                    "embodied_g": totals.embodied_g.doc(n),
                    "total_g": totals.total_g.doc(n),
                },
            )
            for n, group in enumerate(groups)
        ]
        return sorted(rows, key=lambda row: -(row[1]["total_g"] or {"value": 0.0})["value"])

    def _work(self) -> list[WorkRow]:
        """Jobs and carbon by hardware and class of work, most carbon first."""
        groups, jobs, cell = grouped(
            self._parts, lambda of_job: (of_job["hardware"], of_job["work"])
        )
        totals = by_job(self._parts, jobs, cell, len(groups))
        counted = np.bincount(cell, minlength=len(groups))
        rows: list[WorkRow] = [
            WorkRow(
                hardware=hardware,
                work=work,
                jobs=int(counted[n]),
                regions=self._regions(jobs[cell == n]),
                energy_kwh=totals.energy_kwh.doc(n),
                total_g=totals.total_g.doc(n),
            )
            for n, (hardware, work) in enumerate(groups)
        ]
        return sorted(rows, key=lambda row: -(row.total_g["value"] if row.total_g else 0.0))

    def _regions(self, jobs: Ints) -> dict[str, int]:
        """Return how many of these jobs ran in each region; those of none are in no count."""
        kinds, counted = np.unique(self._parts.attributes_of[jobs], return_counts=True)
        found: Counter[str] = Counter()
        for kind, number in zip(kinds, counted, strict=True):
            region = self._parts.attributes[kind]["region"]
            if region:
                found[region] += int(number)
        return dict(sorted(found.items()))


def share_of(whole: Quantity, share: Any) -> QuantityDoc:
    """Return that share of a figure, with the same share of its range."""
    return whole.scaled(float(share)).to_doc()


def _outcome(of_job: dict[str, Any]) -> str:
    swept = of_job["sweep"] and of_job["state"] == COMPLETED
    return SWEEP if swept else str(of_job["state"])


def _row(outcome: str, jobs: int, energy: Quantity | None, total_g: Quantity | None) -> LedgerRow:
    return LedgerRow(
        outcome=outcome,
        jobs=jobs,
        energy_kwh=doc(energy),
        total_g=doc(total_g),
    )
