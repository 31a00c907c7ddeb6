"""What budgets need of the months of many projects, in a few statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

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
from gramwatt.service.store.models import JobMonth, MonthSum, MonthVersion

ProjectMonth = tuple[str, str]
"""A month (YYYY-MM) and a project."""


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


Sums = tuple[MonthTotals | None, list[DayDoc]]


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
            document = msgspec.json.decode(row.doc)
            found[row.month, row.project] = document["totals"], document["days"]
    return found


def _made(
    session: Session, lacking: Collection[ProjectMonth], left_out: Mapping[str, Collection[int]]
) -> dict[ProjectMonth, Sums]:
    """Return the sums of these months out of the parts of their jobs."""
    if not lacking:
        return {}
    from gramwatt.service.months.sums.month import MonthSums  # numpy is loaded where sums are made

    wanted = sa.select(JobMonth).where(
        JobMonth.month.in_({month for month, _ in lacking}),
        JobMonth.project.in_({project for _, project in lacking}),
        JobMonth.use == SUMMED,
    )
    parts: dict[ProjectMonth, list[PartRow]] = {key: [] for key in lacking}
    for row in session.scalars(wanted):
        if (row.month, row.project) in parts and row.job not in left_out.get(row.month, ()):
            part = PartRow(row.job, row.job_id, row.started_us, row.texts, row.numbers)
            parts[row.month, row.project].append(part)
    sums = {key: MonthSums(key[0], [rows]) for key, rows in parts.items()}
    return {key: (of.totals(), of.days()) for key, of in sums.items()}
