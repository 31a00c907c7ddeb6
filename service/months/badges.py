"""What a project's badge says: carbon per unit of its newest month, or that month's total."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gramwatt.reports.badge import badge
from gramwatt.sci.figures.formatting import plain, text, value_text
from gramwatt.sci.figures.quantity import METERED, Quantity
from gramwatt.sci.figures.structs import decode
from gramwatt.sci.month.document import months_before
from gramwatt.sci.month.documents import MonthTotals, ProjectRow
from gramwatt.service.access.projects import one_project
from gramwatt.service.common.errors import NoDataError
from gramwatt.service.container import Service
from gramwatt.service.months.cache import kept_months

BADGE_MONTHS = 12
"""Months before the present one in which a badge looks for the newest with a job."""


class _Sums(msgspec.Struct):
    """The fields of stored sums that a badge shows."""

    totals: MonthTotals
    projects: list[ProjectRow]


def project_badge(service: Service, project: str, unit: str | None) -> str:
    """Return the badge of a project as SVG, by the stored sums of the newest month with a job.

    Nothing is summed: as last stored, "so far" where its jobs have changed since. Of a project
    without any sum, or that the caller does not see, it says so.
    """
    present = service.month_now()
    try:
        project = one_project(service, project, present) or project
        months = kept_months(service, [present, *months_before(present, BADGE_MONTHS)], project)
    except NoDataError:
        months = {}
    sums = {m: decode(stored.document, _Sums) for m, stored in months.items() if stored.document}
    with_jobs = [m for m in months if m not in sums or sums[m].totals.jobs]
    if not with_jobs:
        return badge(project, "no data yet", f"{project}: no data yet", has_figure=False)
    month = max(with_jobs)
    if month not in sums:
        return badge(project, "no figure yet", f"{project}: no figure yet", has_figure=False)
    is_over = month < present and months[month].holds
    named = month if is_over else f"{month} so far"
    return _of_month(sums[month], named, project, unit)


def _of_month(sums: _Sums, month: str, project: str, unit: str | None) -> str:
    row = _row(sums.projects, unit)
    if row is not None:
        return _badge(project, row.g_per_unit, month, row.conformance)
    if unit is not None:
        return badge(project, f"no {unit} in {month}", f"{project}: no {unit}", has_figure=False)
    return _badge(project, sums.totals.total_g, month, "")


def _row(rows: Sequence[ProjectRow], unit: str | None) -> ProjectRow | None:
    """Return the row of the unit, or of the only one that work was counted in; None for neither."""
    rows_of_unit = [row for row in rows if row.g_per_unit is not None]
    if unit is not None:
        return next((row for row in rows_of_unit if row.unit == unit), None)
    counted = [row for row in rows_of_unit if row.unit != "job"]
    return counted[0] if len(counted) == 1 else None


def _badge(project: str, figure: Quantity | None, month: str, conformance: str) -> str:
    if figure is None:
        return badge(project, f"not known, {month}", f"{project}: not known", has_figure=False)
    marks = [] if figure.kind in METERED else ["estimated"]
    marks += ["no SCI"] if conformance == "not-sci" else []
    value = ", ".join([plain(value_text(figure)), month, *marks])
    title = ", ".join([f"{project}: {plain(text(figure))}", month, *marks])
    return badge(project, value, title)
