"""Documents as bytes in the formats that routes, pages and the command offer."""

from __future__ import annotations

import json
from typing import Any

from gramwatt.sci.advice.documents import AdviceDoc
from gramwatt.sci.base.document import JobDoc, MonthDoc

MEDIA = {
    "json": "application/json",
    "html": "text/html",
    "pdf": "application/pdf",
    "csv": "text/csv",
}
JOB_FORMATS = ("json", "html", "pdf")
MONTH_FORMATS = ("json", "html", "pdf", "csv")


def job_report(document: JobDoc, form: str, advice: AdviceDoc | None = None) -> bytes:
    """The report of a job as json, or with its suggestions as html or pdf."""
    if form == "json":
        return as_json(document)
    from gramwatt.reports import job

    return _drawn(job.build(document, advice), form)


def month_report(document: MonthDoc, form: str) -> bytes:
    """The report of a month as json, html, pdf or csv."""
    if form == "json":
        return as_json(document)
    if form == "csv":
        from gramwatt.reports import csv

        return csv.month_csv(document).encode()
    from gramwatt.reports import month

    return _drawn(month.build(document), form)


def as_json(document: object) -> bytes:
    """A document as readable JSON; NaN and infinity have no place in it."""
    return json.dumps(document, indent=2, allow_nan=False).encode() + b"\n"


def _drawn(report: Any, form: str) -> bytes:
    if form == "html":
        from gramwatt.reports import html

        return html.render(report).encode()
    from gramwatt.reports import pdf

    return pdf.render(report)
