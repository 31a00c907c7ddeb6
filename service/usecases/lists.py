"""Lists, page by page: jobs, revisions, intervals and projects.

A page ends at `limit` entries. Its cursor is the position of the last one, as an opaque text; a
cursor of None is the only sign of the end.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa

from gramwatt.sci.analysis.model_totals import model_totals
from gramwatt.sci.base.document import ModelDoc
from gramwatt.service.container import Service
from gramwatt.service.store.documents import read_job
from gramwatt.service.store.models import Device, Interval, Job, Score
from gramwatt.service.store.timestamps import text_from_us
from gramwatt.service.usecases.answers import (
    IntervalRow,
    IntervalsAnswer,
    JobsAnswer,
    ProjectsAnswer,
    RevisionRow,
    RevisionsAnswer,
)
from gramwatt.service.usecases.errors import CursorError
from gramwatt.service.usecases.jobs import JobSummary, find_job

Row = TypeVar("Row")
_LARGEST = 2**63 - 1
"""The largest number that a column of either database holds."""


def list_jobs(
    service: Service, limit: int, cursor: str | None, **only: str | None
) -> tuple[list[JobSummary], str | None]:
    """Jobs, newest first, and the cursor of the next page; raises CursorError.

    `only` may hold `project`, `state` and `model_id`.
    """
    wanted = sa.select(Job).order_by(Job.started_us.desc(), Job.id.desc()).limit(limit + 1)
    for column, value in only.items():
        if value is not None:
            wanted = wanted.where(getattr(Job, column) == value)
    if cursor:
        position = decode_cursor(cursor, int, int)
        wanted = wanted.where(sa.tuple_(Job.started_us, Job.id) < sa.tuple_(*position))
    with service.store.read() as session:
        rows = session.scalars(wanted).all()
    shown, following = _cut(rows, limit, lambda job: (job.started_us, job.id))
    return [JobSummary.from_row(job) for job in shown], following


def jobs_page(service: Service, limit: int, cursor: str | None, **only: str | None) -> JobsAnswer:
    """The heads of `list_jobs`; raises CursorError.

    With a model, the answer has the sums over all its runs, whatever page, project or state is
    shown.
    """
    jobs, following = list_jobs(service, limit, cursor, **only)
    answer: JobsAnswer = {"jobs": [job.head for job in jobs], "next_cursor": following}
    model_id = only.get("model_id")
    if model_id is not None:
        answer["model"] = _model_totals(service, model_id)
    return answer


def revisions_page(
    service: Service, job_id: str, limit: int, cursor: str | None
) -> RevisionsAnswer:
    """Score revisions of a job, newest first; raises UnknownJobError or CursorError."""
    before = decode_cursor(cursor, int)[0] if cursor else 2**31
    with service.store.read() as session:
        wanted = (
            sa.select(Score)
            .where(Score.job == find_job(session, job_id).id, Score.revision < before)
            .order_by(Score.revision.desc())
            .limit(limit + 1)
        )
        rows = session.scalars(wanted).all()
    shown, following = _cut(rows, limit, lambda score: (score.revision,))
    return {"revisions": [_revision(score) for score in shown], "next_cursor": following}


def intervals_page(
    service: Service, job_id: str, limit: int, cursor: str | None
) -> IntervalsAnswer:
    """Energy intervals of a job in order of time; raises UnknownJobError or CursorError."""
    wanted = sa.select(Interval, Device).join(Device, Device.id == Interval.device)
    if cursor:
        position = decode_cursor(cursor, int, int)
        wanted = wanted.where(sa.tuple_(Interval.start_us, Device.id) > sa.tuple_(*position))
    with service.store.read() as session:
        rows = session.execute(
            wanted.where(Device.job == find_job(session, job_id).id)
            .order_by(Interval.start_us, Device.id)
            .limit(limit + 1)
        ).all()
    shown, following = _cut(rows, limit, lambda row: (row.Interval.start_us, row.Device.id))
    intervals = [_interval(row.Interval, row.Device) for row in shown]
    return {"intervals": intervals, "next_cursor": following}


def projects_page(service: Service, limit: int, cursor: str | None) -> ProjectsAnswer:
    """Projects by name; raises CursorError."""
    after = decode_cursor(cursor, str)[0] if cursor else ""
    running = sa.func.sum(sa.case((Job.state == "running", 1), else_=0))
    wanted = (
        sa.select(
            Job.project,
            sa.func.count().label("jobs"),
            running.label("running"),
            sa.func.max(Job.started_us).label("last_us"),
        )
        .where(Job.project > after)
        .group_by(Job.project)
        .order_by(Job.project)
        .limit(limit + 1)
    )
    with service.store.read() as session:
        rows = session.execute(wanted).all()
    shown, following = _cut(rows, limit, lambda row: (row.project,))
    return {
        "projects": [
            {
                "project": row.project,
                "jobs": row.jobs,
                "running": int(row.running),
                "last_started_at": text_from_us(row.last_us),
            }
            for row in shown
        ],
        "next_cursor": following,
    }


def project_names(service: Service) -> list[str]:
    """Every project by name."""
    with service.store.read() as session:
        return list(session.scalars(sa.select(Job.project).distinct().order_by(Job.project)))


def encode_cursor(*position: int | str) -> str:
    """The position after which the next page starts, as an opaque text."""
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def decode_cursor(text: str, *kinds: type) -> tuple[Any, ...]:
    """The position in a cursor; raises CursorError when it is not one of this list's."""
    try:
        padded = text + "=" * (-len(text) % 4)
        position = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        position = None
    if (
        not isinstance(position, list)
        or [type(part) for part in position] != list(kinds)
        or any(isinstance(part, int) and abs(part) > _LARGEST for part in position)
    ):
        raise CursorError("not a cursor of this list; leave it out to start")
    return tuple(position)


def _cut(
    rows: Sequence[Row], limit: int, position: Callable[[Row], tuple[int | str, ...]]
) -> tuple[Sequence[Row], str | None]:
    """The first `limit` of rows queried with one more, and the cursor of what follows."""
    if len(rows) <= limit:
        return rows, None
    return rows[:limit], encode_cursor(*position(rows[limit - 1]))


def _model_totals(service: Service, model_id: str) -> ModelDoc:
    """The sums over every run of a model, from the newest revision of each."""
    with service.store.read() as session:
        runs = session.scalar(
            sa.select(sa.func.count()).select_from(Job).where(Job.model_id == model_id)
        )
        documents = session.scalars(
            sa.select(Score.doc)
            .join(Job, sa.and_(Job.id == Score.job, Job.revision == Score.revision))
            .where(Job.model_id == model_id, Job.state != "running")
        ).all()
    scored = [read_job(text) for text in documents]
    return model_totals(model_id, scored, unscored=(runs or 0) - len(scored))


def _revision(score: Score) -> RevisionRow:
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
