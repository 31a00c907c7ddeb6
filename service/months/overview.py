"""A month at a glance: its sums, the year before it, its projects and their budgets.

Sums that jobs have changed since they were stored are made anew where that is quick. Else they are
shown as stored, or not at all, and `MonthOverview.is_current` is false.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import sqlalchemy as sa

from gramwatt.sci.figures.document import QualityDoc
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.figures.structs import decode
from gramwatt.sci.month.document import months_before
from gramwatt.sci.month.documents import (
    LedgerRow,
    ModelRow,
    MonthDoc,
    MonthTotals,
    PendingDoc,
    ProjectCharge,
    TrendRow,
)
from gramwatt.sci.month.yearly import added
from gramwatt.service.access.projects import one_project
from gramwatt.service.common.errors import NoDataError
from gramwatt.service.container import THIS_MACHINE, Service
from gramwatt.service.months.cache import Kept, kept_months, kept_sums
from gramwatt.service.months.large import JOBS_SMALL
from gramwatt.service.months.report import month_report, months_with_data
from gramwatt.service.store.months import JobMonth


class OverviewDoc(msgspec.Struct):
    """The fields of a month's document that an overview shows.

    What comes of stored sums alone has no jobs that run or are not scored yet.
    """

    totals: MonthTotals
    ledger: list[LedgerRow]
    by_project: list[ProjectCharge]
    data_quality: QualityDoc
    previous: MonthTotals | None = None
    changes: dict[str, Quantity | None] = msgspec.field(default_factory=dict)
    compared_days: int | None = None
    trend: list[TrendRow] = msgspec.field(default_factory=list)
    jobs_running: PendingDoc | None = None
    jobs_unscored: PendingDoc | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """A month or project of a chart: its total [gCO2e], None where that is not known.

    `is_known` is false where sums are still to be made; a month without jobs is known. `grade` is
    that of a month.
    """

    name: str
    jobs: int
    total_g: Quantity | None
    is_known: bool = True
    limit_kg: float | None = None
    grade: str = "not known"


@dataclass(frozen=True, slots=True)
class MonthOverview:
    """A month of a project, or of all: sums, trend with the month last, projects.

    `sums` is None where no scored job is in the month; `document` is its report, None where sums
    lack jobs that were scored since, or are still to be made: `is_current` is then false.
    `projects` are those with the most carbon first, empty for one project; `first` is the first
    month with data.
    """

    month: str
    project: str | None
    sums: OverviewDoc | MonthDoc | None
    trend: list[Bar]
    document: MonthDoc | None = None
    projects: list[Bar] = field(default_factory=list)
    first: str | None = None
    is_current: bool = True


def month_overview(
    service: Service,
    month: str,
    project: str | None = None,
    *,
    limits: Mapping[str, float] | None = None,
    wait: bool = False,
) -> MonthOverview:
    """Return a month at a glance, with `wait` however long its sums take.

    `limits` are the budgets of projects [kgCO2e].

    Raises ProjectNeededError for a caller who is bound to several projects and names none, and
    NoDataError for a project that the caller does not see.
    """
    project = one_project(service, project, month)
    months = [month, *months_before(month)]
    sums, is_current = _sums(service, month, project, months, wait=wait)
    bars = {of: _kept_bar(of, kept) for of, kept in kept_months(service, months, project).items()}
    for row in sums.trend if sums is not None else ():
        bars[row.month] = Bar(row.month, row.jobs, row.total_g, grade=row.grade)
    charged = sums.by_project if sums is not None and project is None else []
    return MonthOverview(
        month,
        project,
        sums,
        [bars.get(one, Bar(one, 0, None)) for one in reversed(months)],
        document=sums if isinstance(sums, MonthDoc) else None,
        projects=_bars(charged, limits, {row.project for row in charged}),
        first=min(months_with_data(service), default=None),
        is_current=is_current,
    )


def month_bars(service: Service, months: Sequence[str], project: str | None) -> list[Bar]:
    """Return what each of these months emitted by the sums that are kept; nothing is summed.

    Raises NoDataError for a project that the caller does not see.
    """
    of = one_project(service, project, months[0]) if months else None
    kept = kept_months(service, months, of)
    return [_kept_bar(name, kept[name]) if name in kept else Bar(name, 0, None) for name in months]


class _Models(msgspec.Struct):
    models: list[ModelRow]


def model_totals(service: Service) -> dict[str, dict[str, Quantity | None]]:
    """Return what each model's jobs emitted [gCO2e], by persona, over all months.

    By the sums that are kept; nothing is summed. A term that is not known is in none.
    """
    projects = service.caller.projects
    scopes: Sequence[str | None] = [None] if projects is None else sorted(projects)
    names = [(month, scope) for month in months_with_data(service) for scope in scopes]
    parts: dict[tuple[str, str], list[Quantity | None]] = {}
    for kept in kept_sums(service, names).values():
        for row in decode(kept.document or '{"models": []}', _Models).models:
            parts.setdefault((row.model_id, row.persona), []).append(row.total_g)
    totals: dict[str, dict[str, Quantity | None]] = {}
    for (model, persona), figures in sorted(parts.items()):
        totals.setdefault(model, {})[persona] = added(figures)
    return totals


def project_bars(
    service: Service, month: str, names: Collection[str], limits: Mapping[str, float] | None = None
) -> tuple[dict[str, Bar], bool]:
    """Return the total of each of these projects in a month, and whether all are known as of now.

    Raises NoDataError for a project that the caller does not see.
    """
    for name in names:
        one_project(service, name, month)
    # Only the rows of these projects are used out of the sums over all.
    sums, is_current = _sums(service.for_caller(THIS_MACHINE), month, None, [month], wait=False)
    bars = _bars(sums.by_project if sums else [], limits, set(names))
    return {bar.name: bar for bar in bars}, is_current


def _sums(
    service: Service, month: str, project: str | None, months: Sequence[str], *, wait: bool
) -> tuple[OverviewDoc | MonthDoc | None, bool]:
    """Return the sums of a month, and whether they and those of the other months hold now."""
    kept = kept_months(service, months, project)
    late = [of for of, row in kept.items() if not row.holds]
    if not wait and late and _rows(service, late, project) > JOBS_SMALL:
        text = kept[month].document if month in kept else None
        return (decode(text, OverviewDoc) if text else None), False
    try:
        return month_report(service, month, project), True
    except NoDataError:
        return None, True


def _rows(service: Service, months: Collection[str], project: str | None) -> int:
    """Return how many jobs the sums of these months are made of."""
    statement = sa.select(sa.func.count()).where(JobMonth.month.in_(months))
    if project is not None:
        statement = statement.where(JobMonth.project == project)
    with service.for_every_project().store.read() as session:
        return session.scalar(statement) or 0


class _Totals(msgspec.Struct):
    totals: MonthTotals
    data_quality: QualityDoc


def _kept_bar(month: str, kept: Kept) -> Bar:
    if kept.document is None:
        return Bar(month, 0, None, is_known=False)
    sums = decode(kept.document, _Totals)
    return Bar(month, sums.totals.jobs, sums.totals.total_g, grade=sums.data_quality.grade)


def _bars(
    charged: Sequence[ProjectCharge], limits: Mapping[str, float] | None, names: Collection[str]
) -> list[Bar]:
    """Return what each project emitted. Those with the most come first."""
    limits, known = limits or {}, {row.project: row for row in charged}
    bars = []
    for name in sorted(names):
        row = known.get(name)
        jobs, total_g = (row.jobs, row.total_g) if row else (0, None)
        bars.append(Bar(name, jobs, total_g, limit_kg=limits.get(name)))
    return sorted(bars, key=lambda bar: -(bar.total_g.value if bar.total_g else 0.0))
