"""Reports of jobs and months, in the format of the address or of the Accept header."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from flask import Response, request
from msgspec import Meta, Struct

from gramwatt.reports.html import POLICY
from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.month.documents import MonthDoc
from gramwatt.sci.month.repeated import RUNS_MOST, RunsComparisonDoc
from gramwatt.sci.month.revised import MonthDifference
from gramwatt.sci.month.yearly import YearDoc
from gramwatt.sci.records.records import UNIT_PATTERN
from gramwatt.service import rendering
from gramwatt.service.api.access import Access
from gramwatt.service.api.problems import Problem
from gramwatt.service.api.routing import Routes, reader_has, tag_of, with_tag
from gramwatt.service.api.support import ABSENT, JobPath, MonthPath, RevisionQuery, heavy, service
from gramwatt.service.common.requests import (
    Identifier,
    MonthQuery,
    ProjectQuery,
    UnitQuery,
    Year,
    exactly,
)
from gramwatt.service.container import Service
from gramwatt.service.jobs.advice import comparison
from gramwatt.service.jobs.documents import document_version, job_document
from gramwatt.service.months.badges import project_badge
from gramwatt.service.months.report import keep_month, month_text, year_report
from gramwatt.service.months.revisions import JobTable, compare, job_table
from gramwatt.service.rendering import (
    JOB_FORMATS,
    MEDIA,
    MONTH_FORMATS,
    JobFormat,
    MonthFormat,
    Page,
    render_comparison,
)
from gramwatt.service.store.columns import read_month, to_text
from gramwatt.service.suggest import advice_basis, advice_beside

routes = Routes("reports")

Format = TypeVar("Format", bound=str)
SCORED = *ABSENT, "not-scorable", "busy"
SUMMED = "no-data", "not-ready", "busy"


JOB_MEDIA = {MEDIA[form]: JobDoc if form == "json" else None for form in JOB_FORMATS}
MONTH_MEDIA = {MEDIA[form]: MonthDoc if form == "json" else None for form in MONTH_FORMATS}


YEAR_MEDIA = {MEDIA[form]: YearDoc if form == "json" else None for form in JOB_FORMATS}


class JobFile(JobPath, frozen=True, kw_only=True):
    """A job's report as a file."""

    form: Annotated[JobFormat, Meta(description="The format.")]


class MonthFile(MonthPath, frozen=True, kw_only=True):
    """A month's report as a file."""

    form: Annotated[MonthFormat, Meta(description="The format.")]


class ChangesQuery(MonthQuery, frozen=True, kw_only=True):
    """Which reports of a month are compared."""

    against: Annotated[int, Meta(ge=1, le=1000000, description="The kept revision before.")]


class ReportQuery(RevisionQuery, frozen=True, kw_only=True):
    """Which revision of a report, and how much of it."""

    full: Annotated[
        bool,
        Meta(description="In HTML and PDF every figure behind the score; JSON is always whole."),
    ] = False


@routes.get("/v1/jobs/<job_id>/report", *SCORED, access=Access.READ, media=JOB_MEDIA)
def job_report(path: JobPath, query: ReportQuery) -> Response:
    """Return the report of a job, in the format that the Accept header asks for.

    JSON is the whole job document. A running job has a provisional one. The answer has an ETag.
    """
    form = by_accept(JOB_FORMATS)
    return job_response(service(), path.job_id, query.revision, form, full=query.full)


@routes.get("/v1/jobs/<job_id>/report.<form>", *SCORED, access=Access.READ, media=JOB_MEDIA)
def job_report_file(path: JobFile, query: ReportQuery) -> Response:
    """Return the report of a job, in the format of the extension."""
    return job_response(service(), path.job_id, query.revision, path.form, full=query.full)


@routes.get("/v1/reports/monthly/<month>", *SUMMED, access=Access.READ, media=MONTH_MEDIA)
def monthly_report(path: MonthPath, query: MonthQuery) -> Response:
    """Return the report of a month, in the format that the Accept header asks for.

    `revision` is null where no kept revision says the same; that of a revision never changes.
    Of a month without a job the report is nil; one that has not begun is `no-data`.
    """
    return month_response(path.month, query.project, by_accept(MONTH_FORMATS), query.revision)


