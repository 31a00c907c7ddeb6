"""The month: sums of the jobs' days, SCI by project as sum(C) / sum(R), and data quality.

A job that crosses the month's edge counts with its days inside it. Where a term of any job is
unknown the month's sum is the sum of the known ones, and `jobs_unknown` says how many are missing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from gramwatt.sci.analysis.model_totals import OTHER, unfinished
from gramwatt.sci.base.document import (
    DayDoc,
    JobDoc,
    JobHead,
    ModelRow,
    MonthDoc,
    MonthTotals,
    ProjectRow,
    QualityDoc,
    SavingDoc,
)
from gramwatt.sci.base.notices import NoticeDoc
from gramwatt.sci.base.quantity import Quantity, total, total_known
from gramwatt.sci.score.context import doc
from gramwatt.sci.score.functional_unit import per_unit
from gramwatt.sci.score.quality import grade, shares, worst_status
from gramwatt.sci.score.sci_for_ai import persona

TOP = 10
HEAD_FIELDS = tuple(JobHead.__annotations__)
Advise = Callable[[Sequence[JobDoc]], list[SavingDoc]]
"""What would save most in these jobs (`gramwatt.sci.advice.jobs.for_month`)."""


def month_document(
    month: str,
    jobs: Sequence[JobDoc],
    previous: Sequence[JobDoc] = (),
    *,
    project: str | None = None,
    complete: bool = False,
    advise: Advise | None = None,
) -> MonthDoc:
    """The report data of `month` (YYYY-MM); `previous` holds the jobs of the month before.

    `jobs` may hold jobs of other months: only days inside the month count. `advise` is asked what
    would save most in the month's jobs; without it nothing is suggested.
    """
    inside = _inside(month, jobs, project)
    before = _inside(previous_month(month), previous, project)
    documents = [job for job, _ in inside]
    return {
        "month": month,
        "project": project,
        "complete": complete,
        "totals": _totals(inside),
        "previous": _totals(before) if before else None,
        "projects": _projects(inside),
        "models": _models(inside),
        "top_jobs": _top(inside),
        "suggestions": advise(documents) if advise else [],
        "days": _calendar(inside),
        "data_quality": _quality(inside),
        "conformance": dict(Counter(job["conformance"] for job in documents)),
        "states": dict(Counter(job["state"] for job in documents)),
        "by_state": _by_state(inside),
        "notices": _notices(documents),
        "notice_counts": dict(
            Counter(code for job in documents for code in {n["code"] for n in job["notices"]})
        ),
        "method": documents[-1]["method"] if documents else None,
        "sources": sorted(
            {row["figure"]["source"] for job in documents for row in job["method"]["inputs"]}
        ),
    }


def previous_month(month: str) -> str:
    """The month before `month`, both YYYY-MM."""
    year, number = int(month[:4]), int(month[5:7])
    return f"{year - 1:04d}-12" if number == 1 else f"{year:04d}-{number - 1:02d}"


_Inside = Sequence[tuple[JobDoc, list[DayDoc]]]


def _inside(month: str, jobs: Iterable[JobDoc], project: str | None) -> _Inside:
    found = []
    for job in sorted(jobs, key=lambda job: (job["started_at"], job["job_id"])):
        days = [day for day in job["days"] if day["day"].startswith(month)]
        if days and project in (None, job["project"]):
            found.append((job, days))
    return found


def _totals(inside: _Inside) -> MonthTotals:
    days = [day for _, rows in inside for day in rows]
    operational = total_known(day["operational_g"] for day in days)
    embodied = total_known(day["embodied_g"] for day in days)
    known = [part for part in (operational, embodied) if part is not None]
    return {
        "jobs": len(inside),
        "jobs_unknown": sum(job["total_g"] is None for job, _ in inside),
        "energy_kwh": doc(total_known(day["energy_kwh"] for day in days)),
        "operational_g": doc(operational),
        "embodied_g": doc(embodied),
        "total_g": doc(total(known)) if len(known) == 2 else None,
    }


def _by_state(inside: _Inside) -> dict[str, MonthTotals]:
    """Totals of the jobs that ended in each state: what failed and killed jobs used counts too."""
    groups: dict[str, list[tuple[JobDoc, list[DayDoc]]]] = defaultdict(list)
    for job, days in inside:
        groups[job["state"]].append((job, days))
    return {state: _totals(members) for state, members in sorted(groups.items())}


def _projects(inside: _Inside) -> list[ProjectRow]:
    groups: dict[tuple[str, str], list[tuple[JobDoc, list[DayDoc]]]] = defaultdict(list)
    for job, days in inside:
        for row in job["sci"]:
            groups[job["project"], row["unit"]].append((job, days))
    return [_project(*key, members) for key, members in sorted(groups.items())]


def _project(project: str, unit: str, members: _Inside) -> ProjectRow:
    """sum(C) / sum(R): parts of jobs with an unknown total are left out of both sums."""
    known = [(job, days) for job, days in members if job["total_g"] is not None]
    emitted = _totals(known)["total_g"]
    count = sum(_count(job, days, unit) for job, days in known)
    scored = emitted is not None and count > 0
    figure = per_unit(Quantity.from_doc(emitted), count, unit) if emitted and scored else None
    return {
        "project": project,
        "unit": unit,
        "jobs": len(members),
        "count": count,
        "energy_kwh": _totals(members)["energy_kwh"],
        "total_g": emitted,
        "g_per_unit": doc(figure),
        "conformance": worst_status(job["conformance"] for job, _ in members),
    }


def _models(inside: _Inside) -> list[ModelRow]:
    """Every model's runs, those that make it and those that use it apart."""
    groups: dict[tuple[str, str], list[tuple[JobDoc, list[DayDoc]]]] = defaultdict(list)
    for job, days in inside:
        if job["model_id"]:
            groups[job["model_id"], persona(job["kind"]) or OTHER].append((job, days))
    rows: list[ModelRow] = []
    for (model_id, whose), members in sorted(groups.items()):
        totals = _totals(members)
        row: ModelRow = {
            "model_id": model_id,
            "persona": whose,
            "jobs": len(members),
            "unfinished": unfinished(Counter(job["state"] for job, _ in members)),
            "energy_kwh": totals["energy_kwh"],
            "total_g": totals["total_g"],
        }
        rows.append(row)
    return rows


