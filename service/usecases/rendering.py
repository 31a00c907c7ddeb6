"""Documents as bytes in the formats that routes, pages and the command offer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal, get_args

from gramwatt.sci.base.document import JobDoc, MonthDoc

if TYPE_CHECKING:
    from gramwatt.reports.model import Document
    from gramwatt.sci.advice.documents import AdviceDoc

JobFormat = Literal["json", "html", "pdf"]
MonthFormat = Literal["json", "html", "pdf", "csv"]
JOB_FORMATS: tuple[JobFormat, ...] = get_args(JobFormat)
MONTH_FORMATS: tuple[MonthFormat, ...] = get_args(MonthFormat)


def render_job(document: JobDoc, form: JobFormat, advice: AdviceDoc | None = None) -> bytes:
    """The report of a job as json, or with its suggestions as html or pdf."""
    if form == "json":
        return _as_json(document)
    from gramwatt.reports import job

    return _rendered(job.build(document, advice), form)


def render_month(document: MonthDoc, form: MonthFormat) -> bytes:
    """The report of a month as json, html, pdf or csv."""
    if form == "json":
        return _as_json(document)
    if form == "csv":
        from gramwatt.reports import csv

        return csv.month_csv(document).encode()
    from gramwatt.reports import month

    return _rendered(month.build(document), form)


def _as_json(document: object) -> bytes:
    """A document as readable JSON; NaN and infinity have no place in it."""
    return json.dumps(document, indent=2, allow_nan=False).encode() + b"\n"


def _rendered(report: Document, form: str) -> bytes:
    if form == "html":
        from gramwatt.reports import html

        return html.render(report).encode()
    from gramwatt.reports import pdf

    return pdf.render(report)
