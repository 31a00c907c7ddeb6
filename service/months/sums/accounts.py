"""A month's carbon by component, boundary, outcome, owner and hardware; they sum to the total."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gramwatt.sci.analysis.breakdown import WEIGHTS
from gramwatt.sci.analysis.documents import (
    BoundaryDoc,
    ChargeRow,
    ComponentRow,
    LedgerRow,
    MarketDoc,
    ProjectCharge,
    WorkRow,
)
from gramwatt.sci.base.document import doc
from gramwatt.sci.base.quantity import Quantity, QuantityDoc
from gramwatt.sci.journal.records import ACCELERATORS
from gramwatt.service.months.sums.arrays import Parts, grouped, values
from gramwatt.service.months.sums.figures import Floats, Ints
from gramwatt.service.months.sums.totals import Totals, by_job

_TERMS = ("energy_kwh", "operational_g", "embodied_g")
COMPLETED, SWEEP, IDLE = "completed", "sweep", "idle"
OUTCOMES = (COMPLETED, IDLE, SWEEP, "failed", "killed", "lost")
"""What became of the work, in the order of the ledger."""
CONTRACTS = "energy times the intensity of contracts, as tags of the jobs declare them"


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
            "market_based": self._market(),
        }

    def _weighted(self, block: str, key: str, weight: str) -> Floats:
        """Return a share of each job times the term [of the month] that it is a share of."""
        found = np.zeros(len(self._parts.keys))
        number = self._number.get((f"{block} by", key))
        if number is not None:
            rows = self._parts.quality
            mine = rows.what == number
            jobs = rows.job[mine]
            found[jobs] = rows.amount[mine] * self._values[_TERMS.index(weight)][jobs]
        return found

    def _of(self, block: str, key: str) -> Floats:
        return self._weighted(block, key, WEIGHTS[block, key])

    def _components(self, part: str) -> list[ComponentRow]:
        """O or M by class of device, each with its share of the term's range.

        What no job divides stands as `other`.
        """
        term = f"{part}_g"
        whole = getattr(self._whole, term).quantity(0)
        if whole is None or whole.value <= 0:
            return []
        keys = [key for block, key in self._parts.keys_of_quality if block == f"{part} by"]
        amounts = {key: float(self._weighted(part, key, term).sum()) for key in sorted(keys)}
        rest = whole.value - sum(amounts.values())
        if rest > 1e-9 * whole.value:
            amounts["other"] = amounts.get("other", 0.0) + rest
        summed = sum(amounts.values())
        return [
            {"part": part, "component": key, "g": share_of(whole, amount / summed)}
            for key, amount in amounts.items()
            if amount > 0
        ]

    def _boundary(self) -> BoundaryDoc | None:
        """Accelerators' electricity alone, and everything in the boundary."""
        energy, grams = self._whole.energy_kwh.quantity(0), self._whole.operational_g.quantity(0)
        total_g = self._whole.total_g.quantity(0)
        if not (energy and grams and energy.value > 0 and grams.value > 0):
            return None
        narrow = self._of("boundary", "accelerators").sum() / self._values[0].sum()
        facility = self._of("boundary", "facility").sum() / self._values[0].sum()
        accelerators = (self._weighted("operational", n, "operational_g") for n in ACCELERATORS)
        narrow_g = sum(of_class.sum() for of_class in accelerators) / grams.value
        return {
            "narrow_kwh": share_of(energy, narrow),
            "narrow_g": share_of(grams, narrow_g),
            "full_kwh": share_of(energy, facility),
            "full_g": doc(total_g),
        }

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

    def _idle_not_seen(self) -> QuantityDoc | None:
        """Energy of accelerators that report no utilisation, among which idle ones may be."""
        energy = self._whole.energy_kwh.quantity(0)
        amount = self._of("idle", "not seen").sum()
        return share_of(energy, amount / energy.value) if energy and amount > 0 else None

    def _chargeback(self) -> list[ChargeRow]:
        """Carbon by project and owner, most first."""
        rows = self._charges(lambda trait: (trait["project"], trait["owner"]))
        return [{"project": key[0], "owner": key[1] or None, **charge} for key, charge in rows]  # type: ignore[typeddict-item]

    def _by_project(self) -> list[ProjectCharge]:
        """Carbon by project, most first."""
        rows = self._charges(lambda trait: (trait["project"],))
        return [{"project": key[0], **charge} for key, charge in rows]  # type: ignore[typeddict-item]

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
        groups, jobs, cell = grouped(self._parts, lambda trait: (trait["hardware"], trait["work"]))
        totals = by_job(self._parts, jobs, cell, len(groups))
        counted = np.bincount(cell, minlength=len(groups))
        rows: list[WorkRow] = [
            {
                "hardware": hardware,
                "work": work,
                "jobs": int(counted[n]),
                "energy_kwh": totals.energy_kwh.doc(n),
                "total_g": totals.total_g.doc(n),
            }
            for n, (hardware, work) in enumerate(groups)
        ]
        return sorted(rows, key=lambda row: -(row["total_g"]["value"] if row["total_g"] else 0.0))

    def _market(self) -> MarketDoc | None:
        """Market-based carbon of jobs with a contract, beside their location-based one."""
        contract_g = self._of("contract", "g_per_kwh")
        jobs = np.flatnonzero(contract_g)
        if not len(jobs):
            return None
        totals = by_job(self._parts, jobs, np.zeros_like(jobs), 1)
        energy, location = totals.energy_kwh.quantity(0), totals.operational_g.quantity(0)
        if energy is None or location is None or energy.value <= 0:
            return None
        market = energy.scaled(float(contract_g.sum()) / energy.value, "gCO2e")
        return {
            "jobs": len(jobs),
            "market_g": market.sourced(CONTRACTS, "declared").to_doc(),
            "location_g": location.to_doc(),
        }


def share_of(whole: Quantity, share: Any) -> QuantityDoc:
    """Return that share of a figure, with the same share of its range."""
    return whole.scaled(float(share)).to_doc()


def _outcome(trait: dict[str, Any]) -> str:
    swept = trait["sweep"] and trait["state"] == COMPLETED
    return SWEEP if swept else str(trait["state"])


def _row(outcome: str, jobs: int, energy: Quantity | None, total_g: Quantity | None) -> LedgerRow:
    return {
        "outcome": outcome,
        "jobs": jobs,
        "energy_kwh": doc(energy),
        "total_g": doc(total_g),
    }