@routes.post("/v1/reports/monthly/<month>", *SUMMED, access=Access.ADMIN)
def keep_monthly_report(path: MonthPath, query: ProjectQuery) -> MonthDoc:
    """Keep the report of a complete month as its next revision, where it says something new.

    Periodic work does so within a minute; this does it now. The answer is the report.
    """
    with heavy():
        return read_month(keep_month(service(), path.month, query.project))


@routes.get("/v1/reports/monthly/<month>/jobs", *SUMMED, access=Access.READ)
def monthly_jobs(path: MonthPath, query: MonthQuery) -> JobTable:
    """Return the jobs in the sums of a month: by which score, and their part of the month.

    With `revision`, those of a kept report.
    """
    with heavy():
        return job_table(service(), path.month, query.project, query.revision)


@routes.get("/v1/reports/monthly/<month>/changes", *SUMMED, access=Access.READ)
def monthly_changes(path: MonthPath, query: ChangesQuery) -> MonthDifference:
    """Return what a report of a month differs by from a kept one: jobs added, removed, changed."""
    with heavy():
        return compare(service(), path.month, query.project, query.revision, query.against)


@routes.get("/v1/reports/monthly/<month>.<form>", *SUMMED, access=Access.READ, media=MONTH_MEDIA)
def monthly_report_file(path: MonthFile, query: MonthQuery) -> Response:
    """Return the report of a month, in the format of the extension."""
    return month_response(path.month, query.project, path.form, query.revision)


class YearPath(Struct, frozen=True, kw_only=True):
    """The year in an address."""

    year: Year


class YearFile(YearPath, frozen=True, kw_only=True):
    """A year's report as a file."""

    form: Annotated[JobFormat, Meta(description="The format.")]


@routes.get("/v1/reports/yearly/<year>", *SUMMED, access=Access.READ, media=YEAR_MEDIA)
def yearly_report(path: YearPath, query: ProjectQuery) -> Response:
    """Return the report of a year, in the format that the Accept header asks for.

    It is made of the reports of its months, and not kept.
    """
    return year_response(path.year, query.project, by_accept(JOB_FORMATS))


@routes.get("/v1/reports/yearly/<year>.<form>", *SUMMED, access=Access.READ, media=YEAR_MEDIA)
def yearly_report_file(path: YearFile, query: ProjectQuery) -> Response:
    """Return the report of a year, in the format of the extension."""
    return year_response(path.year, query.project, path.form)


def year_response(year: str, project: str | None, form: JobFormat | Page) -> Response:
    """Return the report of a year in one format, with its ETag."""
    with heavy():
        document = year_report(service(), year, project)
        tag = tag_of(MEDIA[form], to_text(document))

        return with_etag(tag, MEDIA[form], lambda: rendering.render_year(document, form, _mark()))


def job_response(
    seen: Service, job_id: str, revision: int | None, form: JobFormat | Page, *, full: bool = False
) -> Response:
    """Return the report of a job in one format, short or full, with its ETag."""
    basis = "" if form == "json" else advice_basis(service())

    def tag(version: str) -> str:
        return tag_of(MEDIA[form], version, basis, full and form != "json")

    if request.if_none_match:  # neither document nor advice is read for a reader who has them
        etag = tag(document_version(seen, job_id, revision))
        if reader_has(etag):
            return with_etag(etag, MEDIA[form], bytes)
    stored = job_document(seen, job_id, revision)

    def render() -> bytes:
        document = stored.document
        if form == "json":
            return rendering.render_job(document, form)
        with heavy():
            advice = advice_beside(service(), document, [form])
            return rendering.render_job(document, form, advice, full=full, mark=_mark())

    return with_etag(tag(stored.version), MEDIA[form], render)


def month_response(
    month: str,
    project: str | None,
    form: MonthFormat | Page,
    revision: int | None = None,
    whole: str = "",
) -> Response:
    """Return the report of a month in one format, with its ETag; short with the address of the
    `whole`.
    """
    with heavy():
        text = month_text(service(), month, project, revision=revision, nil=True)
        return with_etag(tag_of(MEDIA[form], text), MEDIA[form], lambda: _month(text, form, whole))


def _month(text: str, form: MonthFormat | Page, whole: str) -> bytes:
    if form == "json":
        return rendering.indented(text)
    document = read_month(text)
    key = document.month, document.project, document.revision
    return rendering.render_month(
        document, form, lambda: job_table(service(), *key).jobs, whole, _mark()
    )


def _mark() -> rendering.Mark:
    return service().config.reports.decimal_mark


