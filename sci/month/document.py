"""The document of a month, out of its sums and those of the months before it.

What another month is in, such as the change or the trend, is made here whenever it is read; the
sums of a month are kept. Of a month in progress its first whole days are compared with as many of
the month before, each as uncertain as its month.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from gramwatt.sci.figures.document import QualityDoc
from gramwatt.sci.figures.quantity import Quantity, bare
from gramwatt.sci.grid.zones import at_equal_grid
from gramwatt.sci.month.change import Work, WorkMonth, by_work, change_effects, other_sources
from gramwatt.sci.month.documents import (
    TERMS,
    AdviceRow,
    BudgetUse,
    DeletedRow,
    ExcludedDoc,
    FollowedRow,
    MarketFactor,
    MarketRow,
    MonthAdvice,
    MonthDoc,
    MonthSums,
    MonthTotals,
    PendingDoc,
    ProjectChange,
    RevisedDoc,
    StatementDoc,
    TrendRow,
    WorkRow,
)
from gramwatt.sci.month.month import previous_month

TREND_MONTHS = 12
OVER_BEFORE = "this month over the month before"
SWAPS, MOVE = ("change-hardware", "fewer-devices", "instance"), "region"
"""The actions that show in the jobs of the next month."""
NOBODY = PendingDoc(jobs=0, energy_kwh=None, named=[])


class TrendSums(Struct):
    """The fields of `MonthSums` that the trend of a later month has."""

    month: str
    totals: MonthTotals
    data_quality: QualityDoc
    methods: list[list[str]]
    intensity_methods: list[list[str]]


class Beside(Struct, frozen=True):
    """What a month's document says that its sums do not: a store and its settings know it.

    `days` are the whole days of a month in progress, `open_months` may still change. `suggested`
    were suggestions of the month before.
    """

    complete: bool = False
    days: int | None = None
    open_months: Collection[str] = ()
    running: PendingDoc = field(default_factory=lambda: NOBODY)
    unscored: PendingDoc = field(default_factory=lambda: NOBODY)
    rescoring: int = 0
    excluded: Sequence[ExcludedDoc] = ()
    deletions: Sequence[DeletedRow] = ()
    budgets: Sequence[BudgetUse] = ()
    market_factors: Mapping[str, MarketFactor] = field(default_factory=dict)
    statement: StatementDoc = field(default_factory=lambda: StatementDoc(None, None, None))
    revised: RevisedDoc | None = None
    advice: MonthAdvice | None = None
    suggested: Sequence[AdviceRow] = ()

    @property
    def has_jobs(self) -> bool:
        """Tell whether the month has jobs that its sums do not: running, unscored or left out."""
        return bool(self.running.jobs or self.unscored.jobs or self.excluded)


def months_before(month: str, number: int = TREND_MONTHS - 1) -> list[str]:
    """Return the months before `month`, as many as a trend shows, the latest first."""
    months = [previous_month(month)]
    while len(months) < number:
        months.append(previous_month(months[-1]))
    return months


def month_document(
    sums: MonthSums,
    before: MonthSums | None = None,
    trend: Mapping[str, MonthSums | TrendSums] | None = None,
    beside: Beside = Beside(),  # noqa: B008  # it is frozen
) -> MonthDoc:
    """Return the document of a month without a revision.

    `before` are the sums of the month before, `trend` those of the months before by month.
    """
    compared, previous = _Compared(sums, beside.days), _Compared(before, beside.days)
    changes = {term: _ratio(compared.terms.get(term), previous.terms.get(term)) for term in TERMS}
    parts = None
    if compared.terms.get("total_g") and previous.terms.get("total_g"):
        parts = change_effects(compared.works, previous.works)
    own = asdict(sums)
    shared = {name: own[name] for name in MonthDoc.__struct_fields__ if name in own}
    excluded = [*sums.excluded, *beside.excluded]
    advice = beside.advice or MonthAdvice([], [], 0, sums.factors)
    rows = sorted([*advice.advice, *sums.waste], key=lambda row: -row.saved_g.value)
    further: dict[str, Any] = {
        "revision": None,
        "issued_at": None,
        "revised": beside.revised,
        "complete": beside.complete,
        "jobs_running": beside.running,
        "jobs_unscored": beside.unscored,
        "jobs_to_rescore": beside.rescoring,
        "previous": previous.totals,
        "compared_days": beside.days,
        "compared": None if beside.days is None else compared.totals,
        "changes": changes,
        "change_parts": parts,
        "project_changes": _project_changes(compared, previous),
        "trend": trend_rows({**(trend or {}), sums.month: sums}, beside.open_months),
        "budgets": list(beside.budgets),
        "market_based": market_rows(sums, beside.market_factors),
        "followed": followed(beside.suggested, before, sums) if before else [],
        **{**asdict(advice), "advice": rows},
        "excluded": excluded,
        "deletions": list(beside.deletions),
        "statement": beside.statement,
    }
    return MonthDoc(**{**shared, **further})


class _Compared:
    """What is compared of a month: all of it, or its first days."""

    def __init__(self, sums: MonthSums | None, days: int | None) -> None:
        self.totals: MonthTotals | None = None
        self.terms: dict[str, Quantity | None] = {}
        self.projects: dict[str, Quantity | None] = {}
        self._sums, self._until = sums, None
        if sums is None:
            return
        terms, projects = asdict(sums.terms), sums.by_project_g
        if days is None:
            self.totals = sums.totals if sums.totals.jobs else None
            self.terms, self.projects = terms, projects
            return
        self._until = f"{sums.month}-{days:02d}"
        jobs = [n for day, n in sums.jobs_by_day.items() if day <= self._until]
        if not jobs:
            return
        columns = list(zip(*(work.amounts for work in self.works.values()), strict=True))
        energy, operational, embodied = (
            _scaled(terms[term], sum(columns[place])) for place, term in enumerate(TERMS[:3], 1)
        )
        total_g = operational + embodied if operational and embodied else None
        self.terms = dict(zip(TERMS, (energy, operational, embodied, total_g), strict=True))
        counts = [sum(column) for column in zip(*jobs, strict=True)]
        docs: dict[str, Any] = {term: bare(self.terms[term]) for term in TERMS}
        began, ended, unknown = counts
        self.totals = MonthTotals(**docs, jobs=began, jobs_ended=ended, jobs_unknown=unknown)
        grams: dict[str, float] = {}
        for (project, _), work in self.works.items():
            grams[project] = grams.get(project, 0.0) + work.amounts[2] + work.amounts[3]
        self.projects = {name: _scaled(projects[name], g) for name, g in grams.items()}

    @cached_property
    def works(self) -> dict[Work, WorkMonth]:
        """Return what is compared by kind of work."""
        return by_work(self._sums.by_work if self._sums else [], self._until)


def _scaled(whole: Quantity | None, value: float) -> Quantity | None:
    """Return some days of a figure, which are as uncertain as all of them."""
    if whole is None or whole.value <= 0:
        return whole
    return whole.scaled(value / whole.value)


def _ratio(after: Quantity | None, before: Quantity | None) -> Quantity | None:
    """Return a figure over that of the month before; None where that is none or may be zero.

    Hours of one grid are taken as equal, and what both share cancels.
    """
    if after is None or before is None or not before.low > 0:
        return None
    before, after = at_equal_grid(before, after)
    return after.over(before, "1").sourced(OVER_BEFORE).bare()


def _project_changes(after: _Compared, before: _Compared) -> list[ProjectChange]:
    """Return the total of each project in both months, the largest differences first."""
    if before.totals is None or after.totals is None:
        return []
    rows = []
    for project in sorted({*after.projects, *before.projects}):
        new, old = after.projects.get(project), before.projects.get(project)
        rows.append(
            ProjectChange(
                project=project, total_g=bare(new), previous_g=bare(old), change=_ratio(new, old)
            )
        )
    return sorted(rows, key=lambda row: (-_difference(row), row.project))


def _difference(row: ProjectChange) -> float:
    """Return how far the totals of a project lie apart [gCO2e]; what is not known counts as 0."""
    now, then = row.total_g, row.previous_g
    return abs((now.value if now else 0.0) - (then.value if then else 0.0))


def trend_rows(
    sums: Mapping[str, MonthSums | TrendSums], open_months: Collection[str]
) -> list[TrendRow]:
    """Return a row for each month with jobs, oldest first; `open_months` may still change."""
    rows: list[TrendRow] = []
    before: Sequence[Sequence[str]] = ()
    for month, of_month in sorted(sums.items()):
        totals, methods = of_month.totals, of_month.methods
        if not totals.jobs:
            continue
        used = of_month.intensity_methods
        other = bool(rows) and (rows[-1].methods != methods or other_sources(before, used))
        before = used
        rows.append(
            TrendRow(
                **{term: getattr(totals, term) for term in TERMS},
                month=month,
                complete=month not in open_months,
                jobs=totals.jobs,
                grade=of_month.data_quality.grade,
                methods=methods,
                method_break=other,
            )
        )
    return rows


def market_rows(sums: MonthSums, factors: Mapping[str, MarketFactor]) -> list[MarketRow]:
    """Return the energy of the facility in each zone with a factor, times that factor."""
    whole, rows = sums.facility_kwh, []
    for zone, stated in sorted(factors.items()):
        of_zone = [row for row in sums.factors if row.zone == zone]
        kwh = sum(row.energy_kwh.value * row.pue.value for row in of_zone)
        if whole is None or not (whole.value > 0 and kwh > 0):
            continue
        energy = whole.scaled(kwh / whole.value)
        declared = Quantity.exact(stated.g_per_kwh, "gCO2e/kWh", "declared", stated.source)
        rows.append(
            MarketRow(
                zone=zone,
                energy_kwh=energy.bare(),
                factor_g_per_kwh=declared.bare(),
                market_g=energy.times(declared, "gCO2e").bare(),
            )
        )
    return rows


def followed(
    suggested: Sequence[AdviceRow], before: MonthSums, now: MonthSums
) -> list[FollowedRow]:
    """Return what became of the suggestions of the month before, by the jobs of this one."""
    works = [{(row.hardware, row.work): row for row in sums.work} for sums in (before, now)]
    return [_followed(row, *(_counts(row, of_month) for of_month in works)) for row in suggested]


def _counts(row: AdviceRow, works: Mapping[tuple[str, str], WorkRow]) -> tuple[int, int]:
    """Return the jobs of a month that are as they were, and those that did what was suggested."""
    old, new = (row.hardware, row.work), (row.target or "", row.work)
    jobs = works[old].jobs if old in works else 0
    if row.action != MOVE:
        return jobs, works[new].jobs if new in works else 0
    regions = works[old].regions if old in works else {}
    moved = regions.get(row.target or "", 0)
    return jobs - moved, moved


def _followed(row: AdviceRow, before: tuple[int, int], now: tuple[int, int]) -> FollowedRow:
    counts = before[0], now[0], before[1], now[1]
    return FollowedRow(
        hardware=row.hardware,
        work=row.work,
        action=row.action,
        target=row.target,
        jobs_before=counts[0],
        jobs_now=counts[1],
        target_before=counts[2],
        target_now=counts[3],
        outcome=_outcome(*counts) if row.action in (*SWAPS, MOVE) else None,
    )


def _outcome(old_before: int, old_now: int, new_before: int, new_now: int) -> str:
    if not old_now + new_now:
        return "no-such-work"
    if not old_now:
        return "followed"
    share_before = new_before / max(1, old_before + new_before)
    return "partly" if new_now / (old_now + new_now) > share_before else "not-followed"
