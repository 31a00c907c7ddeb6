"""Jobs: ingest lines, list, show and score again."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from threading import BoundedSemaphore
from typing import Annotated, Any, BinaryIO, Literal

import msgspec
from flask import Response, current_app, request
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from gramwatt.collectors.settings.config import TAGS_MAX
from gramwatt.sci.figures.checks import Pue
from gramwatt.sci.figures.document import JobHead
from gramwatt.sci.figures.structs import decode
from gramwatt.sci.records.records import LINE_MAX_B, TYPES, UNIT_PATTERN, VERSION, JobKind
from gramwatt.service.api.access import Access
from gramwatt.service.api.problems import CODES, Problem
from gramwatt.service.api.routing import (
    IF_MATCH,
    JSON,
    NDJSON,
    Routes,
    if_match,
    json_response,
    tag_of,
    with_tag,
)
from gramwatt.service.api.support import ABSENT, IDEMPOTENCY_KEY, JobPath, caller, once, service
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
from gramwatt.service.jobs.corrections import TAG_KEY_MOST, correct_job, open_job
from gramwatt.service.jobs.deletion import delete_job
from gramwatt.service.jobs.documents import JobSummary, job_summary, rescore, wait_until_ended
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.jobs.intervals import intervals_page
from gramwatt.service.jobs.lists import jobs_page, revisions_page
from gramwatt.service.jobs.projects import declare_project, projects_page
from gramwatt.service.metrics import EXTENSION as METRICS
from gramwatt.service.metrics import Metrics

LINE = "JournalLine"

DESCRIPTIONS = {
    "v": "The version of the line's form.",
    "type": "What the line says.",
    "job_id": "The job; the same as in the address.",
    "node": "The machine that the writer sees.",
    "writer": "Who wrote the line: one meter of one job on one node.",
    "seq": "The number of the line, from 1; a writer never uses one twice.",
    "started_at": "When the job started for this writer, RFC 3339 with a zone.",
    "role": "Whether the writer measures a command, processes that track, or a writer that died.",
    "reporter": "Who reports the job, where that is not gramwatt's own meter.",
    "resumes": "The writer that this one replaces.",
    "project": "The project whose sums hold the job.",
    "name": "A name for people: of the job, or of the device as its driver reports it.",
    "units": "Of a job: functional units to be counted. Of a device: how many it stands for.",
    "zone": "Grid zone, such as DE.",
    "region": "Cloud region, such as aws:eu-west-1.",
    "pue": "Power usage effectiveness of the site [1], 1 to 5.",
    "model_id": "The model that the job makes or uses.",
    "framework": "The framework of the work, such as pytorch.",
    "precision": "The number format of the work, such as bf16.",
    "rank": "The rank of the process among those of the job.",
    "tags": "Free texts by name, for filters and reports.",
    "versions": "Versions of software by name.",
    "scheduler": "The scheduler's own ids of the job.",
    "notices": "Sentences for the report, each with its code before a colon.",
    "device_id": "The device; of one board in the world where its driver has such an id.",
    "class": "What the device is.",
    "meter": "The source of the readings.",
    "share": "The part of the device that was reserved [1], above 0 and up to 1.",
    "memory_b": "Memory of the device [B].",
    "power_limit_w": "Power limit of the device [W].",
    "units_total": "How many such devices the host has.",
    "includes_host": "Whether the energy is that of the whole host.",
    "virtual": "Whether the processor is a virtual machine's.",
    "released": "Whether the device turned out to be none of the job's, so that it does not count.",
    "update_period_s": "How often the counter is updated [s].",
    "elsewhere": "Spans that count in jobs of better reporters: start, end, part [1].",
    "start": "Start of the interval, RFC 3339 with a zone.",
    "end": "End of the interval, exclusive; at most a day after its start.",
    "energy_j": "Energy of the device over [start, end) [J].",
    "kind": "Of a job: what it does. Of a device or interval: how its energy is known.",
    "utilisation_mean": "Mean utilisation [1].",
    "utilisation_max": "Highest utilisation [1].",
    "memory_peak_b": "Highest memory in use [B].",
    "power_max_w": "Highest power [W].",
    "profile": "How the device ran: shares of the time [1], and the highest temperature [degC].",
    "at": "When the units were counted, RFC 3339 with a zone.",
    "unit": "The functional unit.",
    "amount": "Units since the writer's last count of the same unit and phase; all of `counter`.",
    "phase": "The part of the job in which they were counted, or the window's name.",
    "counter": "What counts the units; the amount is then all that it has of the unit and phase.",
    "since": "Start of the window over [since, at); the line is then no part of R.",
    "ended_at": "When the job ended for this writer, RFC 3339 with a zone.",
    "state": "How the job ended.",
    "exit_code": "Exit code of the command.",
    "signal": "The signal that killed it.",
    "meter_cpu_s": "Processor time that the meter itself used [s].",
    "meter_rss_b": "Highest memory of the meter itself [B].",
}
"""Every field of a line, by its name in the line, with its unit in brackets."""

_EXAMPLE = (
    '{"v":1,"type":"job","job_id":"job-1","node":"n-1","writer":"w-1","seq":1,'
    '"started_at":"2026-05-10T08:00:00Z","project":"vision","units":["image"],"zone":"FR"}\n'
    '{"v":1,"type":"device","job_id":"job-1","node":"n-1","writer":"w-1","seq":2,'
    '"device_id":"GPU-0","class":"gpu","name":"NVIDIA H100 80GB HBM3","meter":"nvml-counter",'
    '"kind":"measured"}\n'
    '{"v":1,"type":"interval","job_id":"job-1","node":"n-1","writer":"w-1","seq":3,'
    '"device_id":"GPU-0","start":"2026-05-10T08:00:00Z","end":"2026-05-10T08:01:00Z",'
    '"energy_j":36000,"kind":"measured"}\n'
    '{"v":1,"type":"count","job_id":"job-1","node":"n-1","writer":"w-1","seq":4,'
    '"at":"2026-05-10T08:01:00Z","unit":"image","amount":640}\n'
    '{"v":1,"type":"end","job_id":"job-1","node":"n-1","writer":"w-1","seq":5,'
    '"ended_at":"2026-05-10T08:01:00Z","state":"completed","exit_code":0}\n'
)


def line_schemas(ref: str) -> dict[str, Any]:
    """Return the schemas of a line, which is one of its types, and of its parts, by name."""
    _, shapes = msgspec.json.schema_components(
        list(TYPES.values()), ref_template=ref.replace("{model}", "{name}")
    )
    # As JSON has them: a default that is a tuple is an array.
    components: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(shapes))
    names = {kind: record.__name__ for kind, record in TYPES.items()}
    refs = {kind: ref.format(model=_line(name)) for kind, name in names.items()}
    line = {
        "title": LINE,
        "description": "One line of a journal. Fields that this release does not know are kept.",
        "oneOf": [{"$ref": target} for target in refs.values()],
        "discriminator": {"propertyName": "type", "mapping": refs},
    }
    records = {_line(name): _record(kind, components.pop(name)) for kind, name in names.items()}
    return {LINE: line, **records, **components}


def line_body(ref: str) -> dict[str, Any]:
    """Return the content of a body of lines, with an example."""
    schema = {
        "type": "string",
        "description": f"Journal lines, one JSON object each: {LINE}.",
        "contentMediaType": "application/x-ndjson",
        "contentSchema": {"$ref": ref.format(model=LINE)},
    }
    return {"schema": schema, "examples": {"a job": {"value": _EXAMPLE}}}


def line_array(ref: str) -> dict[str, Any]:
    """Return the schema of a body whose lines are the items of an array."""
    return {"type": "array", "items": {"$ref": ref.format(model=LINE)}}


def _line(record: str) -> str:
    return f"{record.removesuffix('Record')}Line"


def _record(kind: str, shape: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a record with `v`, and with what each of its fields is."""
    properties = {"v": {"const": VERSION}, **shape["properties"], "type": {"const": kind}}
    del properties["extra"]
    return {
        "title": _line(shape["title"]),
        "description": " ".join(shape["description"].split()),
        "type": "object",
        "required": ["v", *shape["required"]],
        "properties": {
            name: {**schema, "description": DESCRIPTIONS[name]}
            for name, schema in properties.items()
        },
    }