def by_accept(forms: Sequence[Format]) -> Format:
    """Return the format the reader likes best; JSON when nothing on offer matches."""
    best = request.accept_mimetypes.best_match([MEDIA[form] for form in forms], MEDIA["json"])
    return next(form for form in forms if MEDIA[form] == best)


def with_etag(tag: str, media: str, render: Callable[[], bytes]) -> Response:
    """Return what `render` makes; 304, not rendered, when the reader has the answer of this tag."""
    charset = "; charset=utf-8" if media.startswith("text/") else ""
    content = b"" if reader_has(tag) else render()
    response = with_tag(Response(content, content_type=media + charset), tag)
    response.headers["Vary"] = "Accept"
    if media == MEDIA["html"]:  # a browser applies the styles in it only where both policies do
        response.headers["Content-Security-Policy"] = f"{POLICY}; frame-ancestors 'none'"
    return response


badges_routes = Routes("badges")
SVG = "image/svg+xml"


class BadgePath(Struct, frozen=True, kw_only=True):
    """The project of a badge."""

    project: Annotated[str, Meta(min_length=1, max_length=512, pattern="^[^\\x00/][^\\x00]*$")]


class BadgeQuery(Struct, frozen=True, kw_only=True):
    """What the badge shows."""

    unit: Annotated[
        Annotated[str, Meta(pattern=exactly(UNIT_PATTERN.pattern))] | None,
        Meta(
            description="Carbon per this unit; by default per the project's only unit, "
            "or the total."
        ),
    ] = None


@badges_routes.get(
    "/v1/badges/<path:project>.svg", "not-found", "not-ready", access=Access.READ, media={SVG: None}
)
def badge(path: BadgePath, query: BadgeQuery) -> Response:
    """Return a project's carbon per unit, or its month's total, as a picture.

    Of the newest month with data, with its unit, and marked where it is estimated or no SCI. For
    the projects in `GRAMWATT_PUBLIC_BADGES` it needs no key. Other signs than letters and digits
    in a name are percent-encoded, in the address and in the setting alike.
    """
    drawn = project_badge(service(), path.project, query.unit)
    return with_tag(Response(drawn, content_type=SVG), tag_of(SVG, drawn))


comparisons_routes = Routes("comparisons")
PROBLEMS = *ABSENT, "not-scorable", "not-comparable", "busy"
COMPARISON_MEDIA = {
    MEDIA[form]: RunsComparisonDoc if form == "json" else None for form in JOB_FORMATS
}


class ComparisonQuery(UnitQuery, frozen=True, kw_only=True):
    """The runs of each side, and the unit."""

    before: Annotated[
        list[Identifier],
        Meta(min_length=1, max_length=RUNS_MOST, description="A run; may be repeated."),
    ]
    after: Annotated[
        list[Identifier],
        Meta(min_length=1, max_length=RUNS_MOST, description="A run; may be repeated."),
    ]


class ComparisonFile(Struct, frozen=True, kw_only=True):
    """A comparison as a file."""

    form: Annotated[JobFormat, Meta(description="The format.")]


@comparisons_routes.get("/v1/comparisons", *PROBLEMS, access=Access.READ, media=COMPARISON_MEDIA)
def compare_jobs(query: ComparisonQuery) -> Response:
    """Return the runs of `after` against those of `before`, per unit of work.

    In the format that the Accept header asks for. Refused where they were not scored in the same
    way. The effects of E, I, PUE, M and R add up to the change; the verdict is
    `no-reliable-difference` where the range of the ratio holds 1, and `unknown` for one run a side
    where no earlier runs tell how far runs lie apart.
    """
    return _response(query, by_accept(JOB_FORMATS))


@comparisons_routes.get(
    "/v1/comparisons.<form>", *PROBLEMS, access=Access.READ, media=COMPARISON_MEDIA
)
def compare_jobs_file(path: ComparisonFile, query: ComparisonQuery) -> Response:
    """Return the same, in the format of the extension."""
    return _response(query, path.form)


def _response(query: ComparisonQuery, form: JobFormat) -> Response:
    with heavy():
        try:
            document, date = comparison(service(), query.before, query.after, query.unit)
        except ScoreError as error:
            if error.code != "not-comparable":
                raise
            raise Problem("not-comparable", error.message) from None
        mark = service().config.reports.decimal_mark
        tag = tag_of(MEDIA[form], to_text(document), date)
        return with_etag(tag, MEDIA[form], lambda: render_comparison(document, form, date, mark))
