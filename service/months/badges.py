"""What a project's badge says: carbon per unit of its newest month, or that month's total."""

from __future__ import annotations

import json

from gramwatt.reports.badge import badge
from gramwatt.sci.analysis.documents import MonthDoc, ProjectRow
from gramwatt.sci.analysis.month import previous_month
from gramwatt.sci.base.formatting import plain, text, value_text
from gramwatt.sci.base.quantity import METERED, QuantityDoc
from gramwatt.service.common.errors import NoDataError
from gramwatt.service.container import Service
from gramwatt.service.months.report import month_text

MONTHS_BACK = 12


def project_badge(service: Service, project: str, unit: str | None) -> str:
    """Return the badge of a project as SVG, of the newest of the last months that has data.

    Of a project without any, or that the caller does not see, it says so.
    """
    month = service.month_of(service.now())
    for _ in range(MONTHS_BACK + 1):
        try:
            document: MonthDoc = json.loads(month_text(service, month, project))
        except NoDataError:
            month = previous_month(month)
            continue
        return _of_month(document, project, unit)
    return badge(project, "no data yet", f"{project}: no data yet", known=False)


def _of_month(document: MonthDoc, project: str, unit: str | None) -> str:
    row = _row(document, unit)
    month = document["month"] + ("" if document["complete"] else " so far")
    if row is not None:
        return _badge(project, row["g_per_unit"], month, row["conformance"])
    if unit is not None:
        return badge(project, f"no {unit} in {month}", f"{project}: no {unit}", known=False)
    return _badge(project, document["totals"]["total_g"], month, "")


def _row(document: MonthDoc, unit: str | None) -> ProjectRow | None:
    """Return the row of the unit, or of the only one that work was counted in; None for neither."""
    known = [row for row in document["projects"] if row["g_per_unit"] is not None]
    if unit is not None:
        return next((row for row in known if row["unit"] == unit), None)
    counted = [row for row in known if row["unit"] != "job"]
    return counted[0] if len(counted) == 1 else None


def _badge(project: str, figure: QuantityDoc | None, month: str, conformance: str) -> str:
    if figure is None:
        return badge(project, f"not known, {month}", f"{project}: not known", known=False)
    marks = [] if figure["kind"] in METERED else ["estimated"]
    marks += ["no SCI"] if conformance == "not-sci" else []
    value = ", ".join([plain(value_text(figure)), month, *marks])
    title = ", ".join([f"{project}: {plain(text(figure))}", month, *marks])
    return badge(project, value, title)
