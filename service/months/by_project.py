"""What budgets need of the months of many projects, in a few statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

import msgspec
import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.analysis.documents import MonthTotals
from gramwatt.sci.analysis.month import previous_month
from gramwatt.sci.base.document import DayDoc
from gramwatt.service.container import Service
from gramwatt.service.months.pending import left_out_jobs, pending_jobs, pending_keys
from gramwatt.service.months.stored import state_of
from gramwatt.service.months.sums.part import SUMMED, PartRow
from gramwatt.service.store.job_labels import TAG, label_text
from gramwatt.service.store.models import (
    Job,
    JobLabel,
    JobMonth,
    MonthSum,
    MonthVersion,
    is_pending,
)

ProjectMonth = tuple[str, str]
"""A month (YYYY-MM) and a project."""


@dataclass(frozen=True, slots=True)
class Group:
    """Several projects, or the jobs of a cost centre, which is their tag `cost_centre`."""

    projects: tuple[str, ...] = ()
    cost_centre: str | None = None

    def holds(self, job: Any, project: Any) -> sa.ColumnElement[bool]:
        """Return whether a row is of a job of the group, by its columns of both."""
        if self.cost_centre is None:
            return cast(sa.ColumnElement[bool], project.in_(self.projects))
        label = label_text(TAG, f"cost_centre:{self.cost_centre}")
        tagged = sa.select(JobLabel.job).where(JobLabel.label == label)
        return cast(sa.ColumnElement[bool], job.in_(tagged))


@dataclass(frozen=True, slots=True)
class ProjectSums:
    """The scored jobs of a project's month, and how many others it has.

    `totals` and `days` are those of the month's document, None and empty without a scored job;
    `began_before` says that the month before has jobs too.
    """

    totals: MonthTotals | None
    days: list[DayDoc]
    began_before: bool
    running: int
    unscored: int


def project_sums(
    service: Service, wanted: Collection[ProjectMonth]
) -> dict[ProjectMonth, ProjectSums]:
    """Return the sums of each of these months of projects; stored ones while they hold."""
    service = service.for_every_project()
    months = sorted({month for month, _ in wanted})
    projects = sorted({project for _, project in wanted})
    around = sorted({*months, *map(previous_month, months)})
    with service.store.read() as session:
        pending = pending_keys(session)
        left_out = left_out_jobs(session, around, sorted(pending))
        known = _versions(session, around, projects)
        states = {
            (month, project): state_of(service, month, known.get(project, {}), left_out)
            for month, project in wanted
            if month in known.get(project, {})
        }
        sums = _stored(session, months, projects, states)
        sums |= _made(session, states.keys() - sums.keys(), left_out)
        running, unscored = Counter[ProjectMonth](), Counter[ProjectMonth]()
        for month in months:
            found = pending_jobs(service, session, month, None, pending)
            for counted, jobs in zip((running, unscored), found[:2], strict=True):
                counted.update((month, job.project) for job in jobs)
    return {
        (month, project): ProjectSums(
            *sums.get((month, project), (None, [])),
            previous_month(month) in known.get(project, {}),
            running[month, project],
            unscored[month, project],
        )
        for month, project in wanted
    }


def group_sums(service: Service, month: str, group: Group) -> ProjectSums:
    """Return the sums of a month of a group, made now: shared inputs count once among projects."""
    service = service.for_every_project()
    of_month = JobMonth.month == month, group.holds(JobMonth.job, JobMonth.project)
    before = JobMonth.month == previous_month(month), group.holds(JobMonth.job, JobMonth.project)
    with service.store.read() as session:
        own = sa.select(Job.id, Job.started_us).where(
            is_pending(), group.holds(Job.id, Job.project)
        )
        pending = {key: started_us for key, started_us in session.execute(own)}
        left_out = set(left_out_jobs(session, [month], sorted(pending)).get(month, ()))
        wanted = sa.select(JobMonth).where(*of_month, JobMonth.use == SUMMED)
        parts = [_part(row) for row in session.scalars(wanted) if row.job not in left_out]
        running, unscored, _ = pending_jobs(service, session, month, None, pending)
        began_before = session.scalar(sa.select(JobMonth.job).where(*before).limit(1)) is not None
    totals, days = _summed(month, parts) if parts else (None, [])
    return ProjectSums(totals, days, began_before, len(running), len(unscored))


Sums = tuple[MonthTotals | None, list[DayDoc]]


class _StoredSums(msgspec.Struct):
    """What is read of stored sums."""

    totals: MonthTotals | None
    days: list[DayDoc]


def _versions(
    session: Session, months: Collection[str], projects: Collection[str]
) -> dict[str, dict[str, int]]:
    """Return the version of each month that has one, by project."""
    columns = (MonthVersion.project, MonthVersion.month, MonthVersion.version)
    of_these = (MonthVersion.month.in_(months), MonthVersion.project.in_(projects))
    found: dict[str, dict[str, int]] = {}
    for project, month, version in session.execute(sa.select(*columns).where(*of_these)):
        found.setdefault(project, {})[month] = version
    return found


def _stored(
    session: Session,
    months: Collection[str],
    projects: Collection[str],
    states: Mapping[ProjectMonth, str],
) -> dict[ProjectMonth, Sums]:
    """Return the stored sums that hold now."""
    wanted = sa.select(MonthSum).where(MonthSum.month.in_(months), MonthSum.project.in_(projects))
    found: dict[ProjectMonth, Sums] = {}
    for row in session.scalars(wanted):
        if states.get((row.month, row.project)) == row.made_of:
            stored = msgspec.json.decode(row.doc, type=_StoredSums)
            found[row.month, row.project] = stored.totals, stored.days
    return found


def _made(
    session: Session, lacking: Collection[ProjectMonth], left_out: Mapping[str, Collection[int]]
) -> dict[ProjectMonth, Sums]:
    """Return the sums of these months out of the parts of their jobs."""
    if not lacking:
        return {}
    wanted = sa.select(JobMonth).where(
        JobMonth.month.in_({month for month, _ in lacking}),
        JobMonth.project.in_({project for _, project in lacking}),
        JobMonth.use == SUMMED,
    )
    parts: dict[ProjectMonth, list[PartRow]] = {key: [] for key in lacking}
    for row in session.scalars(wanted):
        if (row.month, row.project) in parts and row.job not in left_out.get(row.month, ()):
            parts[row.month, row.project].append(_part(row))
    return {key: _summed(key[0], rows) for key, rows in parts.items()}


def _part(row: JobMonth) -> PartRow:
    return PartRow(row.job, row.job_id, row.started_us, row.texts, row.numbers)


def _summed(month: str, rows: list[PartRow]) -> Sums:
    from gramwatt.service.months.sums.month import MonthSums  # numpy is loaded where sums are made

    sums = MonthSums(month, [rows])
    return sums.totals(), sums.days()
