"""The sums of a month: jobs grouped once by all their traits, and every table made of those groups.

`execute` runs the statements of `statements.py`, on the store or on a lake, so that both say the
same.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from msgspec.structs import asdict

from gramwatt.sci.figures.document import QualityDoc
from gramwatt.sci.figures.formatting import jobs_text
from gramwatt.sci.figures.quantity import Quantity, bare, kind_of_sum, of_sources, weakest
from gramwatt.sci.month.columns import ENDS, JOB_TERMS
from gramwatt.sci.month.documents import (
    AdviceRow,
    BoundaryDoc,
    ChargeRow,
    ComponentRow,
    ExcludedDoc,
    FactorRow,
    GradeLimit,
    LackingJob,
    LedgerRow,
    ModelRow,
    ModelUnitRow,
    MonthDay,
    MonthMethodDoc,
    MonthSums,
    NamedJob,
    ProjectCharge,
    ProjectRow,
    TermsDoc,
    TopJob,
    WorkDay,
    WorkRow,
    WorkSums,
)
from gramwatt.sci.month.model_totals import UNFINISHED
from gramwatt.sci.month.month import TOP
from gramwatt.sci.records.records import ACCELERATORS
from gramwatt.sci.score.assess import GRADE_NEEDS, quality, sum_of, worst_status
from gramwatt.sci.score.boundary import APPROACH, FORMULA, INCLUDED, STANDARD
from gramwatt.sci.score.functional_unit import sci_doc
from gramwatt.service.months import statements
from gramwatt.service.months.groups import (
    BLOCKS,
    ENERGY_KINDS,
    METHOD,
    Cell,
    Group,
    Groups,
    Key,
    Methods,
)
from gramwatt.service.months.statements import Execute, Select, month_scope, selecting

UnitOf = TypeVar("UnitOf", ProjectRow, ModelUnitRow)
COMPLETED, SWEEP, IDLE, OTHER = "completed", "sweep", "idle", "other"
OUTCOMES = (COMPLETED, IDLE, SWEEP, "failed", "killed", "lost")
"""What became of the work, in the order of the ledger."""
RELEASE = "release-idle"
ACTIONS = {"failed": "avoid-failed", "killed": "avoid-killed", "lost": "avoid-lost"}
"""Actions by the state of runs without a result."""
NAMED_JOBS = 3
"""Jobs named for each row of waste, and for each thing that a better grade asks for."""


def _rows_of_cell(cell: Cell) -> Iterator[tuple[str, Key]]:
    """Yield the row of each table that the jobs of a cell count in."""
    project, model, state = cell["project"], cell["model_id"], cell["state"]
    work, units = (cell["hardware"], cell["work"]), cell["units"].split(",")
    yield "whole", ()
    yield "project", (project,)
    yield "charge", (project, cell["owner"])
    yield "state", (state,)
    yield "outcome", (SWEEP if cell["sweep"] and state == COMPLETED else state,)
    yield "work", work
    yield "change", (project, units[0] or "job")
    if cell["provisional"]:
        yield "provisional", ()
    if not cell["synthetic"]:
        yield "waste", (*work, state if state in ACTIONS else "")
    if model:
        yield "model", (model, cell["persona"])
        if state in UNFINISHED:
            yield "unfinished", (model, cell["persona"])
    for unit in filter(None, units):
        for name, of in (("project", project), ("model_id", model)):
            if of:
                yield f"{name} unit", (of, unit)
                if not cell["jobs_unknown"]:
                    yield f"{name} unit known", (of, unit)


def sum_month(execute: Execute, month: str, project: str | None = None) -> MonthSums:
    """Return the sums of a month, of a project or of all; of no job they are of nothing."""
    return sum_scope(execute, month, project, *month_scope(month, project))


def sum_scope(
    execute: Execute, month: str, project: str | None, scope: str, values: Mapping[str, Any]
) -> MonthSums:
    """Return the sums of the jobs in a month that a condition holds for (`statements`)."""
    return _Sums(selecting(execute, scope, values), month, project).document()


class _Sums:
    """The sums of a month in the making; `select` runs a statement on its rows."""

    def __init__(self, select: Select, month: str, project: str | None) -> None:
        self._select, self._month, self._project = select, month, project
        self._methods = Methods(select)
        keeps = ("whole", "project", "change")
        self._groups = Groups(month, select, self._methods, _rows_of_cell, keeps)
        self._cells = self._groups.cells
        self._whole = self._groups.one("whole")
        self._work_of = {c["traits"]: (c["project"], c["units"].split(",")[0]) for c in self._cells}
        self._factors = list(select(statements.FACTORS))

    def document(self) -> MonthSums:
        """Return the sums."""
        whole, rest = self._whole, f"other:{self._month}"
        terms = {term: whole.condensed(term, rest) for term in (*JOB_TERMS, "total_g")}
        days = list(self._select(statements.DAYS))
        shares = quality(*(whole.amounts(block) for block in BLOCKS))
        components = self._components()
        return MonthSums(
            month=self._month,
            project=self._project,
            totals=whole.totals(),
            terms=TermsDoc(**terms),
            by_project_g={
                project: group.condensed("total_g", f"{rest}:{project}")
                for (project,), group in self._groups.table("project").items()
            },
            by_work=self._by_work(days),
            jobs_by_day=_jobs_by_day(days),
            provisional=self._groups.one("provisional").totals(),
            components=components,
            boundary=self._boundary(components),
            facility_kwh=whole.bare("facility_kwh"),
            factors=self._factor_rows(),
            ledger=self._ledger(),
            idle_not_seen_kwh=self._idle_not_seen(),
            chargeback=_most_first(
                ChargeRow(project=project, owner=owner or None, jobs=_jobs(of), **of.terms())
                for (project, owner), of in self._groups.table("charge").items()
            ),
            by_project=_most_first(
                ProjectCharge(project=project, jobs=_jobs(of), **of.terms())
                for (project,), of in self._groups.table("project").items()
            ),
            work=self._work(),
            waste=self._waste(),
            projects=self._per_unit(ProjectRow, "project"),
            model_units=self._per_unit(ModelUnitRow, "model_id"),
            models=self._models(),
            top_jobs=self._top_jobs(),
            days=self._days(days),
            data_quality=shares,
            grade_limits=self._grade_limits(shares),
            conformance=self._counted("conformance"),
            by_state={
                state: group.totals() for (state,), group in self._groups.table("state").items()
            },
            notice_counts=self._notice_counts(),
            excluded=[ExcludedDoc(*row) for row in self._select(statements.EXCLUDED)],
            method=self._method(),
            methods=[list(of) for of in sorted(set(self._methods_of(self._methods.rows)))],
            intensity_methods=_intensities(self._factors),
            sources=self._methods.texts(self._methods.rows, "source"),
        )

    def _methods_of(self, methods: Iterable[int]) -> Iterator[tuple[str, ...]]:
        for method in methods:
            yield tuple(self._methods.rows[method][name] for name in METHOD)

    def _by_work(self, days: Sequence[Sequence[Any]]) -> list[WorkSums]:
        of_days: dict[Key, list[WorkDay]] = defaultdict(list)
        for row in days:
            day, project, unit, amount = row[:4]
            sums = [row[7 + 3 * number] or 0.0 for number in range(len(JOB_TERMS))]
            of_days[project, unit].append(WorkDay(day, amount, *sums))
        factors: dict[Key, list[Sequence[Any]]] = defaultdict(list)
        for row in self._factors:
            factors[self._work_of[row[0]]].append(row)
        works = []
        for key, group in self._groups.table("change").items():
            rest = ":".join(("other", self._month, *key))
            methods = {cell["method"] for cell in group.cells}
            energy_kwh, operational_g, embodied_g = (
                group.condensed(term, rest) for term in JOB_TERMS
            )
            works.append(
                WorkSums(
                    project=key[0],
                    unit=key[1],
                    amount=sum(day.amount for day in of_days[key]),
                    energy_kwh=energy_kwh,
                    operational_g=operational_g,
                    embodied_g=embodied_g,
                    methods=[list(of) for of in sorted(set(self._methods_of(methods)))],
                    intensities=_intensities(factors[key]),
                    days=of_days[key],
                )
            )
        return works

    def _components(self) -> list[ComponentRow]:
        """Return O and M by component; what no job divides stands as `other`."""
        groups: dict[str, dict[str, Quantity]] = {"operational": {}, "embodied": {}}
        for term, component, g, low, high in self._select(statements.COMPONENTS):
            whole = self._whole.figure(f"{term}_g")
            if whole is not None and g > 0:
                label = whole.unit, whole.kind, whole.sources
                groups[term][component] = of_sources(g, low, high, *label)
        rows = []
        for term, of_term in groups.items():
            whole = self._whole.figure(f"{term}_g")
            if whole is None or whole.value <= 0:
                continue
            divided = math.fsum(g.value for g in of_term.values())
            if whole.value - divided > 1e-9 * whole.value:
                of_term[OTHER] = whole.scaled((whole.value - divided) / whole.value)
                divided = whole.value
            for component, g in sorted(of_term.items()):
                exact = g.scaled(whole.value / divided).bare()
                rows.append(ComponentRow(part=term, component=component, g=exact))
        return rows

    def _boundary(self, components: Sequence[ComponentRow]) -> BoundaryDoc | None:
        """Return the accelerators' electricity alone, and everything in the boundary."""
        energy, grams = self._whole.figure("energy_kwh"), self._whole.figure("operational_g")
        if not (energy and grams and energy.value > 0 and grams.value > 0):
            return None
        narrow_g = sum(
            row.g.value
            for row in components
            if row.part == "operational" and row.component in ACCELERATORS
        )
        facility = self._whole.figure("facility_kwh") or energy
        return BoundaryDoc(
            narrow_kwh=energy.scaled(self._whole["accelerators_kwh"] / energy.value).bare(),
            narrow_g=grams.scaled(narrow_g / grams.value).bare(),
            full_kwh=facility.bare(),
            full_g=self._whole.bare("total_g"),
        )

    def _factor_rows(self) -> list[FactorRow]:
        """Return E x PUE x factor = O by zone, PUE and source; most carbon first."""
        energy, grams = self._whole.figure("energy_kwh"), self._whole.figure("operational_g")
        groups: dict[tuple[Any, ...], list[float]] = {}
        for _, zone, quality_, series, source, *rest in self._factors:
            key, sums = (zone, quality_, series, source, *rest[:5]), rest[5:]
            before = groups.get(key, [0.0] * len(sums))
            groups[key] = [a + b for a, b in zip(before, sums, strict=True)]
        rows = []
        for key, (jobs, kwh, *ends_g) in groups.items():
            zone, quality_, series, source, pue_kind, pue_source, value, low, high = key
            assert energy is not None  # a job with a factor has both terms
            assert grams is not None
            pue = Quantity(value, low, high, "1", pue_kind, pue_source)
            facility = kwh * value
            ends = [g / facility for g in ends_g] if facility > 0 else [0.0] * 3
            factor = Quantity(ends[0], min(ends[:2]), max(ends), "gCO2e/kWh", grams.kind, source)
            rows.append(
                FactorRow(
                    zone=zone,
                    jobs=int(jobs),
                    energy_kwh=_part(energy, kwh).bare(),
                    pue=pue.bare(),
                    factor_g_per_kwh=factor.bare(),
                    operational_g=_part(grams, ends_g[0]).bare(),
                    quality=quality_,
                    series=series,
                    source=source,
                    publisher=None,
                    edition=None,
                    licence=None,
                    link=None,
                    files=[],
                )
            )
        return sorted(rows, key=lambda row: (-row.operational_g.value, row.zone, row.source))

    def _ledger(self) -> list[LedgerRow]:
        """Return carbon by what became of the work; idle accelerators of completed work apart."""
        rows: dict[str, LedgerRow] = {}
        for (outcome,), group in self._groups.table("outcome").items():
            energy, total_g = group.figure("energy_kwh"), group.figure("total_g")
            idle_g, idle_kwh = group["idle_g"], group["idle_kwh"]
            if outcome == COMPLETED and energy and total_g and idle_g > 0:
                idle = _part(energy, idle_kwh).bare(), _part(total_g, idle_g).bare()
                rows[IDLE] = LedgerRow(IDLE, int(group["idle_jobs"]), *idle)
                energy = _part(energy, energy.value - idle_kwh)
                total_g = _part(total_g, total_g.value - idle_g)
            rows[outcome] = LedgerRow(outcome, _jobs(group), bare(energy), bare(total_g))
        names = (*OUTCOMES, *sorted(rows.keys() - set(OUTCOMES)))
        return [rows[name] for name in names if name in rows]

    def _idle_not_seen(self) -> Quantity | None:
        """Return the energy of accelerators that report no utilisation; None for none."""
        energy, kwh = self._whole.figure("energy_kwh"), self._whole["idle_not_seen_kwh"]
        return _part(energy, kwh).bare() if energy and kwh > 0 else None

    def _work(self) -> list[WorkRow]:
        rows = []
        for (hardware, work), group in self._groups.table("work").items():
            regions: Counter[str] = Counter()
            for cell in group.cells:
                if cell["region"]:
                    regions[cell["region"]] += cell["jobs"]
            rows.append(
                WorkRow(
                    hardware=hardware,
                    work=work,
                    jobs=_jobs(group),
                    regions=dict(sorted(regions.items())),
                    energy_kwh=group.bare("energy_kwh"),
                    total_g=group.bare("total_g"),
                )
            )
        return _most_first(rows)

    def _waste(self) -> list[AdviceRow]:
        """Return what jobs used to no end: idle times, and all of runs that ended without a result.

        Of those it is the most that can be saved; the least is nothing.
        """
        named: dict[Key, list[NamedJob]] = defaultdict(list)
        for hardware, work, state, *job in self._select(statements.WASTE, most=NAMED_JOBS):
            named[hardware, work, state].append(NamedJob(*job))
        rows: list[AdviceRow] = []
        for key, group in self._groups.table("waste").items():
            hardware, work, state = key
            whole = group.figure("total_g")
            if whole is None or not whole.value > 0 or key not in named:
                continue
            if state:
                saved, jobs = whole.at_most(), _jobs(group)
                what = f"what {jobs_text(jobs)} used that ended without a result"
                reason = f"{what}: the most to be saved"
            else:
                saved, jobs = _part(whole, group["wasted_g"]), int(group["wasting_jobs"])
                reason = "accelerators were reserved and had no work (utilisation below 5 %)"
            rows.append(
                AdviceRow(
                    hardware=hardware,
                    work=work,
                    action=ACTIONS.get(state, RELEASE),
                    target=None,
                    jobs=jobs,
                    jobs_of_work=_jobs(group),
                    saved_g=saved.bare(),
                    carbon_ratio=None,
                    confidence="likely" if state else "sure",
                    reason=reason,
                    examples=[job.job_id for job in named[key]],
                    named=named[key],
                    basis="all",
                )
            )
        return sorted(rows, key=lambda row: -row.saved_g.value)

    def _per_unit(self, shape: type[UnitOf], of: str) -> list[UnitOf]:
        """Return sum(C) / sum(R) by project or model, and unit.

        Jobs with an unknown total are left out of both sums.
        """
        counts: dict[Key, float] = defaultdict(float)
        cells = {c["traits"]: c for c in self._cells if not c["jobs_unknown"]}
        for traits, unit, amount in self._select(statements.COUNTS):
            if traits in cells:
                counts[cells[traits][of] or "", unit] += amount
        rows = []
        for key, group in self._groups.table(f"{of} unit").items():
            name, unit = key
            total_g = self._groups.one(f"{of} unit known", key).figure("total_g")
            rows.append(
                shape(
                    **{of: name},  # type: ignore[arg-type]  # it has this field
                    **asdict(sci_doc(total_g, counts[key], unit)),
                    jobs=_jobs(group),
                    energy_kwh=group.bare("energy_kwh"),
                    total_g=bare(total_g),
                    conformance=worst_status({cell["conformance"] for cell in group.cells}),
                )
            )
        return rows

    def _models(self) -> list[ModelRow]:
        rows = []
        for key, group in self._groups.table("model").items():
            unfinished = self._groups.one("unfinished", key)
            rows.append(
                ModelRow(
                    model_id=key[0],
                    persona=key[1],
                    jobs=_jobs(group),
                    unfinished=_jobs(unfinished),
                    energy_kwh=group.bare("energy_kwh"),
                    facility_kwh=group.bare("facility_kwh"),
                    total_g=group.bare("total_g"),
                    unfinished_g=unfinished.bare("total_g"),
                )
            )
        return rows

    def _top_jobs(self) -> list[TopJob]:
        return [
            self._top_job(dict(zip(statements.TOP_COLUMNS, values, strict=True)))
            for values in self._select(statements.TOP, most=TOP)
        ]

    def _top_job(self, row: Mapping[str, Any]) -> TopJob:
        by_kind = {kind: row[column] for column, kind in ENERGY_KINDS.items()}
        scored, method = self._methods.rows[row["method"]], [row["method"]]
        sources: dict[str, list[str]] = {
            term: self._methods.texts(method, term.split("_")[0]) for term in JOB_TERMS
        }
        sources["total_g"] = [*dict.fromkeys(sources["operational_g"] + sources["embodied_g"])]
        kinds = {
            "energy_kwh": kind_of_sum(by_kind) if sum(by_kind.values()) > 0 else "declared",
            "operational_g": scored["operational_kind"],
            "embodied_g": scored["embodied_kind"],
        }
        figures: dict[str, Quantity | None] = {}
        for term, of_term in sources.items():
            figures[term] = None
            if row[term] is not None:
                kind = kinds.get(term) or weakest((kinds["operational_g"], kinds["embodied_g"]))
                unit = "kWh" if term == "energy_kwh" else "gCO2e"
                value, low, high = (row[f"{term}{end}"] for end in ENDS)
                figures[term] = of_sources(value, low, high, unit, kind, of_term)
        return TopJob(
            **figures,
            job_id=row["job_id"],
            name=row["name"],
            project=row["project"],
            owner=row["owner"] or None,
            state=row["state"],
            duration_s=row["duration_s"],
        )

    def _days(self, rows: Sequence[Sequence[Any]]) -> list[MonthDay]:
        sums: dict[str, list[Any]] = {}
        for row in rows:
            of_day = sums.setdefault(row[0], [None] * len(row[7:]))
            for place, amount in enumerate(row[7:]):
                if amount is not None:
                    of_day[place] = (of_day[place] or 0.0) + amount
        labels = [self._whole.figure(term) for term in JOB_TERMS]
        return [
            MonthDay(
                day,
                *(
                    _like(label, *of_day[3 * place : 3 * place + 3])
                    for place, label in enumerate(labels)
                ),
            )
            for day, of_day in sorted(sums.items())
        ]

    def _grade_limits(self, shares: QualityDoc) -> list[GradeLimit]:
        """Return what the next better grade asks for and the month lacks, and which jobs most."""
        grades = [name for name, _ in GRADE_NEEDS]
        place = grades.index(shares.grade) if shares.grade in grades else len(grades)
        if place == 0:
            return []
        better, needs = GRADE_NEEDS[place - 1]
        limits = []
        for block, kinds, least in needs:
            kind_shares: Mapping[str, float] = getattr(shares, block)
            if not kind_shares or sum_of(kind_shares, kinds) >= least:
                continue
            columns = [column for column, name in BLOCKS[block].items() if name not in kinds]
            whole = sum(self._whole.amounts(block).values())
            rows = self._select(
                statements.LACKING, lacking=f"({' + '.join(columns)})", most=NAMED_JOBS
            )
            limits.append(
                GradeLimit(
                    grade=better,
                    block=block,
                    kinds=list(kinds),
                    share=sum_of(kind_shares, kinds),
                    needed=least,
                    jobs=[
                        LackingJob(job_id=job_id, name=name, project=project, share=lacking / whole)
                        for job_id, name, project, lacking in rows
                    ],
                )
            )
        return limits

    def _counted(self, name: str) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for cell in self._cells:
            counts[cell[name]] += cell["jobs"]
        return dict(sorted(counts.items()))

    def _notice_counts(self) -> dict[str, int]:
        """Return how many jobs have each notice, by code."""
        counts: Counter[str] = Counter()
        for cell in self._cells:
            for code in self._methods.texts([cell["method"]], "notice"):
                counts[code] += cell["jobs"]
        return dict(sorted(counts.items()))

    def _method(self) -> MonthMethodDoc | None:
        """Return by what the jobs are scored, with means over the month; None for no job.

        E x I x PUE is O: PUE is weighted by energy, the intensity by that of the facility.
        """
        methods, whole = self._methods, self._whole
        if not self._cells:
            return None
        energy, facility = whole.figure("energy_kwh"), whole.figure("facility_kwh")
        grams, pue, intensity = whole.figure("operational_g"), None, None
        if energy and facility and energy.low > 0:
            chosen = tuple(whole.methods["facility_kwh"])
            pue = facility.over(energy, "1").sourced(*methods.texts(chosen, "pue"))
            pue = pue.of_kind(methods.kind(chosen, "pue_kind"))
        if grams and facility and facility.low > 0:
            intensity = grams.over(facility, "gCO2e/kWh").of_kind(grams.kind)
            used = sorted({row[4] for row in self._factors if row[2]})
            intensity = intensity.sourced(*(used or grams.sources))
        lives = {
            tuple(of[n] for n in ("lifetime_years", "lifetime_years_low", "lifetime_years_high"))
            + (of["lifetime_kind"], of["lifetime_source"])
            for of in methods.rows.values()
        }
        value, low, high, kind, source = next(iter(lives))
        life = Quantity(value, low, high, "years", kind, source)
        joined = {name: "; ".join(methods.values(name)) for name in (*METHOD, "time_zone")}
        supplies = methods.values("supply")
        return MonthMethodDoc(
            standard=STANDARD,
            formula=FORMULA,
            boundary_included=list(INCLUDED),
            boundary_excluded=methods.texts(methods.rows, "excluded"),
            intensity_approach=APPROACH,
            supply="; ".join(supplies),
            supplies=supplies,
            zones=methods.texts(methods.rows, "zone"),
            lifetime_years=life if len(lives) == 1 else None,
            pue=bare(pue),
            intensity_g_per_kwh=bare(intensity),
            **joined,
        )


