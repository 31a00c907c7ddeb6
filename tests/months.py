"""A month summed from whole documents, one figure at a time: what months from parts must equal.

It is slow and simple, and reads every document, as releases before the parts did.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

import msgspec
import pytest

from gramwatt.sci.analysis.documents import (
    ExcludedDoc,
    MonthDoc,
    SavingDoc,
)
from gramwatt.sci.analysis.model_totals import OTHER, UNFINISHED
from gramwatt.sci.analysis.month import Part, Pending, excluded_row, pending_doc, previous_month
from gramwatt.sci.base.document import (
    DayDoc,
    JobDoc,
    JobHead,
    QualityDoc,
    Term,
    doc,
)
from gramwatt.sci.base.notices import Notice
from gramwatt.sci.base.quantity import (
    Kind,
    Quantity,
    QuantityDoc,
    kind_of_sum,
    per_unit,
    sources_of,
    total,
)
from gramwatt.sci.grid.zones import at_equal_grid
from gramwatt.sci.score.assess import quality, worst_status
from gramwatt.sci.score.sci_for_ai import persona
from tests.month_accounts import Accounts, facility

TOP = 10
TERMS: tuple[Term, ...] = get_args(Term)
HEAD_FIELDS = JobHead.__struct_fields__
Advise = Callable[[Sequence[JobDoc]], list[SavingDoc]]
"""What would save most in these jobs (`gramwatt.sci.advice.jobs.for_month`)."""


def month_document(
    month: str,
    jobs: Sequence[JobDoc],
    previous: Sequence[JobDoc] = (),
    *,
    project: str | None = None,
    ended: bool = False,
    running: Sequence[Pending] = (),
    unscored: Sequence[Pending] = (),
    excluded: Sequence[ExcludedDoc] = (),
    deleted: int = 0,
    days: int | None = None,
    advise: Advise | None = None,
) -> MonthDoc:
    """The report data of `month` (YYYY-MM); `previous` holds the jobs of the previous month.

    `jobs` may hold jobs of other months: only days inside the month count. `running` and `unscored`
    are the jobs that they lack, `ended` says that the month is over. Excluded jobs are listed, not
    summed: those of `jobs`, and those without a score in `excluded`. `deleted` is how many that
    started in the month were deleted. `advise` finds what would save most in the month's jobs;
    without it nothing is suggested.
    """
    members = _members(month, jobs, project)
    before = _members(previous_month(month), previous, project)
    left_out = [excluded_row(m.job) for m in _members(month, jobs, project, excluded=True)]
    documents = [member.job for member in members]
    sums = _Sums.of(members)
    first, first_before = _until(members, days), _until(before, days)
    now, then = _Sums.of(first), _Sums.of(first_before)
    fields = {
        "month": month,
        "project": project,
        "complete": ended and not running and not unscored,
        "jobs_running": pending_doc(running),
        "jobs_unscored": pending_doc(unscored),
        "jobs_to_rescore": 0,
        "provisional": _provisional(members),
        "totals": _totals(members, sums),
        "previous": _totals(first_before, then) if first_before else None,
        "compared_days": days,
        "compared": _totals(first, now) if first and days is not None else None,
        "changes": _changes(now, then),
        **ACCOUNTS.fields(month, members, before, ended and not running and not unscored, advise),
        **ACCOUNTS.changes(first, first_before),
        "projects": _projects(members),
        "models": _models(members),
        "top_jobs": _top(members),
        "days": _calendar(members),
        "data_quality": _quality(members),
        "grade_limits": ACCOUNTS.grade_limits(members),
        "conformance": dict(Counter(job.conformance for job in documents)),
        "states": dict(Counter(job.state for job in documents)),
        "by_state": _by_state(members),
        "notices": _notices(documents),
        "notice_counts": _notice_counts(documents),
        "excluded": [*left_out, *excluded],
        "deleted": deleted,
        "deletions": [],
        "issued_at": None,
        "factors": [],
        "model_units": [],
        "sources": sorted(
            {
                source
                for job in documents
                for row in job.method.inputs
                for source in sources_of(row.figure)
            }
        ),
    }
    return msgspec.convert(msgspec.to_builtins(fields), MonthDoc)


@dataclass(frozen=True)
class _Member:
    """A job of the month, with its days that lie in it."""

    job: JobDoc
    days: Sequence[DayDoc]

    @property
    def ended(self) -> bool:
        """Whether the job's last day lies in the month."""
        return self.days[-1].day == self.job.days[-1].day

    @cached_property
    def sums(self) -> _Sums:
        """The terms of the job over these days."""
        return _Sums(*(self._term(term) for term in TERMS))

    def _term(self, term: Term) -> Quantity | None:
        """A term of the job over these days, with the effects of the job's inputs."""
        found: Quantity | None = getattr(Part(self.job, self.days).sums, term)
        return found


