"""Documents as bytes in the formats that routes, pages and the command offer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.figures.formatting import decimal_mark
from gramwatt.sci.month.documents import MonthDoc
from gramwatt.service.rendering.process import RenderProcess, render
from gramwatt.service.store.documents import to_text

if TYPE_CHECKING:
    from datetime import datetime

    from gramwatt.reports.model import Document
    from gramwatt.sci.advice.documents import AdviceDoc
    from gramwatt.sci.figures.document import IntensityDoc
    from gramwatt.sci.month.repeated import RunsComparisonDoc
    from gramwatt.sci.month.revised import JobRow
    from gramwatt.sci.month.yearly import YearDoc
    from gramwatt.sci.planning.plan import PlanDoc

JobFormat = Literal["json", "html", "pdf"]
MonthFormat = Literal["json", "html", "pdf", "xlsx", "zip"]
Page = Literal["page"]
"""HTML for the site, whose script draws the charts anew."""
Mark = Literal[".", ","]
JOB_FORMATS: tuple[JobFormat, ...] = get_args(JobFormat)
MONTH_FORMATS: tuple[MonthFormat, ...] = get_args(MonthFormat)
MEDIA = {
    "json": "application/json",
    "html": "text/html",
    "page": "text/html",
    "pdf": "application/pdf",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "zip": "application/zip",
}
_child: RenderProcess | None = None


def render_job(
    document: JobDoc,
    form: JobFormat | Page,
    advice: AdviceDoc | None = None,
    *,
    full: bool = False,
    mark: Mark = ".",
) -> bytes:
    """Return the document of a job as json, or its report, short or full, as html, page or pdf.

    `mark` is the decimal mark of printed figures, here and below; JSON and tables have the point.
    """
    if form == "json":
        return _as_json(document)
    from gramwatt.reports import job

    return _rendered(lambda: job.build(document, advice, full=full), form, mark)


def render_month(
    document: MonthDoc,
    form: MonthFormat | Page,
    jobs: Callable[[], Sequence[JobRow]],
    whole: str = "",
    mark: Mark = ".",
) -> bytes:
    """Return the report of a month as json, html, page or pdf, or its tables as xlsx or zip.

    Only tables need the `jobs` in its sums. With the address of the `whole` report, it is short
    and has links there.
    """
    if form == "json":
        return _as_json(document)
    if form in ("xlsx", "zip"):
        from gramwatt.reports.tables import as_xlsx, as_zip, month_tables

        sheets = month_tables(document, jobs())
        return as_xlsx(sheets) if form == "xlsx" else as_zip(sheets)
    from gramwatt.reports import month

    if whole:
        return _rendered(lambda: month.build_short(document, whole), form, mark)
    return _rendered(lambda: month.build(document), form, mark)


def render_year(document: YearDoc, form: JobFormat, mark: Mark = ".") -> bytes:
    """Return the report of a year as json, html or pdf."""
    if form == "json":
        return _as_json(document)
    from gramwatt.reports import year

    return _rendered(lambda: year.build(document), form, mark)


def render_comparison(
    document: RunsComparisonDoc, form: JobFormat, date: str, mark: Mark = "."
) -> bytes:
    """Return a comparison of runs as json, html or pdf, dated YYYY-MM-DD."""
    if form == "json":
        return _as_json(document)
    from gramwatt.reports import comparison

    return _rendered(lambda: comparison.build(document, date), form, mark)


def render_intensity(answer: IntensityDoc, now: datetime, plan: PlanDoc | None) -> bytes:
    """Return a zone's intensity over time as a page, with the window of a plan if there is one."""
    from gramwatt.reports import intensity

    return _rendered(lambda: intensity.build(answer, now, plan), "page", ".")


def _as_json(document: object) -> bytes:
    """Return a document as readable JSON."""
    return indented(to_text(document))


def indented(text: str) -> bytes:
    """Return a document as readable JSON, of its compact text."""
    return msgspec.json.format(text.encode(), indent=2) + b"\n"


def _rendered(build: Callable[[], Document], form: str, mark: Mark) -> bytes:
    with decimal_mark(mark):
        report = replace(build(), mark=mark)
    return _child.render(report, form) if _child is not None else render(report, form)


def render_in_child() -> None:
    """Render from now on in a child process, as servers do: its libraries keep much memory."""
    global _child
    if _child is None:
        _child = RenderProcess()


def end_child() -> None:
    """End the child process, if there is one; the next report starts another."""
    if _child is not None:
        _child.end()
