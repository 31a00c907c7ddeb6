"""Months' reports and sums that are made without being asked for."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.month.document import months_before
from gramwatt.service.config import EACH_PROJECT
from gramwatt.service.container import Service
from gramwatt.service.months.badges import BADGE_MONTHS
from gramwatt.service.months.cache import keep_sums
from gramwatt.service.months.pending import jobs_to_rescore, pending_jobs, pending_keys
from gramwatt.service.months.report import keep_month, months_with_data
from gramwatt.service.months.rows import changes_of
from gramwatt.service.store.months import ALL, JobMonth, MonthlyReport, MonthSum

LATE_MONTHS = 3
"""Ended months whose newest reports are delivered where they were not."""


def keep_ended_months(service: Service) -> list[tuple[str, str | None]]:
    """Keep the reports of ended months that have none, or whose jobs changed since the last.

    Those over all projects, and of each project that has its own, whatever their age, once their
    jobs are scored. Returns the months that ended last and those that were kept now, each with
    None or a project, the newest first.
    """
    now_us = service.now_us()
    ended = [m for m in months_with_data(service) if service.month_span_us(m)[1] <= now_us]
    with service.store.read() as session:
        reports = [(m, project) for m in ended for project in _reported(service, session, m)]
        changed = _changed(service, session, reports)
    for month, project in changed:
        keep_month(service, month, project)
    late = ended[:LATE_MONTHS]
    return [(m, project) for m, project in reports if m in late or (m, project) in changed]


def _changed(
    service: Service, session: Session, reports: list[tuple[str, str | None]]
) -> set[tuple[str, str | None]]:
    """Return those whose newest report was made of another state, and whose jobs are scored."""
    pending = pending_keys(session)
    columns = (MonthlyReport.month, MonthlyReport.project, MonthlyReport.changes)
    ordered = sa.select(*columns).order_by(MonthlyReport.revision)
    recorded = {(month, project): changes for month, project, changes in session.execute(ordered)}
    changed = set()
    for month, project in reports:
        changes = changes_of(session, month, project)
        if recorded.get((month, project or ALL)) == changes:
            continue
        # The months of its trend are looked at where it is kept.
        rescoring = jobs_to_rescore(service, session, [month], project)
        if not rescoring and not any(pending_jobs(service, session, month, project, pending)[:2]):
            changed.add((month, project))
    return changed


def _reported(service: Service, session: Session, month: str) -> list[str | None]:
    """Return None, for all projects, and the projects with a report of the month of their own."""
    chosen = service.config.reports.projects
    if not chosen:
        return [None]
    with_parts = sa.select(JobMonth.project).where(JobMonth.month == month)
    # One that its jobs have left goes on being revised.
    with_report = sa.select(MonthlyReport.project).where(MonthlyReport.month == month)
    projects = set(session.scalars(sa.union(with_parts, with_report))) - {ALL}
    return [None, *sorted(projects if EACH_PROJECT in chosen else projects & chosen)]


def sum_newest_months(service: Service) -> None:
    """Bring the stored sums of the present month up to date, of all projects and of each.

    A project without a job in it has its newest month summed, which its badge shows.
    """
    present = service.month_now()
    newest = sa.func.max(MonthSum.month)
    statement = sa.select(MonthSum.project, newest).where(
        MonthSum.month.between(months_before(present, BADGE_MONTHS)[-1], present)
    )
    with service.store.read() as session:
        rows = session.execute(statement.group_by(MonthSum.project))
        months: dict[str, str] = {project: month for project, month in rows}
    for project, month in sorted(months.items()):
        if project != ALL or month == present:
            keep_sums(service, month, project or None)
