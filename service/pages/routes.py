"""The web pages: server-rendered, nothing from outside, no script but on the API's page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from flask import Flask, Response, render_template, request

from gramwatt.reports.printable import clean
from gramwatt.reports.sections.daily import month_name
from gramwatt.sci.base.formatting import duration, span_text, value_text
from gramwatt.service.api import problems
from gramwatt.service.api.access import Access, declare, whole_service
from gramwatt.service.api.reports import job_response, month_response
from gramwatt.service.api.routing import Model, from_strings
from gramwatt.service.api.schedules import SchedulesQuery
from gramwatt.service.api.support import JobPath, MonthPath, ProjectQuery, service
from gramwatt.service.pages.login import ENTRY_POLICY
from gramwatt.service.tasks import runs
from gramwatt.service.tasks.table import period
from gramwatt.service.usecases.answers import JOB_STATES, JobState
from gramwatt.service.usecases.lists import list_jobs, project_names
from gramwatt.service.usecases.month import months_with_data

PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
DOCS_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PER_PAGE = 50
FILTERS: dict[str, Callable[[Any], str]] = {
    "figure": value_text,
    "figure_range": span_text,
    "duration": duration,
    "month_name": month_name,
    "clean": clean,
    "period": period,
    "day": lambda text: text[:10],
    "clock": lambda text: text[11:19],
}


class ListQuery(ProjectQuery):
    """Filters and page of the list of jobs."""

    state: JobState | None = None
    cursor: str | None = None


def install(app: Flask) -> None:
    """Put the pages and their text filters on the app."""
    app.jinja_env.filters.update(FILTERS)
    app.after_request(_problem_page)
    declare(app, "static", Access.READ)
    for rule, view, access in (
        ("/", jobs, Access.READ),
        ("/jobs/<job_id>", job, Access.READ),
        ("/months", months, Access.READ),
        ("/months/<month_name>", month, Access.READ),
        ("/schedules", schedules, Access.READ_ALL),
        ("/docs", docs, Access.READ),
    ):
        app.add_url_rule(rule, f"page.{view.__name__}", view)
        declare(app, f"page.{view.__name__}", access)


def jobs() -> Response:
    """The list of jobs."""
    query = _query(ListQuery)
    found, following = list_jobs(
        service(), PER_PAGE, query.cursor, project=query.project, state=query.state
    )
    return _page(
        "jobs.html",
        jobs=found,
        projects=project_names(service()),
        states=JOB_STATES,
        chosen=query,
        next_cursor=following,
        is_first=query.cursor is None,
    )


def job(job_id: str) -> Response:
    """One job: its report, with links to its other forms."""
    from_strings(JobPath, {"job_id": job_id}, "path")
    here = f"/v1/jobs/{job_id}"
    links = {
        "PDF": f"{here}/report.pdf",
        "JSON": f"{here}/report.json",
        "Revisions": f"{here}/revisions",
    }
    return _report(job_response(job_id, None, "html"), links)


def months() -> Response:
    """The months that have data."""
    return _page("months.html", months=months_with_data(service()))


def month(month_name: str) -> Response:
    """One month: its report, with links to its other forms."""
    from_strings(MonthPath, {"month": month_name}, "path")
    project = _query(ProjectQuery).project
    only = f"?{urlencode({'project': project})}" if project else ""
    here = f"/v1/reports/monthly/{month_name}"
    links = {form.upper(): f"{here}.{form}{only}" for form in ("pdf", "csv", "json")}
    return _report(month_response(month_name, project, "html"), links)


def schedules() -> Response:
    """The periodic tasks and their runs."""
    query = _query(SchedulesQuery)
    before = int(query.cursor) if query.cursor else None
    found = runs.schedules(service(), PER_PAGE, before, query.task)
    return _page("schedules.html", found=found, chosen=query)


def docs() -> Response:
    """The API's documentation, by the Swagger UI that the package carries."""
    return _page("docs.html", policy=DOCS_POLICY)


def _query(model: type[Model]) -> Model:
    """The parameters that the model has; an empty one was not chosen."""
    given = {name: request.args.get(name, "") for name in model.model_fields}
    return from_strings(model, {name: text for name, text in given.items() if text}, "query")


def _problem_page(response: Response) -> Response:
    """Turn a problem document into a page for a reader who prefers HTML."""
    is_page = (request.endpoint or "page.").startswith("page.")
    best = request.accept_mimetypes.best_match([problems.MEDIA_TYPE, "text/html"])
    if response.mimetype != problems.MEDIA_TYPE or not is_page or best != "text/html":
        return response
    # Who has no key gets no style sheet either.
    locked = response.status_code == 401
    template, policy = ("locked.html", ENTRY_POLICY) if locked else ("problem.html", PAGE_POLICY)
    provider = whole_service().config.oidc is not None
    response.set_data(render_template(template, problem=response.get_json(), provider=provider))
    response.content_type = "text/html; charset=utf-8"
    response.headers["Content-Security-Policy"] = policy
    response.headers["Vary"] = "Accept"
    return response


def _page(template: str, *, policy: str = PAGE_POLICY, **values: object) -> Response:
    response = Response(
        render_template(template, **values), content_type="text/html; charset=utf-8"
    )
    response.headers["Content-Security-Policy"] = policy
    return response


def _report(response: Response, links: dict[str, str]) -> Response:
    """A report as a page of the site: a bar of links above it, no ETag, its own policy."""
    head, bar = render_template("bar_head.html"), render_template("bar.html", links=links)
    page = response.get_data(as_text=True).replace("</head>", f"{head}</head>", 1)
    response.set_data(page.replace("<body>", f"<body>{bar}", 1))
    response.headers.pop("ETag", None)
    response.headers["Content-Security-Policy"] = REPORT_POLICY
    return response
