"""Jobs: ingest lines, list, show and score again."""

from __future__ import annotations

from functools import partial
from threading import BoundedSemaphore
from typing import Annotated, Any, Literal

from flask import Response, current_app
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from gramwatt.collectors.settings.config import TAGS_MAX
from gramwatt.sci.figures.checks import Pue
from gramwatt.sci.figures.document import JobHead
from gramwatt.sci.records.records import UNIT_PATTERN, JobKind
from gramwatt.service.api.access import Access
from gramwatt.service.api.conditional import IF_MATCH, if_match, tag_of, with_tag
from gramwatt.service.api.idempotency import IDEMPOTENCY_KEY, once
from gramwatt.service.api.line_stream import body_lines
from gramwatt.service.api.routing import JSON, NDJSON, Routes, json_response
from gramwatt.service.api.support import ABSENT, JobPath, caller, service
from gramwatt.service.common.answers import (
    DeletedJob,
    IngestAnswer,
    IntervalsAnswer,
    JobsAnswer,
    ProjectsAnswer,
    ProjectSummary,
    RevisionsAnswer,
)
from gramwatt.service.common.requests import (
    CLOCK,
    AnyText,
    Identifier,
    JobList,
    Page,
    Text,
    exactly,
)
from gramwatt.service.container import Service
from gramwatt.service.jobs.corrections import TAG_KEY_MOST, correct_job
from gramwatt.service.jobs.deletion import delete_job
from gramwatt.service.jobs.documents import (
    JobSummary,
    job_summary,
    rescore,
    wait_until_ended,
)
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.jobs.lists import (
    intervals_page,
    jobs_page,
    projects_page,
    revisions_page,
)
from gramwatt.service.jobs.lists.projects import declare_project
from gramwatt.service.jobs.opening import open_job
from gramwatt.service.metrics import EXTENSION as METRICS
from gramwatt.service.metrics import Metrics

routes = Routes("jobs")
ENDED = *ABSENT, "not-scorable"
GONE = "intervals-deleted"
WAITERS = 3
"""Requests of a process that may wait at once; other worker threads stay free."""
RETRY_AFTER_S = 5
COUNTS_MAX = 64
"""Units in which one request may declare R."""
_waiters = BoundedSemaphore(WAITERS)

TagName = Annotated[str, Meta(min_length=1, max_length=TAG_KEY_MOST, pattern=r"^[^\x00]+$")]
Unit = Annotated[str, Meta(pattern=exactly(UNIT_PATTERN.pattern))]
Clock = Annotated[str, Meta(pattern=f"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}{CLOCK}$")]


CorrectedCounts = Annotated[dict[Text, float | None], Meta(max_length=COUNTS_MAX)]
CorrectedTags = Annotated[dict[TagName, AnyText | None], Meta(max_length=TAGS_MAX)]


class JobsQuery(JobList, frozen=True, kw_only=True):
    """Filters, order and page of the list of jobs, and whether to wait for sums."""

    wait: Annotated[
        Literal["sums"] | None,
        Meta(
            description="`sums`: wait until the sums of the model's runs are made, however many. "
            "Without it, an answer without `model` says that they are still to be made: the model "
            "has more than 2 000 runs, of which one changed."
        ),
    ] = None


class RescoreBody(Struct, frozen=True, kw_only=True):
    """Why a new revision is wanted; kept with it."""

    reason: Annotated[str, Meta(pattern=exactly("[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}"))] = "asked"


class JobBody(Struct, frozen=True, kw_only=True):
    """What a job is, as its sender declares it; `node` and `writer` are those of its records."""

    node: Identifier = "remote"
    writer: Identifier = "remote"
    started_at: Clock | None = None
    name: Text | None = None
    project: Text | None = None
    kind: JobKind | None = None
    units: Annotated[list[Unit], Meta(max_length=64)] | None = None
    zone: Text | None = None
    region: Text | None = None
    pue: Pue | None = None
    model_id: Text | None = None
    framework: Text | None = None
    precision: Text | None = None
    tags: Annotated[dict[TagName, AnyText], Meta(max_length=TAGS_MAX)] | None = None