def _members(
    month: str, jobs: Iterable[JobDoc], project: str | None, *, excluded: bool = False
) -> list[_Member]:
    found = []
    for job in sorted(jobs, key=lambda job: (job.started_at, job.job_id)):
        days = [day for day in job.days if day.day.startswith(month)]
        chosen = excluded is (job.excluded is not None)
        if days and chosen and project in (None, job.project):
            found.append(_Member(job, days))
    return found


@dataclass(frozen=True)
class _Sums:
    """E [kWh], O and M [gCO2e] over days, of the figures that are known; None where none is."""

    energy_kwh: Quantity | None
    operational_g: Quantity | None
    embodied_g: Quantity | None

    @classmethod
    def of(cls, members: Iterable[_Member]) -> _Sums:
        parts = list(members)
        rows = [part.sums for part in parts]
        return cls(
            _energy([(part, row.energy_kwh) for part, row in zip(parts, rows, strict=True)]),
            total(row.operational_g for row in rows if row.operational_g),
            total(row.embodied_g for row in rows if row.embodied_g),
        )

    @cached_property
    def total_g(self) -> Quantity | None:
        """C = O + M [gCO2e]."""
        operational, embodied = self.operational_g, self.embodied_g
        return operational + embodied if operational and embodied else None


def _energy(parts: Sequence[tuple[_Member, Quantity | None]]) -> Quantity | None:
    """The sum of energy, with the kind that nine tenths of it reach."""
    whole = total(read for _, read in parts if read)
    amounts: dict[Kind, float] = defaultdict(float)
    for member, read in parts:
        shares = member.job.data_quality.energy
        if read and shares and kind_of_sum(shares) != read.kind:  # other days are of another kind
            shares = {read.kind: 1.0}
        for kind, share in shares.items():
            amounts[kind] += share * read.value if read else 0.0  # type: ignore[index]
    if whole is None or not sum(amounts.values()) > 0:
        return whole
    return whole.of_kind(kind_of_sum(amounts))


def _until(members: Sequence[_Member], days: int | None) -> list[_Member]:
    """The members with the first so many days of their month; all of them for None."""
    kept = (
        _Member(m.job, [d for d in m.days if days is None or int(d.day[8:]) <= days])
        for m in members
    )
    return [member for member in kept if member.days]


def _changes(now: _Sums, before: _Sums) -> dict[str, QuantityDoc | None]:
    """Each term over that of the month before; None where one of them is not known, or zero."""
    changes: dict[str, QuantityDoc | None] = {}
    for name in ("energy_kwh", "operational_g", "embodied_g", "total_g"):
        new, old = getattr(now, name), getattr(before, name)
        changes[name] = None
        if new is not None and old is not None and old.low > 0:
            old, new = at_equal_grid(old, new)
            changes[name] = new.over(old, "1").sourced("this month over the month before").to_doc()
    return changes


def _totals(members: Sequence[_Member], sums: _Sums) -> dict[str, Any]:
    return {
        "jobs": len(members),
        "jobs_ended": sum(member.ended for member in members),
        "jobs_unknown": sum(member.job.total_g is None for member in members),
        "energy_kwh": doc(sums.energy_kwh),
        "operational_g": doc(sums.operational_g),
        "embodied_g": doc(sums.embodied_g),
        "total_g": doc(sums.total_g),
    }


def _provisional(members: Iterable[_Member]) -> dict[str, Any]:
    """Totals of the jobs whose intensity is not final."""
    group = [member for member in members if member.job.provisional]
    return _totals(group, _Sums.of(group))


def _by_state(members: Iterable[_Member]) -> dict[str, Any]:
    """Totals of the jobs that ended in each state: what failed and killed jobs used counts too."""
    groups: dict[str, list[_Member]] = defaultdict(list)
    for member in members:
        groups[member.job.state].append(member)
    return {state: _totals(group, _Sums.of(group)) for state, group in sorted(groups.items())}


def _projects(members: Iterable[_Member]) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str], list[_Member]] = defaultdict(list)
    for member in members:
        for row in member.job.sci:
            groups[member.job.project, row.unit].append(member)
    return [_project(*key, group) for key, group in sorted(groups.items())]


def _project(project: str, unit: str, members: Sequence[_Member]) -> dict[str, Any]:
    """sum(C) / sum(R): parts of jobs with an unknown total are left out of both sums."""
    known = [member for member in members if member.job.total_g is not None]
    total_g = _Sums.of(known).total_g
    return {
        "project": project,
        **_score(unit, sum(_count(member, unit) for member in known), total_g),
        "jobs": len(members),
        "energy_kwh": doc(_Sums.of(members).energy_kwh),
        "total_g": doc(total_g),
        "conformance": worst_status(member.job.conformance for member in members),
    }


