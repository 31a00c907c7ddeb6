"""The pages for people: server-rendered, no script on them, nothing from outside."""

from __future__ import annotations

import re

import sqlalchemy as sa
from flask import Flask, Response, render_template, request

from gramwatt.service.http.paging import cut, decode_cursor
from gramwatt.service.metrics import STATES
from gramwatt.service.models import Job
from gramwatt.service.pagetext import FILTERS
from gramwatt.service.routes.reports import job_response, month_response
from gramwatt.service.routes.support import service
from gramwatt.service.usecases.month import months_with_data
from gramwatt.service.usecases.read import find_job, head_of, jobs_after

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


def install(app: Flask) -> None:
    """Put the pages and their text filters on the app."""
    app.jinja_env.filters.update(FILTERS)
    for rule, view in (
        ("/", jobs),
        ("/jobs/<job_id>", job),
        ("/months", months),
        ("/months/<month_name>", month),
        ("/docs", docs),
    ):
        app.add_url_rule(rule, f"page.{view.__name__}", view)


def jobs() -> Response:
    """The list of jobs."""
    cursor = request.args.get("cursor")
    position = decode_cursor(cursor, int, int) if cursor else None
    project, state = request.args.get("project") or None, request.args.get("state") or None
    with service().store.read() as session:
        found = jobs_after(
            session, position, PER_PAGE + 1, only={"project": project, "state": state}
        )
        projects = list(session.scalars(sa.select(Job.project).distinct().order_by(Job.project)))
    shown, following = cut(found, PER_PAGE, lambda row: (row.started_us, row.id))
    return _page(
        "jobs.html",
        rows=[(head_of(row), row.grade, row.notices) for row in shown],
        projects=projects,
        states=STATES,
        chosen={"project": project, "state": state},
        next_cursor=following,
        is_first=position is None,
    )


def job(job_id: str) -> Response:
    """One job: its report, with links to its other forms."""
    with service().store.read() as session:
        find_job(session, job_id)
    here = f"/v1/jobs/{job_id}"
    links = {
        "All jobs": "/",
        "PDF": f"{here}/report.pdf",
        "JSON": f"{here}/report.json",
        "Revisions": f"{here}/revisions",
    }
    return _report(job_response(job_id, None, "html"), links)


def months() -> Response:
    """The months that have data."""
    with service().store.read() as session:
        return _page("months.html", months=months_with_data(session))


def month(month_name: str) -> Response:
    """One month: its report, with links to its other forms."""
    project = request.args.get("project") or None
    here, asked = f"/v1/reports/monthly/{month_name}", f"?project={project}" if project else ""
    links = {"All months": "/months"} | {
        form.upper(): f"{here}.{form}{asked}" for form in ("pdf", "csv", "json")
    }
    return _report(month_response(month_name, project, "html"), links)


def docs() -> Response:
    """The API's documentation, by the Swagger UI that the package carries."""
    return _page("docs.html", policy=DOCS_POLICY)


def _page(template: str, *, policy: str = PAGE_POLICY, **values: object) -> Response:
    response = Response(
        render_template(template, **values), content_type="text/html; charset=utf-8"
    )
    response.headers["Content-Security-Policy"] = policy
    return response


def _report(response: Response, links: dict[str, str]) -> Response:
    """A report as a page of the site: a bar of links above it, no ETag, its own policy."""
    bar = render_template("bar.html", links=links)
    response.set_data(
        re.sub(r"<body[^>]*>", lambda m: m.group() + bar, response.get_data(as_text=True), count=1)
    )
    response.headers.pop("ETag", None)
    response.headers["Content-Security-Policy"] = REPORT_POLICY
    return response
