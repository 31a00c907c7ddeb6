"""What is computed over archived months: sums, restatements, and whether lines and months agree.

Rows are summed by the engine. The ranges of totals are those of the store: the same parts of jobs,
through the same code (`months.sums`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import fsum
from pathlib import Path
from typing import Any, TypedDict

from gramwatt.sci.analysis.documents import MonthTotals
from gramwatt.sci.base.document import doc
from gramwatt.sci.base.quantity import Quantity, QuantityDoc
from gramwatt.service.fleet.engines import Engine
from gramwatt.service.fleet.manifest import Manifest, require_files, require_month
from gramwatt.service.fleet.parquet import TABLES
from gramwatt.service.fleet.places import Place
from gramwatt.service.fleet.rows import CLOSE
from gramwatt.service.months.sums.part import PORTION, PartRow, pack_texts

CAUSES = ("intensity", "pue", "lifetime")
"""What a restatement changes, in the order in which it is applied."""
RESTATED = "the archived month with new factors; its range as wide as before, relative to the value"
DIFFERING = 20
"""Jobs that an audit names."""
ALL_ZONES = "*"
_PARTS = "SELECT job, job_id, started_us, texts, numbers FROM jobs WHERE is_summed"
_LINES = """SELECT project, count(*) AS lines, SUM(energy_j) AS joules
FROM intervals GROUP BY project ORDER BY project"""
_OPERATIONAL = """WITH priced AS (
    SELECT energy.project AS project, energy.energy_j / 3.6E6 AS kwh,
        energy.intensity_g_per_kwh AS intensity, energy.pue AS pue,
        energy.contract_g_per_kwh AS contract,
        COALESCE(new_hourly.amount,
            CASE WHEN energy.quality IN ('annual', 'world') THEN new_annual.amount END,
            energy.intensity_g_per_kwh) AS new_intensity,
        COALESCE(new_pue.amount, {pue}, energy.pue) AS restated_pue,
        COALESCE(new_contract.amount, {contract}, energy.contract_g_per_kwh) AS restated_contract
    FROM energy
    LEFT JOIN new_hourly ON new_hourly.zone = energy.zone AND new_hourly.hour = energy.hour
    LEFT JOIN new_annual ON new_annual.zone = energy.zone
    LEFT JOIN new_pue ON new_pue.zone = energy.zone
    LEFT JOIN new_contract ON new_contract.zone = energy.zone)
SELECT project, SUM(kwh * intensity * pue) AS old_g, SUM(kwh * new_intensity * pue) AS by_intensity,
    SUM(kwh * new_intensity * restated_pue) AS by_pue, SUM(kwh * pue * contract) AS old_market,
    SUM(kwh * restated_pue * restated_contract) AS new_market
FROM priced GROUP BY project ORDER BY project"""
_EMBODIED = """SELECT project, SUM(embodied_g) AS old_g,
    SUM(embodied_g * COALESCE(lifetime_years / {life}, 1.0E0)) AS new_g
FROM embodied GROUP BY project ORDER BY project"""
_BY_JOB = """SELECT jobs.job_id, jobs.energy_kwh, lines.joules / 3.6E6 AS kwh
FROM jobs JOIN (SELECT job, SUM(energy_j) AS joules FROM intervals GROUP BY job) AS lines
    ON lines.job = jobs.job
WHERE jobs.is_summed AND jobs.energy_kwh IS NOT NULL
    AND ABS(lines.joules / 3.6E6 - jobs.energy_kwh) > 1E-9 * ABS(jobs.energy_kwh)
ORDER BY ABS(lines.joules / 3.6E6 - jobs.energy_kwh) DESC, jobs.job_id"""
_HOURS = """SELECT SUM(energy_j) / 3.6E6 AS kwh,
    SUM(energy_j / 3.6E6 * intensity_g_per_kwh * pue) AS grams FROM energy"""
_TERMS = """SELECT SUM(CASE WHEN operational_g IS NOT NULL THEN energy_kwh END) AS kwh,
    SUM(operational_g) AS operational_g, SUM(embodied_g) AS embodied_g
FROM jobs WHERE is_summed"""
_SHARES = "SELECT SUM(embodied_g) AS embodied_g FROM embodied"


class _About(TypedDict):
    month: str
    revision: int
    engine: str


class ProjectLines(TypedDict):
    """The stored intervals of a project: how many, and their energy [J], of a meter's own range."""

    project: str
    intervals: int
    energy_j: float


class FleetSum(_About):
    """The sums of an archived month; `totals` are those of its document."""

    totals: MonthTotals
    projects: list[ProjectLines]


