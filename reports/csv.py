"""The monthly report as tidy CSV: one figure a row, with its range, unit, kind and source.

Counts and shares have neither range, kind nor source.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec.structs import asdict

from gramwatt.reports.delimited import delimited
from gramwatt.sci.analysis.documents import MonthDoc, MonthTotals
from gramwatt.sci.analysis.month_rows import (
    AdviceRow,
    FollowedRow,
)
from gramwatt.sci.base.document import JobHead, QualityDoc
from gramwatt.sci.base.quantity import QuantityDoc

HEADER = ("section", "name", "figure", "value", "low", "high", "unit", "kind", "source")
SUMS: tuple[Literal["energy_kwh", "operational_g", "embodied_g", "total_g"], ...] = (
    "energy_kwh",
    "operational_g",
    "embodied_g",
    "total_g",
)
"""The sums of a row of the accounts."""
Row = tuple[str, str, str, QuantityDoc | float | str | None]


def month_csv(document: MonthDoc, mark: str = ".") -> str:
    """Return the month as CSV: every figure in full precision; an unknown one is empty, never 0.

    With a decimal comma, semicolons stand between the columns, as spreadsheets expect.
    """
    rows = ((*row[:3], *_fields(row[3])) for row in _rows(document))
    return delimited(HEADER, rows, mark)


def _rows(document: MonthDoc) -> Iterable[Row]:
    yield from _issue(document)
    yield from _totals("total", document.month, document.totals)
    yield from _pending(document)
    if document.previous is not None:
        yield from _totals("previous", document.month, document.previous)
    for row in document.projects:
        name = f"{row.project}/{row.unit}"
        yield "project", name, "jobs", float(row.jobs)
        yield "project", name, "count", row.count
        yield "project", name, "energy_kwh", row.energy_kwh
        yield "project", name, "total_g", row.total_g
        yield "project", name, "g_per_unit", row.g_per_unit
    for day in document.days:
        yield "day", day.day, "energy_kwh", day.energy_kwh
        yield "day", day.day, "operational_g", day.operational_g
        yield "day", day.day, "embodied_g", day.embodied_g
    for job in document.top_jobs:
        yield from _terms("job", job.job_id, job)
    yield from _beside(document)
    yield from _accounts(document)
    for saving in document.suggestions:
        what = f"{saving.job_id}/{saving.action}"
        what += f"/{saving.target}" if saving.target else ""
        yield "suggestion", what, "saved_g", saving.saved_g
        yield "suggestion", what, "carbon_ratio", saving.carbon_ratio
    for state, totals in document.by_state.items():
        yield from _totals("state", state, totals)
    for name, n in document.conformance.items():
        yield "conformance", name, "jobs", float(n)
    for code, n in document.notice_counts.items():
        yield "notice", code, "jobs", float(n)
    for left_out in document.excluded:
        yield "excluded", left_out.job_id, left_out.reason, 1.0
    yield from _deleted(document)
    yield from _factors(document)
    yield from _quality(document.data_quality)


def _issue(document: MonthDoc) -> Iterable[Row]:
    """Yield the revision and when it was issued; neither for a month that was not kept."""
    if document.revision is not None:
        yield "report", document.month, "revision", float(document.revision)
        yield "report", document.month, "issued_at", document.issued_at


def _deleted(document: MonthDoc) -> Iterable[Row]:
    """Yield deleted jobs."""
    yield "deleted", document.month, "jobs", float(document.deleted)
    for gone in document.deletions:
        yield "deleted", gone.job_id, "total_g", gone.total_g


def _beside(document: MonthDoc) -> Iterable[Row]:
    """Yield the change by effect, the trend, budgets, models and grouped advice."""
    month = document.month
    for name, figure in asdict(document.change_parts).items() if document.change_parts else ():
        yield "change", month, name, figure
    for row in document.trend:
        yield "trend", row.month, "jobs", float(row.jobs)
        yield "trend", row.month, "complete", float(row.complete)
        yield "trend", row.month, "method_break", float(row.method_break)
        for term in ("energy_kwh", "operational_g", "embodied_g", "total_g"):
            yield "trend", row.month, term, getattr(row, term)
    for budget in document.budgets:
        yield "budget", budget.project, "limit_kg", budget.limit_kg
        yield "budget", budget.project, "spent_kg", budget.spent_kg
        yield "budget", budget.project, "spent_share", budget.spent_share
    for model in document.models:
        name = f"{model.model_id}/{model.persona}"
        yield "model", name, "jobs", float(model.jobs)
        yield "model", name, "jobs_unfinished", float(model.unfinished)
        yield "model", name, "energy_kwh", model.energy_kwh
        yield "model", name, "facility_kwh", model.facility_kwh
        yield "model", name, "total_g", model.total_g
        yield "model", name, "unfinished_g", model.unfinished_g
    for advice in document.advice:
        name = "/".join([advice.hardware, advice.work, _action(advice)])
        yield "advice", name, "jobs", float(advice.jobs)
        yield "advice", name, "saved_g", advice.saved_g
        yield "advice", name, "carbon_ratio", advice.carbon_ratio
    for followed in document.followed:
        name = "/".join([followed.hardware, followed.work, _action(followed)])
        for count in ("jobs_before", "jobs_now", "target_before", "target_now"):
            yield "followed", name, count, float(getattr(followed, count))


def _accounts(document: MonthDoc) -> Iterable[Row]:
    """Components, both boundaries, market-based memo, ledger, chargeback and work."""
    month = document.month
    for row in document.components:
        yield "component", f"{row.part}/{row.component}", "g", row.g
    for name, figure in asdict(document.boundary).items() if document.boundary else ():
        yield "boundary", month, name, figure
    for memo in document.market_based:
        for term in ("energy_kwh", "factor_g_per_kwh", "market_g"):
            yield "memo", memo.zone, term, getattr(memo, term)
    yield from _means(document)
    for ledger in document.ledger:
        yield "ledger", ledger.outcome, "jobs", float(ledger.jobs)
        yield "ledger", ledger.outcome, "energy_kwh", ledger.energy_kwh
        yield "ledger", ledger.outcome, "total_g", ledger.total_g
    for charge in document.chargeback:
        name = f"{charge.project}/{charge.owner or ''}"
        yield "chargeback", name, "jobs", float(charge.jobs)
        for term in SUMS:
            yield "chargeback", name, term, getattr(charge, term)
    for project in document.by_project:
        yield "project_total", project.project, "jobs", float(project.jobs)
        for term in SUMS:
            yield "project_total", project.project, term, getattr(project, term)
    for work in document.work:
        name = f"{work.hardware}/{work.work}"
        yield "work", name, "jobs", float(work.jobs)
        yield "work", name, "energy_kwh", work.energy_kwh
        yield "work", name, "total_g", work.total_g


def _factors(document: MonthDoc) -> Iterable[Row]:
    """Yield the factor table."""
    for factor in document.factors:
        name = f"{factor.zone}/{factor.publisher or factor.source}"
        for term in ("energy_kwh", "pue", "factor_g_per_kwh"):
            yield "factor", name, term, getattr(factor, term)
        yield "factor", name, "operational_g", factor.operational_g


def _means(document: MonthDoc) -> Iterable[Row]:
    """Yield the means of the month's method."""
    method = document.method
    if method is not None:
        yield "method", document.month, "intensity_g_per_kwh", method.intensity_g_per_kwh
        yield "method", document.month, "pue", method.pue


