"""The report of a year, out of the reports of its months."""

from __future__ import annotations

from gramwatt.sci.month.documents import MonthDoc
from gramwatt.sci.month.yearly import YearDoc, months_of_year, year_document, year_totals
from gramwatt.service.access.projects import one_project
from gramwatt.service.common.errors import NoDataError
from gramwatt.service.container import Service
from gramwatt.service.months.report import month_alone


def year_report(service: Service, year: str, project: str | None = None) -> YearDoc:
    """Return the report of a year; nothing is written. Raises NoDataError."""
    project = one_project(service, project, f"{year}-12")
    months = _months(service, year, project)
    if not months:
        raise NoDataError(f"no job {f'of project {project!r} ' if project else ''}in {year}")
    now_us, settings = service.now_us(), service.config.reports
    over = {month: now_us >= service.month_span_us(month)[1] for month in months_of_year(year)}
    base = None
    if settings.base_year is not None and settings.base_year != int(year):
        before = _months(service, f"{settings.base_year}", project)
        base = settings.base_year, year_totals(list(before.values()))
    return year_document(year, project, months, over, base, settings.targets, settings.statement())


def _months(service: Service, year: str, project: str | None) -> dict[str, MonthDoc]:
    """Return the reports of the months of a year that have data, the newest with its advice."""
    documents: dict[str, MonthDoc] = {}
    for month in reversed(months_of_year(year)):
        try:
            documents[month] = month_alone(service, month, project, advised=not documents)
        except NoDataError:
            continue
    return dict(sorted(documents.items()))
