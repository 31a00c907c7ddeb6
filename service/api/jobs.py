"""Jobs: ingest lines, list, show and score again."""

from __future__ import annotations

from typing import TypedDict

from pydantic import Field

from gramwatt.sci.base.document import JobHead
from gramwatt.service.api.routing import NDJSON, Routes, Strict, body_of_type
from gramwatt.service.api.support import JobPath, Page, ProjectQuery, service
from gramwatt.service.usecases.answers import (
    IngestAnswer,
    IntervalsAnswer,
    JobsAnswer,
    JobState,
    ProjectsAnswer,
    RevisionsAnswer,
)
from gramwatt.service.usecases.ingest import ingest
from gramwatt.service.usecases.jobs import JobSummary, job_summary, rescore
from gramwatt.service.usecases.lists import (
    intervals_page,
    jobs_page,
    projects_page,
    revisions_page,
)

routes = Routes("jobs")
ENDED = "unknown-job", "not-scorable"


class JobsQuery(Page, ProjectQuery):
    """Filters and page of the list of jobs."""

    state: JobState | None = Field(None, description="Only jobs in this state.")
    model_id: str | None = Field(
        None,
        min_length=1,
        max_length=512,
        pattern=r"^[^\x00]+$",
        description="Only runs of this model; the answer then has their sums too.",
    )


class RescoreBody(Strict):
    """Why a new revision is wanted; kept with it."""

    reason: str = Field("asked", pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}$")


class Links(TypedDict):
    """Where the rest of a job is."""

    self: str
    report: str
    html: str
    pdf: str
    revisions: str
    intervals: str


class JobAnswer(JobHead):
    """The head of a job, with its data-quality grade (null before it is scored) and links."""

    grade: str | None
    links: Links


@routes.post("/v1/jobs/<job_id>/records", lines=True)
def add_records(path: JobPath) -> IngestAnswer:
    """Take in journal lines (NDJSON), idempotently.

    Lines may come in any order and any number of times. A bad line is rejected alone, by its
    number; `acknowledged` says up to where each writer's lines have arrived without a gap. The job
    is scored when its last writer has ended.
    """
    return ingest(service(), path.job_id, body_of_type(NDJSON).split(b"\n"))


@routes.get("/v1/jobs")
def list_jobs(query: JobsQuery) -> JobsAnswer:
    """Jobs, newest first; of one model with the sums over all its runs."""
    only = {"project": query.project, "state": query.state, "model_id": query.model_id}
    return jobs_page(service(), query.limit, query.cursor, **only)


@routes.get("/v1/jobs/<job_id>", *ENDED)
def get_job(path: JobPath) -> JobAnswer:
    """The head fields of a job, and links to the rest."""
    return _answer(job_summary(service(), path.job_id))


@routes.post("/v1/jobs/<job_id>/rescore", *ENDED, "conflict")
def rescore_job(path: JobPath, body: RescoreBody) -> JobAnswer:
    """Score an ended job again, with today's catalog and intensity.

    The answer is the new revision; older ones stay.
    """
    return _answer(rescore(service(), path.job_id, body.reason))


@routes.get("/v1/jobs/<job_id>/revisions", "unknown-job")
def list_revisions(path: JobPath, query: Page) -> RevisionsAnswer:
    """Score revisions of a job, newest first."""
    return revisions_page(service(), path.job_id, query.limit, query.cursor)


@routes.get("/v1/jobs/<job_id>/intervals", "unknown-job")
def list_intervals(path: JobPath, query: Page) -> IntervalsAnswer:
    """Energy intervals of a job in order of time, each once."""
    return intervals_page(service(), path.job_id, query.limit, query.cursor)


@routes.get("/v1/projects")
def list_projects(query: Page) -> ProjectsAnswer:
    """Projects by name."""
    return projects_page(service(), query.limit, query.cursor)


def _answer(job: JobSummary) -> JobAnswer:
    here = f"/v1/jobs/{job.head['job_id']}"
    return {
        **job.head,
        "grade": job.grade,
        "links": {
            "self": here,
            "report": f"{here}/report",
            "html": f"{here}/report.html",
            "pdf": f"{here}/report.pdf",
            "revisions": f"{here}/revisions",
            "intervals": f"{here}/intervals",
        },
    }
