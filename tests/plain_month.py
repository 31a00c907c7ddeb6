"""Every table of a month by plain loops over its jobs, to hold the statements and groups to."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import asdict

from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.figures.quantity import (
    KINDS,
    Effect,
    Quantity,
    ends_of,
    kind_of_sum,
    of_sources,
    total,
    weakest,
)
from gramwatt.sci.month.columns import JOB_TERMS, QUALITIES, TIERS
from gramwatt.sci.month.month import Part, months_of
from gramwatt.sci.month.rows import Row, rows_of
from gramwatt.sci.score.assess import GRADE_NEEDS, quality
from gramwatt.sci.suggest.jobs import class_of

BLOCKS: dict[str, tuple[str, tuple[str, ...]]] = {
    "energy": ("energy_kwh_", KINDS),
    "intensity": ("intensity_kwh_", QUALITIES),
    "embodied": ("embodied_g_tier_", TIERS),
}
"""The columns of each block of data quality: how they begin, and the kinds."""
METHOD = ("engine_version", "catalog_version", "intensity_signal", "intensity_basis")
TERMS = ("energy_kwh", "operational_g", "embodied_g", "total_g")
UNFINISHED = ("failed", "killed", "lost")


def ends(figure: Quantity | None) -> dict[str, Any] | None:
    """A figure without what moves it."""
    if figure is None:
        return None
    names = ("value", "low", "high", "unit", "kind")
    return {name: getattr(figure, name) for name in names} | {"sources": list(figure.sources)}


def plain(document: Any) -> Any:
    """A document as dictionaries, with `ends` for each figure."""
    if isinstance(document, Quantity):
        return ends(document)
    if isinstance(document, msgspec.Struct):
        document = asdict(document)
    if isinstance(document, dict):
        return {name: plain(value) for name, value in document.items()}
    return [plain(item) for item in document] if isinstance(document, list) else document


def folded(figure: Quantity, job_id: str) -> tuple[Quantity, Effect]:
    """A figure without its job's own inputs, and their effects on it in its unit as one."""
    if not figure.relative:
        return figure, (0.0, 0.0)
    own = {id_ for id_ in figure.inputs if id_.endswith(f":{job_id}")}
    low, high = ends_of({id_: figure.inputs[id_] for id_ in own})
    return figure.without(own), (figure.value * math.expm1(low), figure.value * math.expm1(high))


def plain_total(
    parts: Iterable[tuple[JobDoc, Quantity | None]], own_id: str = "own"
) -> Quantity | None:
    """A sum of jobs' figures: what the jobs share counts once, their own by squares."""
    figures, own = [], [0.0, 0.0]
    for job, figure in parts:
        if figure is None:
            continue
        shared, changes = folded(figure, job.job_id)
        figures.append(shared)
        own = [before + change**2 for before, change in zip(own, changes, strict=True)]
    whole = total(figures)
    if whole is None or not whole.relative or whole.effects is None:
        return whole
    low, high = (math.sqrt(square) for square in own)
    effects = dict(whole.effects)
    if low or high:
        effects[own_id] = math.log1p(-low / whole.value), math.log1p(high / whole.value)
    return whole._moved(effects)


def by(jobs: Iterable[JobDoc], key: Callable[[JobDoc], Any]) -> dict[Any, list[JobDoc]]:
    """Jobs by a key."""
    groups: dict[Any, list[JobDoc]] = defaultdict(list)
    for job in jobs:
        groups[key(job)].append(job)
    return groups


def scaled_to(figure: Quantity, value: float) -> Quantity:
    """A figure of this value with the relative range of another."""
    ratio = value / figure.value if figure.value else 0.0
    label = figure.unit, figure.kind, figure.sources
    return of_sources(value, figure.low * ratio, figure.high * ratio, *label)


def texts(several: Iterable[str]) -> list[str]:
    """The distinct texts, but empty ones, in order."""
    return sorted(set(several) - {""})


def most_first(rows: Iterable[dict[str, Any]], term: str = "total_g") -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: -(row[term]["value"] if row[term] else 0.0))


class _PlainPart:
    """The part of a job in the month, with its own rows by table."""

    def __init__(self, job: JobDoc, part: Part, rows: dict[str, list[Row]]) -> None:
        self.job, self.part, self.rows = job, part, rows
        (self.row,) = rows["job_months"]
        self.energy_kwh, energy = part.sums.energy_kwh, part.sums.energy_kwh
        self.facility_kwh = energy.times(job.method.pue, "kWh") if energy else None
        self.operational_g, self.embodied_g = part.sums.operational_g, part.sums.embodied_g
        self.units = list(dict.fromkeys(row.unit for row in job.sci))
        self.work = job.project, (self.units or ["job"])[0]