class ProjectBody(Struct, frozen=True, kw_only=True):
    """A project to list before its first job."""

    project: Text


class WaitQuery(Struct, frozen=True, kw_only=True):
    """Whether to wait for the score of a running job."""

    wait: Annotated[
        Literal["scored"] | None, Meta(description="Answer when the job is scored.")
    ] = None
    timeout_s: Annotated[int, Meta(ge=1, le=60, description="How long to wait, at most [s].")] = 30


class CorrectionBody(Struct, frozen=True, kw_only=True):
    """What to declare of a job afterwards; null makes a field undeclared, a tag absent.

    Of zone and region one is given, and takes the place of the other. `counts` has R by unit, in
    place of what was counted; null lets that count again. `excluded` leaves the job
    out of months and needs a reason; a reason is kept with every field of the request.
    """

    zone: Text | None | UnsetType = UNSET
    region: Text | None | UnsetType = UNSET
    unit: Text | Annotated[list[Text], Meta(min_length=1)] | None | UnsetType = UNSET
    counts: CorrectedCounts | UnsetType = UNSET
    pue: Pue | None | UnsetType = UNSET
    name: Text | UnsetType = UNSET
    project: Text | UnsetType = UNSET
    tags: CorrectedTags | UnsetType = UNSET
    excluded: bool | UnsetType = UNSET
    reason: Text | None = None


class ReasonQuery(Struct, frozen=True, kw_only=True):
    """Why a job is deleted."""

    reason: Annotated[Text | None, Meta(description="Why; it stays on record.")] = None


class Links(Struct):
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


class RescoreAnswer(JobAnswer):
    """The job as scored again; `changed` is whether that made a new revision."""

    changed: bool


@routes.post(
    "/v1/jobs/<job_id>/records",
    *(*ABSENT, GONE),
    access=Access.INGEST,
    lines=True,
)
def add_records(path: JobPath) -> IngestAnswer:
    """Take in journal lines (NDJSON or a JSON array, plain or with gzip), idempotently.

    A `job` line makes the job, so it is among the first that are sent: lines of an unknown job, or
    of an id of another project, are refused with 404. After it lines may come in any order and any
    number of times. A bad line is rejected alone, by its number; `acknowledged` says up to
    where each writer's lines have arrived without a gap, and are on disk. The job is scored when
    its last writer has ended.
    """
    answer = ingest(service(), path.job_id, body_lines(NDJSON, JSON))
    metrics: Metrics = current_app.extensions[METRICS]
    metrics.count_lines(answer.accepted, answer.duplicate, answer.rejected_count)
    return answer


@routes.get("/v1/jobs", access=Access.READ)
def list_jobs(query: JobsQuery) -> JobsAnswer:
    """Jobs, newest first unless sorted; the first page of one model with its sums."""
    return jobs_page(service(), query, wait=query.wait is not None)


@routes.get("/v1/jobs/<job_id>", *ENDED, access=Access.READ, media={JSON: JobAnswer})
def get_job(path: JobPath, query: WaitQuery) -> Response:
    """Return the head fields of a job, and links to the rest.

    With `wait=scored` the answer comes when the job has ended and is scored, or after `timeout_s`.
    Where it still runs, or too many wait already, `Retry-After` says when to ask again [s].
    """
    seen = service()
    ended = query.wait is None or _waited(seen, path.job_id, query.timeout_s)
    job = job_summary(seen, path.job_id)
    response = with_tag(json_response(_answer(job)), tag_of(job.version))
    if not ended:
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response


@routes.put(
    "/v1/jobs/<job_id>",
    *(*ABSENT, "conflict"),
    access=Access.INGEST,
    media={JSON: JobAnswer},
)
def open_a_job(path: JobPath, body: JobBody) -> Response:
    """Open a job that has no meter of ours: what it is; its records follow.

    It is the first line of its writer, so the records of that node and writer go on with `seq` 2,
    and its `end` record ends the job. The same again changes nothing; other fields are refused.
    """
    fields = {
        name: value
        for name, value in asdict(body).items()
        if name not in ("node", "writer") and value is not None
    }
    job, created = open_job(service(), path.job_id, body.node, body.writer, fields)
    return json_response(_answer(job), 201 if created else 200)


