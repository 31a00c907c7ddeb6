"""The archive of monthly reports: which are kept, and when each was made."""

from __future__ import annotations

import sqlalchemy as sa

from gramwatt.service.container import Service
from gramwatt.service.months.sums.keeping import ALL
from gramwatt.service.store.models import MonthlyReport
from gramwatt.service.store.timestamps import text_from_us


def kept_reports(service: Service, project: str | None) -> dict[str, list[str]]:
    """When the reports of each complete month were made (RFC 3339), newest first."""
    wanted = (
        sa.select(MonthlyReport.month, MonthlyReport.made_us)
        .where(MonthlyReport.project == (project or ALL))
        .order_by(MonthlyReport.made_us.desc())
    )
    found: dict[str, list[str]] = {}
    with service.store.read() as session:
        for month, made_us in session.execute(wanted):
            found.setdefault(month, []).append(text_from_us(made_us))
    return found