def _action(row: AdviceRow | FollowedRow) -> str:
    return f"{row.action}/{row.target}" if row.target else row.action


def _pending(document: MonthDoc) -> Iterable[Row]:
    """Yield whether the month is complete, the jobs that it lacks, and those that are
    provisional.
    """
    month, provisional = document.month, document.provisional
    yield "total", month, "complete", float(document.complete)
    for section, jobs in (
        ("running", document.jobs_running),
        ("unscored", document.jobs_unscored),
    ):
        yield "total", month, f"jobs_{section}", float(jobs.jobs)
        for row in jobs.named:
            yield section, row.job_id, "energy_kwh", row.energy_kwh
    if provisional.jobs:
        yield from _totals("provisional", month, provisional)


def _totals(section: str, name: str, totals: MonthTotals) -> Iterable[Row]:
    yield section, name, "jobs", float(totals.jobs)
    yield section, name, "jobs_ended", float(totals.jobs_ended)
    yield section, name, "jobs_unknown", float(totals.jobs_unknown)
    yield from _terms(section, name, totals)


def _quality(quality: QualityDoc) -> Iterable[Row]:
    for what, shares in (
        ("energy", quality.energy),
        ("intensity", quality.intensity),
        ("embodied", quality.embodied),
    ):
        for name, share in shares.items():
            yield "quality", what, name, share


def _terms(section: str, name: str, document: JobHead | MonthTotals) -> Iterable[Row]:
    yield section, name, "energy_kwh", document.energy_kwh
    yield section, name, "operational_g", document.operational_g
    yield section, name, "embodied_g", document.embodied_g
    yield section, name, "total_g", document.total_g


def _fields(quantity: QuantityDoc | float | str | None) -> tuple[object, ...]:
    """Return the fields from `value` to `source`."""
    if quantity is None:
        return ("", "", "", "", "unknown", "")
    if isinstance(quantity, str):
        return (quantity, "", "", "", "", "")
    if isinstance(quantity, int | float):
        return (quantity, "", "", "1", "", "")
    ends = (quantity["value"], quantity["low"], quantity["high"])
    return (*ends, quantity["unit"], quantity["kind"], quantity["source"])