CHUNK_B = 2**16
COMMAS_MOST = 2_000_000
"""In an array: it is held whole, and each item takes memory of its own."""


def body_lines(media_type: str, array_type: str = "") -> Iterator[bytes]:
    """Return the lines of the request's body, of that type, plain or gzip, or items of an array.

    Raises Problem: at once for another type or encoding, and while it is read for a body above the
    limit, counted as it unpacks, or one that is no gzip or breaks off.
    """
    if request.mimetype not in (media_type, array_type):
        raise Problem("unsupported-media-type", f"send Content-Type: {media_type}")
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding == "x-gzip":  # the same (RFC 9110, section 8.4.1.3)
        encoding = "gzip"
    if encoding not in ("identity", "gzip"):
        raise Problem("unsupported-media-type", "send the body plain, or with gzip")
    stream: BinaryIO = io.BufferedReader(request.stream, CHUNK_B)  # type: ignore[type-var]
    if encoding == "gzip":
        stream = gzip.GzipFile(fileobj=stream)  # type: ignore[assignment]
    limit_b = current_app.config["MAX_CONTENT_LENGTH"]
    if request.mimetype == media_type:
        return _lines(stream, limit_b)
    return _items(stream, limit_b)


def _items(stream: BinaryIO, limit_b: int) -> Iterator[bytes]:
    """Return the items of a JSON array as lines; raises Problem for anything else."""
    with _readable():
        body = stream.read(limit_b + 1)
    if len(body) > limit_b or body.count(b",") > COMMAS_MOST:
        raise Problem("body-too-large", CODES["body-too-large"][1])
    try:
        items = decode(body, list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        raise Problem("bad-json", "send a JSON array of records, or NDJSON") from None
    return (bytes(item)[: LINE_MAX_B + 1] for item in items)


def _lines(stream: BinaryIO, limit_b: int) -> Iterator[bytes]:
    with _readable():
        for size_b, line in lines_of(stream):
            limit_b -= size_b
            if limit_b < 0:
                raise Problem("body-too-large", CODES["body-too-large"][1])
            if line is not None:
                yield line


@contextmanager
def _readable() -> Iterator[None]:
    """Raise Problem for a body that is no gzip or breaks off."""
    try:
        yield
    except EOFError:
        raise Problem("bad-request", "the gzip body ends early; send it again") from None
    except (gzip.BadGzipFile, zlib.error):
        raise Problem("bad-request", "the body is not valid gzip") from None


def lines_of(stream: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Return the lines of a stream without their ends, each with the bytes that were read.

    Of a line that is too long there is only the beginning, and None for each part that follows.
    """
    is_begun = False
    while part := stream.readline(LINE_MAX_B + 1):
        yield len(part), None if is_begun else part.removesuffix(b"\n")
        is_begun = not part.endswith(b"\n")


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


@routes.post("/v1/jobs/<job_id>/records", *(*ABSENT, GONE), access=Access.INGEST, lines=True)
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
    "/v1/jobs/<job_id>", *(*ABSENT, "conflict"), access=Access.INGEST, media={JSON: JobAnswer}
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