class Change(TypedDict):
    """Carbon before and after a restatement [gCO2e], and the difference by cause."""

    old_g: float
    new_g: float
    change_g: float
    by_cause: dict[str, float]


class ProjectChange(Change):
    """The same of a project."""

    project: str


class FleetRestatement(_About):
    """A month before and after a restatement.

    `market_based_g` is the carbon of the energy under contracts, before and after; None of none.
    """

    old_g: QuantityDoc | None
    new_g: QuantityDoc | None
    change_g: float
    by_cause: dict[str, float]
    projects: list[ProjectChange]
    market_based_g: dict[str, float | None]


class Check(TypedDict):
    """Two sums that must be the same, and whether they are, to 1e-9."""

    what: str
    one: float
    other: float
    is_equal: bool


class FleetAudit(_About):
    """Whether lines, hours, jobs and the month agree.

    `jobs` are those whose score left some of their lines out, as of a device that two nodes report.
    """

    checks: list[Check]
    jobs_differing: int
    jobs: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class NewFactors:
    """What a restatement puts in the place of what archived scores used.

    `annual` [gCO2e/kWh] by zone replaces annual values, `hourly` by zone and hour since 1970 any;
    `pue` and `contract` [gCO2e/kWh] are by zone or for ALL_ZONES; `lifetime_years` is EL of all.
    """

    annual: Mapping[str, float] = field(default_factory=dict)
    hourly: Mapping[tuple[str, int], float] = field(default_factory=dict)
    pue: Mapping[str, float] = field(default_factory=dict)
    contract: Mapping[str, float] = field(default_factory=dict)
    lifetime_years: float | None = None

    def zones(self) -> set[str]:
        """Return the zones that are named."""
        hourly = {zone for zone, _ in self.hourly}
        return {*self.annual, *hourly, *self.pue, *self.contract} - {ALL_ZONES}