class PlainMonth:
    """Every table of a month by plain loops over its jobs, in the fields that `MonthSums` has.

    A figure is what `ends` makes of it. What a job is, such as its hardware and its idle time,
    is read from its own rows; nothing here groups, and nothing is SQL.
    """

    def __init__(self, jobs: Iterable[JobDoc], month: str) -> None:
        self.month = month
        self.parts: list[_PlainPart] = []
        self.excluded: list[dict[str, Any]] = []
        for job in jobs:
            part = months_of(job).get(month)
            if part is not None and job.excluded is None:
                rows = rows_of(job, class_of(job)).items()
                own = {name: [r for r in of if r.get("month") == month] for name, of in rows}
                self.parts.append(_PlainPart(job, part, own))
            elif part is not None:
                names = ("job_id", "name", "project")
                about = {name: getattr(job, name) for name in names}
                self.excluded.append({**about, "reason": job.excluded})

    def document(self) -> dict[str, Any]:
        """All tables by the names of their fields."""
        every = self.parts
        return {
            "month": self.month,
            "project": None,
            "totals": self.totals(every),
            "terms": self.terms(every),
            "by_project_g": {k: ends(self.figure(of, "total_g")) for k, of in self.by("project")},
            "by_work": self.by_work(),
            "jobs_by_day": self.jobs_by_day(),
            "provisional": self.totals([p for p in every if p.job.provisional]),
            "components": self.components(),
            "boundary": self.boundary(),
            "facility_kwh": ends(self.figure(every, "facility_kwh")),
            "factors": self.factors(),
            "ledger": self.ledger(),
            "idle_not_seen_kwh": self.fraction("energy_kwh", self.added("idle_not_seen_kwh")),
            "chargeback": most_first(
                {"project": project, "owner": owner or None, "jobs": len(of), **self.terms(of)}
                for (project, owner), of in self.by("project", "owner")
            ),
            "by_project": most_first(
                {"project": project, "jobs": len(of), **self.terms(of)}
                for project, of in self.by("project")
            ),
            "work": most_first(
                {
                    "hardware": hardware,
                    "work": work,
                    "jobs": len(of),
                    "regions": counted(p.job.region for p in of if p.job.region),
                    **{t: ends(self.figure(of, t)) for t in ("energy_kwh", "total_g")},
                }
                for (hardware, work), of in self.by("hardware", "work")
            ),
            "waste": self.waste(),
            "projects": self.per_unit("project"),
            "model_units": self.per_unit("model_id"),
            "models": self.models(),
            "top_jobs": self.top_jobs(),
            "days": self.days(),
            "data_quality": msgspec.to_builtins(self.quality()),
            "grade_limits": self.grade_limits(),
            "conformance": counted(p.job.conformance for p in every),
            "by_state": {state: self.totals(of) for state, of in self.by("state")},
            "notice_counts": counted(c for p in every for c in {n.code for n in p.job.notices}),
            "excluded": sorted(self.excluded, key=lambda row: row["job_id"]),
            "method": self.method(),
            "methods": self.methods(every),
            "intensity_methods": self.intensities(every),
            "sources": texts(
                s for p in every for i in p.job.method.inputs for s in i.figure.sources
            ),
        }

    def by(self, *names: str) -> list[tuple[Any, list[_PlainPart]]]:
        """The parts by traits, in the order of these."""
        return sorted(
            by(
                self.parts,
                lambda p: p.row[names[0]] if len(names) == 1 else tuple(p.row[n] for n in names),
            ).items()
        )

    def added(self, name: str, parts: Iterable[_PlainPart] | None = None) -> float:
        return math.fsum(p.row[name] for p in (self.parts if parts is None else parts))

    def figure(self, parts: Sequence[_PlainPart], term: str) -> Quantity | None:
        """A term over parts, with the kind and sources that it must have."""
        if term == "total_g":
            both = [self.figure(parts, name) for name in ("operational_g", "embodied_g")]
            return both[0] + both[1] if both[0] and both[1] else None
        own_id = "own:embodied" if term == "embodied_g" else "own"
        whole = plain_total(((p.job, getattr(p, term)) for p in parts), own_id)
        if whole is None:
            return None
        of = [p for p in parts if getattr(p, term) is not None]
        if term in ("operational_g", "embodied_g"):
            terms = [getattr(p.job, term) for p in of]
            kind, sources = (
                weakest(t.kind for t in terms),
                texts(s for t in terms for s in t.sources),
            )
        else:
            by_kind = {kind: self.added(f"energy_kwh_{kind}", of) for kind in KINDS}
            kind = kind_of_sum(by_kind) if sum(by_kind.values()) > 0 else "declared"
            sources = texts(s for p in of for s in p.job.energy_kwh.sources)
            if term == "facility_kwh":
                kind = weakest((kind, *(p.job.method.pue.kind for p in of)))
                sources += self.sources_of_pue(of)
        return whole.of_kind(kind).sourced(*sources)

    def sources_of_pue(self, parts: Iterable[_PlainPart]) -> list[str]:
        inputs_ = (i for p in parts for i in p.job.method.inputs)
        return texts(i.figure.source for i in inputs_ if i.symbol == "PUE")

    def terms(self, parts: Sequence[_PlainPart]) -> dict[str, Any]:
        return {term: ends(self.figure(parts, term)) for term in TERMS}

    def totals(self, parts: Sequence[_PlainPart]) -> dict[str, Any]:
        return {
            **self.terms(parts),
            "jobs": len(parts),
            "jobs_ended": sum(p.part.ended for p in parts),
            "jobs_unknown": sum(p.part.sums.total_g is None for p in parts),
        }

    def fraction(self, term: str, amount: float) -> Any:
        """An amount with the range that a term of the month has, None where it is nothing."""
        whole = self.figure(self.parts, term)
        return ends(scaled_to(whole, amount)) if whole and amount > 0 else None

    def methods(self, parts: Iterable[_PlainPart]) -> list[list[str]]:
        of = (p.job.method for p in parts)
        return sorted(map(list, {tuple(getattr(m, name) for name in METHOD) for m in of}))

    def intensities(self, parts: Iterable[_PlainPart]) -> list[list[str]]:
        rows = (row for p in parts for row in p.rows["month_factors"] if row["quality"])
        return sorted(map(list, {(r["zone"], r["quality"], r["series"]) for r in rows}))

    def by_work(self) -> list[dict[str, Any]]:
        table = []
        for (project, unit), of in sorted(by(self.parts, lambda p: p.work).items()):
            days: dict[str, list[float]] = defaultdict(lambda: [0.0] * 4)
            for p in of:
                for day in p.part.days:
                    terms = (getattr(day, term) for term in JOB_TERMS)
                    plus = day.counts.get(unit, 0.0), *(t.value if t else 0.0 for t in terms)
                    days[day.day] = [a + b for a, b in zip(days[day.day], plus, strict=True)]
            table.append(
                {
                    "project": project,
                    "unit": unit,
                    "amount": math.fsum(day[0] for day in days.values()),
                    **{term: ends(self.figure(of, term)) for term in JOB_TERMS},
                    "methods": self.methods(of),
                    "intensities": self.intensities(of),
                    "days": [
                        dict(zip(("day", "amount", *JOB_TERMS), (day, *row), strict=True))
                        for day, row in sorted(days.items())
                    ],
                }
            )
        return table

    def jobs_by_day(self) -> dict[str, list[int]]:
        counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        for p in self.parts:
            for day in p.part.days:
                counts[day.day][0] += day is p.part.days[0]
                counts[day.day][1] += day is p.part.days[-1] and p.part.ended
                counts[day.day][2] += day is p.part.days[0] and p.part.sums.total_g is None
        return dict(counts)

    def components(self) -> list[dict[str, Any]]:
        table = []
        for term in ("operational", "embodied"):
            whole = self.figure(self.parts, f"{term}_g")
            groups: dict[str, list[float]] = defaultdict(lambda: [0.0] * 3)
            for row in (row for p in self.parts for row in p.rows["month_components"]):
                if row["term"] == term:
                    plus = row["g"], row["g_low"], row["g_high"]
                    before = groups[row["component"]]
                    groups[row["component"]] = [a + b for a, b in zip(before, plus, strict=True)]
            groups = {name: of for name, of in groups.items() if of[0] > 0}
            if whole is None or whole.value <= 0:
                continue
            rest = whole.value - math.fsum(of[0] for of in groups.values())
            if rest > 1e-9 * whole.value:
                groups["other"] = [
                    e * rest / whole.value for e in (whole.value, whole.low, whole.high)
                ]
            ratio = whole.value / math.fsum(of[0] for of in groups.values())
            for name, of in sorted(groups.items()):
                g = of_sources(*(ratio * e for e in of), "gCO2e", whole.kind, whole.sources)
                table.append({"part": term, "component": name, "g": ends(g)})
        return table

    def boundary(self) -> dict[str, Any] | None:
        energy, grams, facility, total_g = (
            self.figure(self.parts, t)
            for t in ("energy_kwh", "operational_g", "facility_kwh", "total_g")
        )
        if not (energy and grams and energy.value > 0 and grams.value > 0):
            return None
        ours = [
            row["g"]["value"]
            for row in self.components()
            if row["part"] == "operational" and row["component"] in ("gpu", "accelerator", "module")
        ]
        return {
            "narrow_kwh": ends(scaled_to(energy, self.added("accelerators_kwh"))),
            "narrow_g": ends(scaled_to(grams, math.fsum(ours))),
            "full_kwh": ends(facility),
            "full_g": ends(total_g),
        }

    def factors(self) -> list[dict[str, Any]]:
        groups: dict[Any, list[Any]] = defaultdict(list)
        labels = ("zone", "quality", "series", "source", "pue", "pue_low", "pue_high")
        labels += ("pue_kind", "pue_source")
        for row in (row for p in self.parts for row in p.rows["month_factors"]):
            groups[tuple(row[name] for name in labels)].append(row)
        energy, grams = (self.figure(self.parts, t) for t in ("energy_kwh", "operational_g"))
        table = []
        for key, rows in groups.items():
            label = dict(zip(labels, key, strict=True))
            columns = ("energy_kwh", "operational_g", "operational_g_low", "operational_g_high")
            kwh, *of_g = (math.fsum(row[name] for row in rows) for name in columns)
            facility = kwh * label["pue"]
            factor = sorted(g / facility if facility > 0 else 0.0 for g in of_g)
            mean = of_g[0] / facility if facility > 0 else 0.0
            pue = Quantity(
                *(label[n] for n in ("pue", "pue_low", "pue_high")),
                "1",
                label["pue_kind"],
                label["pue_source"],
            )
            of_factor = mean, factor[0], factor[-1], "gCO2e/kWh", grams.kind, label["source"]
            table.append(
                {
                    **{name: label[name] for name in ("zone", "quality", "series", "source")},
                    "jobs": len(rows),
                    "energy_kwh": ends(scaled_to(energy, kwh)),
                    "pue": ends(pue),
                    "factor_g_per_kwh": ends(Quantity(*of_factor)),
                    "operational_g": ends(scaled_to(grams, of_g[0])),
                    **dict.fromkeys(("publisher", "edition", "licence", "link")),
                    "files": [],
                }
            )
        order = sorted(table, key=lambda row: (row["zone"], row["source"]))
        return most_first(order, "operational_g")

    def ledger(self) -> list[dict[str, Any]]:
        def outcome(p: _PlainPart) -> str:
            sweep = "sweep" in p.job.tags and p.job.state == "completed"
            return "sweep" if sweep else p.job.state

        outcomes: dict[str, dict[str, Any]] = {}
        for name, of in by(self.parts, outcome).items():
            energy, total_g = (self.figure(of, t) for t in ("energy_kwh", "total_g"))
            idle_kwh, idle_g = (self.added(n, of) for n in ("idle_kwh", "idle_g"))
            if name == "completed" and energy and total_g and idle_g > 0:
                outcomes["idle"] = {
                    "outcome": "idle",
                    "jobs": sum(p.row["idle_g"] > 0 for p in of),
                    "energy_kwh": ends(scaled_to(energy, idle_kwh)),
                    "total_g": ends(scaled_to(total_g, idle_g)),
                }
                energy = scaled_to(energy, energy.value - idle_kwh)
                total_g = scaled_to(total_g, total_g.value - idle_g)
            figures = {"energy_kwh": ends(energy), "total_g": ends(total_g)}
            outcomes[name] = {"outcome": name, "jobs": len(of), **figures}
        order = ("completed", "idle", "sweep", "failed", "killed", "lost")
        return [outcomes[name] for name in order if name in outcomes]

    def waste(self) -> list[dict[str, Any]]:
        """Idle time, and all of runs that ended without a result."""
        real = [p for p in self.parts if not p.row["synthetic"]]

        def key(p: _PlainPart) -> tuple[str, str, str]:
            return (
                p.row["hardware"],
                p.row["work"],
                p.job.state if p.job.state in UNFINISHED else "",
            )

        table = []
        for (hardware, work, state), of in sorted(by(real, key).items()):

            def grams(p: _PlainPart, is_all: bool = bool(state)) -> float:
                both = p.row["operational_g"] or 0.0, p.row["embodied_g"] or 0.0
                return sum(both) if is_all else p.row["wasted_g"]

            whole = self.figure(of, "total_g")
            wasting = [p for p in of if grams(p) > 0]
            if whole is None or not whole.value > 0 or not wasting:
                continue
            first = sorted(wasting, key=lambda p: (-grams(p), p.job.job_id))[:3]
            saved, n = scaled_to(whole, math.fsum(map(grams, of))), len(of)
            jobs = f"{n} jobs" if n > 1 else "1 job"
            ended = f"what {jobs} used that ended without a result: the most to be saved"
            idle = "accelerators were reserved and had no work (utilisation below 5 %)"
            table.append(
                {
                    **{"hardware": hardware, "work": work, "target": None, "carbon_ratio": None},
                    "action": f"avoid-{state}" if state else "release-idle",
                    "jobs": n if state else len(wasting),
                    "jobs_of_work": n,
                    "saved_g": ends(whole.at_most() if state else saved),
                    "confidence": "likely" if state else "sure",
                    "reason": ended if state else idle,
                    "examples": [p.job.job_id for p in first],
                    "named": [
                        {n: getattr(p.job, n) for n in ("job_id", "name", "project")} for p in first
                    ],
                    "basis": "all",
                }
            )
        return most_first(table, "saved_g")

    def per_unit(self, of: str) -> list[dict[str, Any]]:
        """sum(C) / sum(R) by project or model, and unit, of jobs with a total that is known."""
        groups: dict[Any, list[_PlainPart]] = defaultdict(list)
        for p in self.parts:
            for unit in p.units:
                if p.row[of]:
                    groups[p.row[of], unit].append(p)
        table = []
        for (name, unit), parts in sorted(groups.items()):
            scored = [p for p in parts if p.part.sums.total_g is not None]
            count = math.fsum(p.part.count(unit) for p in scored)
            total_g = self.figure(scored, "total_g")
            statuses = {p.job.conformance for p in parts}
            worst = max(statuses, key=("conforming", "conforming-with-deviations", "not-sci").index)
            per = total_g.scaled(1 / count, f"gCO2e/{unit}") if total_g and count > 0 else None
            table.append(
                {
                    of: name,
                    "unit": unit,
                    "count": count,
                    "g_per_unit": ends(per),
                    "jobs": len(parts),
                    "energy_kwh": ends(self.figure(parts, "energy_kwh")),
                    "total_g": ends(total_g),
                    "conformance": worst,
                }
            )
        return table

    def models(self) -> list[dict[str, Any]]:
        table, named = [], [p for p in self.parts if p.job.model_id]

        def key(p: _PlainPart) -> tuple[str, str]:
            return p.row["model_id"], p.row["persona"]

        for (model, persona), of in sorted(by(named, key).items()):
            lost = [p for p in of if p.job.state in UNFINISHED]
            table.append(
                {
                    **{"model_id": model, "persona": persona},
                    **{"jobs": len(of), "unfinished": len(lost)},
                    **{
                        t: ends(self.figure(of, t))
                        for t in ("energy_kwh", "facility_kwh", "total_g")
                    },
                    "unfinished_g": ends(self.figure(lost, "total_g")),
                }
            )
        return table

    def top_jobs(self) -> list[dict[str, Any]]:
        order = sorted(self.parts, key=lambda p: (-(p.row["total_g"] or 0.0), p.job.job_id))
        table = []
        for p in order[:10]:
            terms: dict[str, Any] = {}
            for term in TERMS:
                figure = getattr(p.part.sums, term)
                of_job = self.figure([p], term)
                if figure is None or of_job is None:
                    terms[term] = None
                else:
                    label = figure.unit, of_job.kind, of_job.sources
                    terms[term] = ends(of_sources(figure.value, figure.low, figure.high, *label))
            own = {"owner": p.job.tags.get("user"), "duration_s": p.job.duration_s}
            names = ("job_id", "name", "project", "state")
            table.append({**terms, **own, **{name: getattr(p.job, name) for name in names}})
        return table

    def days(self) -> list[dict[str, Any]]:
        sums: dict[str, dict[str, list[float]]] = defaultdict(dict)
        for row in (row for p in self.parts for row in p.rows["month_days"]):
            for term in JOB_TERMS:
                if row[term] is not None:
                    plus = row[term], row[f"{term}_low"], row[f"{term}_high"]
                    before = sums[row["day"]].get(term, [0.0] * 3)
                    sums[row["day"]][term] = [a + b for a, b in zip(before, plus, strict=True)]
        labels = {term: self.figure(self.parts, term) for term in JOB_TERMS}
        days = {row["day"] for p in self.parts for row in p.rows["month_days"]}
        return [
            {"day": day}
            | {
                term: ends(of_sources(*sums[day][term], of.unit, of.kind, of.sources))
                if of and term in sums[day]
                else None
                for term, of in labels.items()
            }
            for day in sorted(days)
        ]

    def amounts(self, block: str) -> dict[str, float]:
        prefix, names = BLOCKS[block]
        amounts = {name: self.added(prefix + name.lower()) for name in names}
        return {name: amount for name, amount in amounts.items() if amount}

    def quality(self) -> Any:
        return quality(*(self.amounts(block) for block in BLOCKS))

    def grade_limits(self) -> list[dict[str, Any]]:
        grade, limits = self.quality().grade, []
        better = {"B": "A", "C": "B", "D": "C"}.get(grade)
        for block, kinds, needed in dict(GRADE_NEEDS).get(better, ()):
            amounts = self.amounts(block)
            whole = math.fsum(amounts.values())
            have = math.fsum(amounts.get(kind, 0.0) for kind in kinds)
            if not amounts or have >= needed * whole:
                continue
            prefix, names = BLOCKS[block]
            lacking = {
                p.job.job_id: math.fsum(p.row[prefix + n.lower()] for n in names if n not in kinds)
                for p in self.parts
            }
            order = sorted(self.parts, key=lambda p: (-lacking[p.job.job_id], p.job.job_id))
            jobs = [
                {
                    **{name: getattr(p.job, name) for name in ("job_id", "name", "project")},
                    "share": lacking[p.job.job_id] / whole,
                }
                for p in order[:3]
                if lacking[p.job.job_id] > 0
            ]
            limit = {"grade": better, "block": block, "kinds": list(kinds), "needed": needed}
            limits.append({**limit, "share": have / whole, "jobs": jobs})
        return limits

    def method(self) -> dict[str, Any] | None:
        if not self.parts:
            return None
        energy, facility, grams = (
            self.figure(self.parts, t) for t in ("energy_kwh", "facility_kwh", "operational_g")
        )
        pue = intensity = None
        of = [p for p in self.parts if p.facility_kwh is not None]
        if energy and facility and energy.low > 0:
            pue = facility.over(energy, "1").sourced(*self.sources_of_pue(of))
            pue = pue.of_kind(weakest(p.job.method.pue.kind for p in of))
        if grams and facility and facility.low > 0:
            factors = (row for p in self.parts for row in p.rows["month_factors"])
            used = texts(row["source"] for row in factors if row["quality"])
            intensity = grams.over(facility, "gCO2e/kWh").of_kind(grams.kind)
            intensity = intensity.sourced(*(used or grams.sources))
        methods = [p.job.method for p in self.parts]
        lives = {m.lifetime_years for m in methods}
        life = lives.pop() if len(lives) == 1 else None
        names = (*METHOD, "time_zone")
        joined = {n: "; ".join(texts(getattr(m, n) for m in methods)) for n in names}
        supplies = texts(m.supply for m in methods)
        first = methods[0]
        return {
            **{n: getattr(first, n) for n in ("standard", "formula", "intensity_approach")},
            "boundary_included": list(first.boundary_included),
            "boundary_excluded": texts(t for m in methods for t in m.boundary_excluded),
            "zones": texts(z for m in methods for z in m.zones),
            **{"supply": "; ".join(supplies), "supplies": supplies, **joined},
            **{"lifetime_years": ends(life), "pue": ends(pue)},
            "intensity_g_per_kwh": ends(intensity),
        }


def counted(values: Iterable[Any]) -> dict[Any, int]:
    """How often each value is there, in order."""
    return dict(sorted(Counter(values).items()))