@routes.patch(
    "/v1/jobs/<job_id>",
    *ENDED,
    GONE,
    "conflict",
    access=Access.ADMIN,
    headers=(IF_MATCH, IDEMPOTENCY_KEY),
)
def correct(path: JobPath, body: CorrectionBody) -> JobAnswer:
    """Correct what a job declares; the answer is the score with it.

    What is given is kept apart from the journal, with who and when, and holds for lines that are
    sent again or late too. It makes a new revision, unless it changes nothing.
    """
    changes = {
        name: value
        for name, value in asdict(body).items()
        if value is not UNSET and name != "reason"
    }
    about: dict[str, Any] = {"by": caller().name, "reason": body.reason, "expected": if_match()}
    work = partial(correct_job, service(), path.job_id, changes, **about)
    return once(body, lambda: _answer(work()))


@routes.delete("/v1/jobs/<job_id>", *ABSENT, access=Access.ADMIN, headers=(IF_MATCH,))
def delete(path: JobPath, query: ReasonQuery) -> DeletedJob:
    """Delete a job for good.

    The record of the deletion stays: the job's lines are refused from then on, with 410, and
    reports of its months say what it had added, who deleted it and why.
    """
    about: dict[str, Any] = {"by": caller().name, "reason": query.reason, "expected": if_match()}
    return delete_job(service(), path.job_id, **about)


@routes.post(
    "/v1/jobs/<job_id>/rescore",
    *ENDED,
    "conflict",
    GONE,
    access=Access.ADMIN,
    headers=(IDEMPOTENCY_KEY,),
)
def rescore_job(path: JobPath, body: RescoreBody) -> RescoreAnswer:
    """Score an ended job again, with today's catalog and intensity.

    The answer is the newest revision; older ones stay. The same inputs give the same score to the
    last digit, and then no revision is made.
    """

    def work() -> RescoreAnswer:
        job, changed = rescore(service(), path.job_id, body.reason)
        return RescoreAnswer(**asdict(_answer(job)), changed=changed)

    return once(body, work)


@routes.get("/v1/jobs/<job_id>/revisions", *ABSENT, access=Access.READ)
def list_revisions(path: JobPath, query: Page) -> RevisionsAnswer:
    """Score revisions of a job, newest first."""
    return revisions_page(service(), path.job_id, query.limit, query.cursor)


@routes.get("/v1/jobs/<job_id>/intervals", *ABSENT, GONE, access=Access.READ)
def list_intervals(path: JobPath, query: Page) -> IntervalsAnswer:
    """Energy intervals of a job in order of time, each once."""
    return intervals_page(service(), path.job_id, query.limit, query.cursor)


@routes.get("/v1/projects", access=Access.READ)
def list_projects(query: Page) -> ProjectsAnswer:
    """Projects by name."""
    return projects_page(service(), query.limit, query.cursor)


@routes.post("/v1/projects", "forbidden", access=Access.ADMIN, status=201)
def post_project(body: ProjectBody) -> ProjectSummary:
    """Declare a project, so that it is listed before its first job.

    Declaring one that is there changes nothing.
    """
    return declare_project(service(), body.project)


def _waited(seen: Service, job_id: str, timeout_s: int) -> bool:
    """Wait for the end of a job; whether it has ended. Where too many wait, it does not wait."""
    if not _waiters.acquire(blocking=False):
        return wait_until_ended(seen, job_id, 0)
    try:
        return wait_until_ended(seen, job_id, timeout_s)
    finally:
        _waiters.release()


def _answer(job: JobSummary) -> JobAnswer:
    here = f"/v1/jobs/{job.head.job_id}"
    return JobAnswer(
        **asdict(job.head),
        grade=job.grade,
        links=Links(
            self=here,
            report=f"{here}/report",
            html=f"{here}/report.html",
            pdf=f"{here}/report.pdf",
            revisions=f"{here}/revisions",
            intervals=f"{here}/intervals",
        ),
    )
