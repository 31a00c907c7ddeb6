"""Jobs: take in lines, list, show, and score again."""

from __future__ import annotations

import json

import sqlalchemy as sa
from pydantic import Field

from gramwatt.service.api.paging import Page, cut, decode_cursor
from gramwatt.service.api.routing import NDJSON, Routes, Strict, body_of_type
from gramwatt.service.api.support import JobPath, JobState, ProjectQuery, service
from gramwatt.service.store.models import Device, Interval, Job, Score
from gramwatt.service.store.timestamps import text_from_us
from gramwatt.service.usecases.answers import (
    IngestAnswer,
    IntervalRow,
    IntervalsAnswer,
    JobAnswer,
    JobsAnswer,
    ProjectsAnswer,
    RevisionRow,
    RevisionsAnswer,
)
from gramwatt.service.usecases.ingest import ingest
from gramwatt.service.usecases.lists import jobs_page
from gramwatt.service.usecases.read import find_job, fresh_job, head_of, rescore

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
    return _answer(fresh_job(service(), path.job_id))


@routes.post("/v1/jobs/<job_id>/rescore", *ENDED, "conflict")
def rescore_job(path: JobPath, body: RescoreBody) -> JobAnswer:
    """Score an ended job again, with today's catalog and intensity.

    The answer is the new revision; older ones stay.
    """
    return _answer(rescore(service(), path.job_id, body.reason))


@routes.get("/v1/jobs/<job_id>/revisions", "unknown-job")
def list_revisions(path: JobPath, query: Page) -> RevisionsAnswer:
    """Score revisions of a job, newest first."""
    before = decode_cursor(query.cursor, int)[0] if query.cursor else 2**31
    with service().store.read() as session:
        wanted = (
            sa.select(Score)
            .where(Score.job == find_job(session, path.job_id).id, Score.revision < before)
            .order_by(Score.revision.desc())
            .limit(query.limit + 1)
        )
        rows = list(session.scalars(wanted))
    shown, cursor = cut(rows, query.limit, lambda score: (score.revision,))
    return {"revisions": [_revision(score) for score in shown], "next_cursor": cursor}


@routes.get("/v1/jobs/<job_id>/intervals", "unknown-job")
def list_intervals(path: JobPath, query: Page) -> IntervalsAnswer:
    """Energy intervals of a job in order of time, each once."""
    position = decode_cursor(query.cursor, int, int) if query.cursor else None
    wanted = sa.select(Interval, Device).join(Device, Device.id == Interval.device)
    if position:
        wanted = wanted.where(sa.tuple_(Interval.start_us, Device.id) > sa.tuple_(*position))
    with service().store.read() as session:
        rows = session.execute(
            wanted.where(Device.job == find_job(session, path.job_id).id)
            .order_by(Interval.start_us, Device.id)
            .limit(query.limit + 1)
        ).all()
    shown, cursor = cut(rows, query.limit, lambda row: (row[0].start_us, row[1].id))
    return {"intervals": [_interval(*row) for row in shown], "next_cursor": cursor}


@routes.get("/v1/projects")
def list_projects(query: Page) -> ProjectsAnswer:
    """Projects by name."""
    after = decode_cursor(query.cursor, str)[0] if query.cursor else ""
    running = sa.func.sum(sa.case((Job.state == "running", 1), else_=0))
    counts = sa.select(Job.project, sa.func.count(), running, sa.func.max(Job.started_us))
    with service().store.read() as session:
        rows = session.execute(
            counts.where(Job.project > after)
            .group_by(Job.project)
            .order_by(Job.project)
            .limit(query.limit + 1)
        ).all()
    shown, cursor = cut(rows, query.limit, lambda row: (row[0],))
    return {
        "projects": [
            {
                "project": name,
                "jobs": jobs,
                "running": int(running_jobs),
                "last_started_at": text_from_us(last_us),
            }
            for name, jobs, running_jobs, last_us in shown
        ],
        "next_cursor": cursor,
    }


def _answer(job: Job) -> JobAnswer:
    here = f"/v1/jobs/{job.job_id}"
    return {
        **head_of(job),
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


def _revision(score: Score) -> RevisionRow:
    import json

    document = json.loads(score.doc)
    return {
        "revision": score.revision,
        "made_at": text_from_us(score.made_us),
        "reason": score.reason,
        "engine_version": score.engine_version,
        "catalog_version": score.catalog_version,
        "conformance": score.conformance,
        "energy_kwh": document["energy_kwh"],
        "total_g": document["total_g"],
    }


def _interval(interval: Interval, device: Device) -> IntervalRow:
    return {
        "node": device.node,
        "device_id": device.device_id,
        "start": text_from_us(interval.start_us),
        "end": text_from_us(interval.end_us),
        "energy_j": interval.energy_j,
        "kind": interval.kind,
        "utilisation_mean": interval.utilisation_mean,
        "utilisation_max": interval.utilisation_max,
        "memory_peak_b": interval.memory_peak_b,
        "power_max_w": interval.power_max_w,
        "profile": json.loads(interval.profile) if interval.profile else {},
    }