def _jobs(group: Group) -> int:
    return int(group["jobs"])


def _part(whole: Quantity, amount: float) -> Quantity:
    """Return an amount with the relative range of the sum that it is part of."""
    if not whole.value > 0:
        return Quantity.exact(amount, whole.unit, whole.kind, *whole.sources)
    return whole.scaled(amount / whole.value)


def _most_first(rows: Iterable[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: -(row.total_g.value if row.total_g else 0.0))


def _like(label: Quantity | None, *ends: float | None) -> Quantity | None:
    """Return value, low and high with unit, kind and sources of a sum that they are part of."""
    value, low, high = ends
    if label is None or value is None or low is None or high is None:
        return None
    ends_ = min(low, value), max(high, value)
    return of_sources(value, *ends_, label.unit, label.kind, label.sources)


def _intensities(factors: Iterable[Sequence[Any]]) -> list[list[str]]:
    """Return zone, quality and series of the intensities in rows of factors."""
    return [list(of) for of in sorted({tuple(row[1:4]) for row in factors if row[2]})]


def _jobs_by_day(rows: Iterable[Sequence[Any]]) -> dict[str, list[int]]:
    """Return how many jobs began, ended and have an unknown total, by their day in the month."""
    days: dict[str, list[int]] = {}
    for day, _, _, _, *counts in rows:
        before = days.get(day, [0, 0, 0])
        days[day] = [a + int(b) for a, b in zip(before, counts[:3], strict=True)]
    return days