def _count(job: JobDoc, days: Sequence[DayDoc], unit: str) -> float:
    """Units counted on these days; a job counts as the share of itself that lies in them."""
    if unit == "job" and not any("job" in day["counts"] for day in job["days"]):
        whole, part = job["embodied_g"], total_known(day["embodied_g"] for day in days)
        return part.value / whole["value"] if whole and part and whole["value"] else 1.0
    return sum(day["counts"].get(unit, 0.0) for day in days)


def _top(inside: _Inside) -> list[JobHead]:
    def emitted(item: tuple[JobDoc, list[DayDoc]]) -> float:
        figure = item[0]["total_g"]
        return figure["value"] if figure else 0.0

    ranked = sorted(inside, key=emitted, reverse=True)[:TOP]
    return [_head(job) for job, _ in ranked]


def _head(job: JobDoc) -> JobHead:
    head: JobHead = {name: job[name] for name in HEAD_FIELDS}  # type: ignore[assignment,literal-required]
    return head


def _calendar(inside: _Inside) -> list[DayDoc]:
    by_day: dict[str, list[DayDoc]] = defaultdict(list)
    for _, days in inside:
        for day in days:
            by_day[day["day"]].append(day)
    return [_day(day, rows) for day, rows in sorted(by_day.items())]


def _day(day: str, rows: Sequence[DayDoc]) -> DayDoc:
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(row["counts"])
    return {
        "day": day,
        "energy_kwh": doc(total_known(row["energy_kwh"] for row in rows)),
        "operational_g": doc(total_known(row["operational_g"] for row in rows)),
        "embodied_g": doc(total_known(row["embodied_g"] for row in rows)),
        "counts": dict(counts),
    }


def _quality(inside: _Inside) -> QualityDoc:
    energy = _weighted(inside, lambda job: job["data_quality"]["energy"], "energy_kwh")
    intensity = _weighted(inside, lambda job: job["data_quality"]["intensity"], "energy_kwh")
    embodied = _weighted(inside, lambda job: job["data_quality"]["embodied"], "embodied_g")
    return {
        "grade": grade(energy, intensity, embodied),
        "energy": energy,
        "intensity": intensity,
        "embodied": embodied,
    }


def _weighted(
    inside: _Inside, part: Callable[[JobDoc], dict[str, float]], term: str
) -> dict[str, float]:
    sums: dict[str, float] = defaultdict(float)
    for job, days in inside:
        figure = total_known(day[term] for day in days)  # type: ignore[literal-required]
        for key, share in part(job).items():
            sums[key] += share * (figure.value if figure else 0.0)
    return shares(sums)


def _notices(documents: Sequence[JobDoc]) -> list[NoticeDoc]:
    unique: dict[tuple[str, str], NoticeDoc] = {}
    for job in documents:
        for notice in job["notices"]:
            unique.setdefault((notice["code"], notice["message"]), {**notice, "field": None})
    return [unique[key] for key in sorted(unique)]
