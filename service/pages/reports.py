"""The archive of monthly reports, and one report within the site's frame."""

from __future__ import annotations

from urllib.parse import urlencode

from flask import Response

from gramwatt.service.api.access import Access
from gramwatt.service.api.reports import month_response
from gramwatt.service.api.routing import from_strings
from gramwatt.service.api.support import MonthPath, caller, service
from gramwatt.service.common.requests import ProjectQuery
from gramwatt.service.jobs.lists import project_names
from gramwatt.service.months.report import months_with_data
from gramwatt.service.months.revisions import kept_reports
from gramwatt.service.pages.frame import page, query, route
from gramwatt.service.pages.jobs import framed


class MonthPageQuery(ProjectQuery, frozen=True, kw_only=True):
    """Whose report, and how much of it."""

    full: bool = False


@route("/months", Access.READ)
def months() -> Response:
    """Return the months that have data, of all projects or one, and which reports of them are
    kept.
    """
    chosen = query(ProjectQuery)
    names = project_names(service())
    project = chosen.project
    if project is None and caller().projects is not None:
        project = next(iter(names), None)
    return page(
        "months.html",
        months=months_with_data(service()),
        kept=kept_reports(service(), project),
        names=names,
        project=project,
        may_see_all=caller().projects is None,
        this_month=service().month_now(),
    )


@route("/months/<month_name>", Access.READ)
def month(month_name: str) -> Response:
    """Return one month: page one of its report, with links to the rest and to its other forms."""
    from_strings(MonthPath, {"month": month_name}, "path")
    asked = query(MonthPageQuery)
    of = {"project": asked.project} if asked.project else {}
    only = f"?{urlencode(of)}" if of else ""
    here = f"/v1/reports/monthly/{month_name}"
    page_of = f"/months/{month_name}"
    whole = f"{page_of}?{urlencode({'full': 'true', **of})}"
    links = {"Short": f"{page_of}{only}"} if asked.full else {"Whole report": whole}
    links |= {form.upper(): f"{here}.{form}{only}" for form in ("pdf", "html", "xlsx", "json")}
    links["CSV"] = f"{here}.zip{only}"
    links["Jobs"] = f"{here}/jobs{only}"
    report = month_response(month_name, asked.project, "page", whole="" if asked.full else whole)
    return framed(report, links, tab="months")
