"""Reports of jobs and months, in the format of the address or of the Accept header."""

from __future__ import annotations

import json
from typing import Literal

from flask import Response
from pydantic import Field

from gramwatt.sci.base.document import JobDoc, MonthDoc
from gramwatt.service.api.etags import answer
from gramwatt.service.api.routing import Routes
from gramwatt.service.api.support import (
    JobPath,
    MonthPath,
    ProjectQuery,
    RevisionQuery,
    by_accept,
    service,
)
from gramwatt.service.usecases import rendering
from gramwatt.service.usecases.month import month_report
from gramwatt.service.usecases.read import job_document
from gramwatt.service.usecases.rendering import JOB_FORMATS, MEDIA, MONTH_FORMATS
from gramwatt.service.usecases.suggest import advice_beside

routes = Routes("reports")

JOB_MEDIA: dict[str, type | None] = {
    MEDIA["json"]: JobDoc,
    MEDIA["html"]: None,
    MEDIA["pdf"]: None,
}
MONTH_MEDIA: dict[str, type | None] = {
    MEDIA["json"]: MonthDoc,
    MEDIA["html"]: None,
    MEDIA["pdf"]: None,
    MEDIA["csv"]: None,
}


class JobFile(JobPath):
    """A job's report as a file."""

    form: Literal["json", "html", "pdf"] = Field(description="The format.")


class MonthFile(MonthPath):
    """A month's report as a file."""

    form: Literal["json", "html", "pdf", "csv"] = Field(description="The format.")


@routes.get("/v1/jobs/<job_id>/report", "unknown-job", "not-scorable", media=JOB_MEDIA)
def job_report(path: JobPath, query: RevisionQuery) -> Response:
    """The report of a job, in the format that the Accept header asks for.

    JSON is the whole job document. A running job has a provisional one. The answer has an ETag.
    """
    return job_response(path.job_id, query.revision, by_accept(JOB_FORMATS))


@routes.get("/v1/jobs/<job_id>/report.<form>", "unknown-job", "not-scorable", media=JOB_MEDIA)
def job_report_file(path: JobFile, query: RevisionQuery) -> Response:
    """The report of a job, in the format of the extension."""
    return job_response(path.job_id, query.revision, path.form)


@routes.get("/v1/reports/monthly/<month>", "no-data", media=MONTH_MEDIA)
def monthly_report(path: MonthPath, query: ProjectQuery) -> Response:
    """The report of a month, in the format that the Accept header asks for."""
    return month_response(path.month, query.project, by_accept(MONTH_FORMATS))


@routes.get("/v1/reports/monthly/<month>.<form>", "no-data", media=MONTH_MEDIA)
def monthly_report_file(path: MonthFile, query: ProjectQuery) -> Response:
    """The report of a month, in the format of the extension."""
    return month_response(path.month, query.project, path.form)


def job_response(job_id: str, revision: int | None, form: str) -> Response:
    """The report of a job in one format, with its ETag."""
    stored = job_document(service(), job_id, revision)
    document = stored.document
    advice = advice_beside(service(), document, [form])
    text = stored.text + stored.series + (json.dumps(advice) if advice else "")
    return answer(text, MEDIA[form], lambda: rendering.job_report(document, form, advice))


def month_response(month: str, project: str | None, form: str) -> Response:
    """The report of a month in one format, with its ETag."""
    document = month_report(service(), month, project)
    text = rendering.month_report(document, "json").decode()
    return answer(text, MEDIA[form], lambda: rendering.month_report(document, form))
