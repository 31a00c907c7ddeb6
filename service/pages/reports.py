"""The archive of monthly reports, and one report within the site's frame."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from importlib import resources
from urllib.parse import urlencode

from flask import Response

from gramwatt.sci.month.yearly import added
from gramwatt.service.api.access import Access
from gramwatt.service.api.reports import YearPath, month_response, year_response
from gramwatt.service.api.routing import from_strings
from gramwatt.service.api.support import MonthPath, caller, heavy, service
from gramwatt.service.common.requests import ProjectQuery
from gramwatt.service.jobs.projects import project_names
from gramwatt.service.months.overview import month_bars
from gramwatt.service.months.report import months_with_data
from gramwatt.service.months.revisions import kept_reports
from gramwatt.service.pages.frame import page, query, route
from gramwatt.service.pages.jobs import framed
from gramwatt.service.rendering import render_month
from gramwatt.service.store.columns import read_month


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
    months = months_with_data(service())
    bars = {bar.name: bar for bar in month_bars(service(), months, project)}
    years = {
        year: (list(of), added([bars[month].total_g for month in of]))
        for year, of in _by_year(months).items()
    }
    return page(
        "months.html",
        bars=bars,
        years=years,
        kept=kept_reports(service(), project),
        names=names,
        project=project,
        may_see_all=caller().projects is None,
        this_month=service().month_now(),
    )


def _by_year(months: Sequence[str]) -> dict[str, list[str]]:
    years: dict[str, list[str]] = {}
    for month in months:
        years.setdefault(month[:4], []).append(month)
    return years


@route("/example", Access.READ)
def example() -> Response:
    """Return the report of an example month: of an invented company, made by the product."""
    whole = "" if query(MonthPageQuery).full else "/example?full=true"
    packed = resources.files("gramwatt.service.pages").joinpath("data/example.json.gz")
    document = read_month(gzip.decompress(packed.read_bytes()).decode())
    with heavy():
        text = render_month(document, "page", list, whole)
    response = Response(text, content_type="text/html; charset=utf-8")
    more = {"Whole report": whole} if whole else {"Short": "/example"}
    return framed(response, {**more, "Reports": "/months"}, tab="months")


@route("/years/<year_name>", Access.READ)
def year(year_name: str) -> Response:
    """Return the report of a year, with links to its other forms."""
    from_strings(YearPath, {"year": year_name}, "path")
    chosen = query(ProjectQuery)
    only = f"?{urlencode({'project': chosen.project})}" if chosen.project else ""
    here = f"/v1/reports/yearly/{year_name}"
    links = {form.upper(): f"{here}.{form}{only}" for form in ("pdf", "html", "json")}
    return framed(year_response(year_name, chosen.project, "page"), links, tab="months")


@route("/months/<month_name>", Access.READ)
def month(month_name: str) -> Response:
    """Return one month: page one of its report, with links to the rest and to its other forms."""
    from_strings(MonthPath, {"month": month_name}, "path")
    chosen = query(MonthPageQuery)
    of = {"project": chosen.project} if chosen.project else {}
    only = f"?{urlencode(of)}" if of else ""
    here = f"/v1/reports/monthly/{month_name}"
    page_of = f"/months/{month_name}"
    whole = f"{page_of}?{urlencode({'full': 'true', **of})}"
    links = {"Short": f"{page_of}{only}"} if chosen.full else {"Whole report": whole}
    links |= {form.upper(): f"{here}.{form}{only}" for form in ("pdf", "html", "xlsx", "json")}
    links["CSV"] = f"{here}.zip{only}"
    links["Jobs"] = f"{here}/jobs{only}"
    report = month_response(month_name, chosen.project, "page", whole="" if chosen.full else whole)
    return framed(report, links, tab="months")