def _models(members: Iterable[_Member]) -> list[dict[str, Any]]:
    """Every model's runs; those that make it and those that use it are separate rows."""
    groups: dict[tuple[str, str], list[_Member]] = defaultdict(list)
    for member in members:
        if member.job.model_id:
            persona_of = persona(member.job.kind) or OTHER
            groups[member.job.model_id, persona_of].append(member)
    rows: list[dict[str, Any]] = []
    for (model_id, whose), group in sorted(groups.items()):
        sums = _Sums.of(group)
        row = {
            "model_id": model_id,
            "persona": whose,
            "jobs": len(group),
            "unfinished": sum(member.job.state in UNFINISHED for member in group),
            "energy_kwh": doc(sums.energy_kwh),
            "facility_kwh": doc(facility(group, sums)),
            "total_g": doc(sums.total_g),
            "unfinished_g": ACCOUNTS.unfinished_g(group),
        }
        rows.append(row)
    return rows


def _count(member: _Member, unit: str) -> float:
    """R of a job in this unit, of its days in the month."""
    return sum(day.counts.get(unit, 0.0) for day in member.days)


def _top(members: Iterable[_Member]) -> list[dict[str, Any]]:
    """Heads of the jobs with the most carbon in the month, with their part's figures and R."""
    parts = [(member, member.sums) for member in members]

    def total_g(part: tuple[_Member, _Sums]) -> float:
        carbon = part[1].total_g
        return carbon.value if carbon else 0.0

    return [_head(*part) for part in sorted(parts, key=total_g, reverse=True)[:TOP]]


def _head(member: _Member, sums: _Sums) -> dict[str, Any]:
    head = {name: getattr(member.job, name) for name in HEAD_FIELDS}
    return {
        **head,
        "energy_kwh": doc(sums.energy_kwh),
        "operational_g": doc(sums.operational_g),
        "embodied_g": doc(sums.embodied_g),
        "total_g": doc(sums.total_g),
        "sci": [_score(row.unit, _count(member, row.unit), sums.total_g) for row in member.job.sci],
    }


def _score(unit: str, count: float, total_g: Quantity | None) -> dict[str, Any]:
    score = per_unit(total_g, count, unit) if total_g and count > 0 else None
    return {"unit": unit, "count": count, "g_per_unit": doc(score)}


def _calendar(members: Iterable[_Member]) -> list[dict[str, Any]]:
    by_day: dict[str, list[_Member]] = defaultdict(list)
    for member in members:
        for day in member.days:
            by_day[day.day].append(_Member(member.job, [day]))
    return [_day(day, rows) for day, rows in sorted(by_day.items())]


def _day(day: str, parts: Sequence[_Member]) -> dict[str, Any]:
    sums = _Sums.of(parts)
    counts: dict[str, float] = defaultdict(float)
    for row in (row for part in parts for row in part.days):
        for unit, amount in row.counts.items():
            counts[unit] += amount
    return {
        "day": day,
        "energy_kwh": doc(sums.energy_kwh),
        "operational_g": doc(sums.operational_g),
        "embodied_g": doc(sums.embodied_g),
        "counts": dict(counts),
    }


def _quality(members: Iterable[_Member]) -> QualityDoc:
    """Shares over the month: those of each job, weighted by its energy or embodied carbon."""
    energy, intensity, embodied = (defaultdict[str, float](float) for _ in range(3))
    for member in members:
        sums, known = member.sums, member.job.data_quality
        for amounts, shares_of, weight in (
            (energy, known.energy, sums.energy_kwh),
            (intensity, known.intensity, sums.energy_kwh),
            (embodied, known.embodied, sums.embodied_g),
        ):
            for key, share in shares_of.items():
                amounts[key] += share * (weight.value if weight else 0.0)
    return quality(energy, intensity, embodied)


def _notices(documents: Sequence[JobDoc]) -> list[Notice]:
    unique: dict[tuple[str, str], Notice] = {}
    for job in documents:
        for notice in job.notices:
            unique.setdefault(
                (notice.code, notice.message), msgspec.structs.replace(notice, field=None)
            )
    return [unique[key] for key in sorted(unique)]


def _notice_counts(documents: Iterable[JobDoc]) -> dict[str, int]:
    """How many jobs have each notice, by code."""
    codes = Counter(code for job in documents for code in {n.code for n in job.notices})
    return dict(sorted(codes.items()))


ACCOUNTS = Accounts(_Sums.of, lambda m: _totals(m, _Sums.of(m)), _count, _quality)


def alike(found, wanted, path=""):
    """Assert that two documents are equal, numbers to 1e-9.

    Changes are differences of two sums, of which the last digits cancel: theirs to 1e-8.
    """
    found, wanted = (msgspec.to_builtins(value) for value in (found, wanted))
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys(), path
        for key, value in wanted.items():
            alike(found[key], value, f"{path}.{key}")
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), path
        for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
            alike(one, other, f"{path}[{number}]")
    elif isinstance(wanted, float):
        digits = 1e-8 if "changes." in path else 1e-9
        assert found == pytest.approx(wanted, rel=digits, abs=1e-12), path
    else:
        assert found == wanted, path
