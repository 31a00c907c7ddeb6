"""Jobs: ingest lines, list, show and score again."""

from __future__ import annotations

from typing import Annotated, TypedDict

from flask import current_app
from pydantic import Field

from gramwatt.collectors.common.config import PUE_MAX, TAGS_MAX
from gramwatt.sci.base.document import JobHead
from gramwatt.service.api.access import Access
from gramwatt.service.api.line_stream import body_lines
from gramwatt.service.api.routing import NDJSON, Routes, Strict
from gramwatt.service.api.support import ABSENT, JobPath, Page, ProjectQuery, caller, service
from gramwatt.service.metrics import EXTENSION as METRICS
from gramwatt.service.metrics import Metrics
from gramwatt.service.usecases.answers import (
    DeletedJob,
    IngestAnswer,
    IntervalsAnswer,
    JobsAnswer,
    JobState,
    ProjectsAnswer,
    RevisionsAnswer,
)
from gramwatt.service.usecases.corrections import TAG_KEY_MOST, correct_job
from gramwatt.service.usecases.deletion import delete_job
from gramwatt.service.usecases.ingest import ingest
from gramwatt.service.usecases.jobs import JobSummary, job_summary, rescore
from gramwatt.service.usecases.lists import (
    intervals_page,
    jobs_page,
    projects_page,
    revisions_page,
)

routes = Routes("jobs")
ENDED = *ABSENT, "not-scorable"


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


Text = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^\x00]+$")]
TagName = Annotated[str, Field(min_length=1, max_length=TAG_KEY_MOST, pattern=r"^[^\x00]+$")]
TagText = Annotated[str, Field(max_length=512, pattern=r"^[^\x00]*$")]


class CorrectionBody(Strict):
    """What to declare of a job afterwards; null makes a field undeclared, a tag absent.

    Of zone and region one is given, and takes the place of the other. `excluded` leaves the job
    out of months and needs a reason; a reason is kept with every field of the request.
    """

    zone: Text | None = None
    region: Text | None = None
    unit: Text | list[Text] | None = None
    pue: float | None = Field(None, ge=1, le=PUE_MAX)
    name: Text = Field(default_factory=str)
    project: Text = Field(default_factory=str)
    tags: dict[TagName, TagText | None] = Field(default_factory=dict, max_length=TAGS_MAX)
    excluded: bool = Field(default_factory=bool)
    reason: Text | None = None


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


@routes.post("/v1/jobs/<job_id>/records", *ABSENT, access=Access.INGEST, lines=True)
def add_records(path: JobPath) -> IngestAnswer:
    """Take in journal lines (NDJSON, plain or with Content-Encoding: gzip), idempotently.

    Lines may come in any order and any number of times. A bad line is rejected alone, by its
    number; `acknowledged` says up to where each writer's lines have arrived without a gap, and are
    on disk. The job is scored when its last writer has ended.
    """
    answer = ingest(service(), path.job_id, body_lines(NDJSON))
    metrics: Metrics = current_app.extensions[METRICS]
    metrics.count_lines(answer["accepted"], answer["duplicate"], answer["rejected_count"])
    return answer


@routes.get("/v1/jobs", access=Access.READ)
def list_jobs(query: JobsQuery) -> JobsAnswer:
    """Jobs, newest first; of one model with the sums over all its runs."""
    only = {"project": query.project, "state": query.state, "model_id": query.model_id}
    return jobs_page(service(), query.limit, query.cursor, **only)


@routes.get("/v1/jobs/<job_id>", *ENDED, access=Access.READ)
def get_job(path: JobPath) -> JobAnswer:
    """The head fields of a job, and links to the rest."""
    return _answer(job_summary(service(), path.job_id))


@routes.patch("/v1/jobs/<job_id>", *ENDED, access=Access.ADMIN)
def correct(path: JobPath, body: CorrectionBody) -> JobAnswer:
    """Correct what a job declares; the answer is the score with it.

    What is given is kept apart from the journal, with who and when, and holds for lines that are
    sent again or late too. It makes a new revision, unless it changes nothing.
    """
    changes = {name: getattr(body, name) for name in body.model_fields_set - {"reason"}}
    order = sorted(changes, key=list(CorrectionBody.model_fields).index)
    given = {name: changes[name] for name in order}
    return _answer(correct_job(service(), path.job_id, given, by=caller().name, reason=body.reason))


@routes.delete("/v1/jobs/<job_id>", *ABSENT, access=Access.ADMIN)
def delete(path: JobPath) -> DeletedJob:
    """Delete a job for good.

    The record of the deletion stays: the job's lines are refused from then on, with 410.
    """
    return delete_job(service(), path.job_id, by=caller().name)


@routes.post("/v1/jobs/<job_id>/rescore", *ENDED, "conflict", access=Access.ADMIN)
def rescore_job(path: JobPath, body: RescoreBody) -> JobAnswer:
    """Score an ended job again, with today's catalog and intensity.

    The answer is the new revision; older ones stay.
    """
    return _answer(rescore(service(), path.job_id, body.reason))


@routes.get("/v1/jobs/<job_id>/revisions", *ABSENT, access=Access.READ)
def list_revisions(path: JobPath, query: Page) -> RevisionsAnswer:
    """Score revisions of a job, newest first."""
    return revisions_page(service(), path.job_id, query.limit, query.cursor)


@routes.get("/v1/jobs/<job_id>/intervals", *ABSENT, access=Access.READ)
def list_intervals(path: JobPath, query: Page) -> IntervalsAnswer:
    """Energy intervals of a job in order of time, each once."""
    return intervals_page(service(), path.job_id, query.limit, query.cursor)


@routes.get("/v1/projects", access=Access.READ)
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
