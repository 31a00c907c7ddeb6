"""Months' reports and sums that are made without being asked for."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.service.config import EACH_PROJECT
from gramwatt.service.container import Service
from gramwatt.service.months.pending import pending_jobs, pending_keys
from gramwatt.service.months.report import month_sums, month_text, months_with_data
from gramwatt.service.months.sums.filling import fill_parts
from gramwatt.service.months.sums.keeping import ALL
from gramwatt.service.store.models import JobMonth, MonthlyReport

LATE_MONTHS = 3
"""Ended months whose reports are made again by themselves when late data change them."""


def make_missing_reports(service: Service) -> list[tuple[str, str | None]]:
    """Make the reports of complete months without one, and anew where late data changed the last.

    Those over all projects, and of each project that has its own. Returns the months that ended
    last, the newest first, each with None and its projects.
    """
    fill_parts(service)
    now_us = service.now_us()
    ended = [m for m in months_with_data(service) if service.month_span_us(m)[1] <= now_us]
    with service.store.read() as session:
        wanted = [(m, project) for m in ended for project in _reported(service, session, m)]
        kept = session.execute(sa.select(MonthlyReport.month, MonthlyReport.project))
        made = {(month, project) for month, project in kept}
        late = ended[:LATE_MONTHS]
        missing = [(m, p) for m, p in wanted if (m, p or ALL) not in made or m in late]
        pending = pending_keys(session)
        complete = [
            (m, p) for m, p in missing if not any(pending_jobs(service, session, m, p, pending)[:2])
        ]
    for month, project in complete:
        month_text(service, month, project)
    return [(month, project) for month, project in wanted if month in late]


def _reported(service: Service, session: Session, month: str) -> list[str | None]:
    """None, which is all projects, and the projects with a report of the month of their own."""
    chosen = service.config.reports.projects
    if not chosen:
        return [None]
    with_parts = sa.select(JobMonth.project).where(JobMonth.month == month)
    # One that its jobs have left goes on being revised.
    with_report = sa.select(MonthlyReport.project).where(MonthlyReport.month == month)
    found = set(session.scalars(sa.union(with_parts, with_report))) - {ALL}
    return [None, *sorted(found if EACH_PROJECT in chosen else found & chosen)]


def sum_present_month(service: Service) -> None:
    """Bring the stored sums of the present month up to date, of each project and of all."""
    month = service.month_now()
    wanted = sa.select(JobMonth.project).where(JobMonth.month == month).distinct()
    with service.store.read() as session:
        projects = list(session.scalars(wanted))
    for project in (*projects, None) if projects else ():
        month_sums(service, month, project)