class ArchivedMonth:
    """A month of an archive on an engine; `names` are those of projects by their ids."""

    def __init__(
        self, place: Place, month: str, engine: Engine, names: Mapping[str, str] | None = None
    ) -> None:
        """Open the month; raises ArchiveError for one that is not whole."""
        self.manifest: Manifest = require_month(place, month)
        self._engine, self._names = engine, names or {}
        files: Mapping[str, Sequence[Path]] = require_files(place, self.manifest)
        for table in TABLES:
            engine.view(table, files[table])
        self._about = _About(month=month, revision=self.manifest.revision, engine=engine.name)

    def totals(self) -> MonthTotals:
        """Return the sums over all jobs, with ranges."""
        from gramwatt.service.months.sums.month import MonthSums

        return MonthSums(self.manifest.month, self._parts()).totals()

    def summed(self) -> FleetSum:
        """Return the totals, and the lines by project."""
        lines = sorted(self.lines(), key=lambda row: row["project"])
        return {**self._about, "totals": self.totals(), "projects": lines}

    def zones(self) -> set[str]:
        """Return the zones in which energy was used."""
        return {zone for (zone,) in self._engine.rows("SELECT DISTINCT zone FROM energy")}

    def lines(self) -> Iterator[ProjectLines]:
        """Yield how many lines each project has, and their energy."""
        for project, lines, joules in self._engine.rows(_LINES):
            yield {"project": self._name(project), "intervals": lines, "energy_j": joules}

    def restated(self, factors: NewFactors) -> FleetRestatement:
        """Return what new factors change, by cause and project."""
        changes, market = self._changes(factors)
        old_g = fsum(change["old_g"] for change in changes)
        new_g = fsum(change["new_g"] for change in changes)
        stated = self.totals()["total_g"]
        before = Quantity.from_doc(stated) if stated else None
        after = before.scaled(new_g / old_g).sourced(RESTATED) if before and old_g else None
        return {
            **self._about,
            "old_g": stated,
            "new_g": doc(after),
            "change_g": new_g - old_g,
            "by_cause": {
                cause: fsum(change["by_cause"][cause] for change in changes) for cause in CAUSES
            },
            "projects": changes,
            "market_based_g": {"old": market[0], "new": market[1]},
        }

    def audited(self) -> FleetAudit:
        """Return whether the sums of lines, of hours, of jobs and of the month are the same."""
        ((kwh, grams),) = self._engine.rows(_HOURS)
        ((of_jobs, operational, embodied),) = self._engine.rows(_TERMS)
        ((shares,),) = self._engine.rows(_SHARES)
        differing = list(self._engine.rows(_BY_JOB))
        stated = self.manifest.totals
        pairs: list[tuple[str, Any, Any]] = [
            ("energy of hours and of jobs [kWh]", kwh, of_jobs),
            ("operational carbon of hours and of jobs [gCO2e]", grams, operational),
            ("embodied carbon of terms and of jobs [gCO2e]", shares, embodied),
            ("operational carbon of jobs and of the month [gCO2e]", operational, "operational_g"),
            ("embodied carbon of jobs and of the month [gCO2e]", embodied, "embodied_g"),
        ]
        checks = [_check(what, one, _value(stated, other)) for what, one, other in pairs]
        jobs = [
            {"job_id": job_id, "scored_kwh": scored, "lines_kwh": lines}
            for job_id, scored, lines in differing[:DIFFERING]
        ]
        return {**self._about, "checks": checks, "jobs_differing": len(differing), "jobs": jobs}

    def _parts(self) -> Iterator[list[PartRow]]:
        """Yield the parts of jobs as the store would."""
        rows = self._engine.rows(_PARTS)
        while portion := list(islice(rows, PORTION)):
            yield [
                PartRow(job, job_id, started_us, _packed(texts), bytes(numbers))
                for job, job_id, started_us, texts, numbers in portion
            ]

    def _changes(
        self, factors: NewFactors
    ) -> tuple[list[ProjectChange], tuple[float | None, float | None]]:
        """Return the change of each project, and market-based carbon before and after."""
        self._set_factors(factors)
        pue, contract = (_number(of.get(ALL_ZONES)) for of in (factors.pue, factors.contract))
        operational: dict[str, Sequence[Any]] = {
            project: row
            for project, *row in self._engine.rows(_OPERATIONAL.format(pue=pue, contract=contract))
        }
        embodied: dict[str, Sequence[Any]] = {
            project: row
            for project, *row in self._engine.rows(
                _EMBODIED.format(life=_number(factors.lifetime_years))
            )
        }
        changes: list[ProjectChange] = []
        for project in sorted(operational.keys() | embodied.keys()):
            before, intensity, pue_g = operational.get(project, (0.0,) * 5)[:3]
            embodied_g, new_embodied_g = embodied.get(project, (0.0, 0.0))
            steps = (intensity - before, pue_g - intensity, new_embodied_g - embodied_g)
            change: ProjectChange = {
                "project": self._name(project),
                "old_g": before + embodied_g,
                "new_g": pue_g + new_embodied_g,
                "change_g": pue_g + new_embodied_g - before - embodied_g,
                "by_cause": dict(zip(CAUSES, steps, strict=True)),
            }
            changes.append(change)
        market = [[row[n] for row in operational.values() if row[n] is not None] for n in (3, 4)]
        old, new = (fsum(amounts) if amounts else None for amounts in market)
        return sorted(changes, key=lambda change: -abs(change["change_g"])), (old, new)

    def _set_factors(self, factors: NewFactors) -> None:
        """Let the new factors be tables of the engine."""
        tables: dict[str, Mapping[str, float]] = {
            "new_annual": factors.annual,
            "new_pue": factors.pue,
            "new_contract": factors.contract,
        }
        for table, amounts in tables.items():
            rows = [(f"'{_text(zone)}'", _number(g)) for zone, g in amounts.items()]
            self._engine.table(table, ("zone", "amount"), rows or [("''", "0E0")])
        hours = [
            (f"'{_text(zone)}'", f"CAST({hour} AS BIGINT)", _number(g))
            for (zone, hour), g in factors.hourly.items()
        ]
        self._engine.table(
            "new_hourly", ("zone", "hour", "amount"), hours or [("''", "CAST(0 AS BIGINT)", "0E0")]
        )

    def _name(self, project: str) -> str:
        return self._names.get(project, project)


def _value(totals: Any, other: Any) -> Any:
    """Return a figure of the month's totals by its name; any other as it is."""
    if not isinstance(other, str):
        return other
    return totals[other]["value"] if totals[other] else None


def _check(what: str, one: float | None, other: float | None) -> Check:
    left, right = one or 0.0, other or 0.0
    is_equal = abs(left - right) <= CLOSE * max(abs(left), abs(right))
    return {"what": what, "one": left, "other": right, "is_equal": is_equal}


def _packed(texts: str) -> bytes:
    return pack_texts(json.loads(texts))


def _number(number: float | None) -> str:
    """Return a number as both engines read a double; NULL for none."""
    return "CAST(NULL AS DOUBLE)" if number is None else f"CAST('{number!r}' AS DOUBLE)"


def _text(text: str) -> str:
    return text.replace("'", "''")
