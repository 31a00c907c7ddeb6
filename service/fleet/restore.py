"""Bring the lines of archived jobs back into the store, each job whole and once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypedDict

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.base.errors import GramwattError
from gramwatt.service.access import audit
from gramwatt.service.common.errors import BusyError
from gramwatt.service.container import Service
from gramwatt.service.fleet.archive import store_id
from gramwatt.service.fleet.manifest import months_in, require_files, require_month
from gramwatt.service.fleet.parquet import TABLES, duckdb_errors, read_columns, read_table
from gramwatt.service.fleet.places import ArchiveError, Place, open_place
from gramwatt.service.jobs.scoring import score_job
from gramwatt.service.store.models import Count, Device, Interval, Job, JobMonth, Writer
from gramwatt.service.store.upserts import upsert

JOBS_AT_ONCE = 200
_one = Lock()
_log = logging.getLogger("gramwatt.service")
Each = Callable[[Sequence[int]], Iterable[int]]
_PLAIN = (
    *("writer", "seq", "energy_j", "kind", "utilisation_mean", "utilisation_max"),
    *("memory_peak_b", "power_max_w", "profile", "extra"),
)
"""Columns of intervals that the store has under the same name."""


class Restored(TypedDict):
    """How many jobs of a month are whole again, had their lines, or are not there any more.

    `not_whole` are ids of jobs that stay without lines: the place does not have all of them.
    """

    month: str
    restored: int
    there_already: int
    deleted_or_erased: int
    not_whole: list[str]


def with_archive(service: Service) -> Service:
    """Return the service that brings back lines from the place of its setting, where it has one."""
    return replace(service, bring_back=bring_back) if service.config.archive_to else service


def bring_back(service: Service, key: int) -> None:
    """Restore the lines of a job, which its caller scores; one at a time in a process.

    A job stays without them where the place does not have them now; the log says why. Raises
    BusyError.
    """
    with service.store.read() as session:
        job_id = session.scalar(sa.select(Job.job_id).where(Job.id == key))
        month = session.scalar(sa.select(sa.func.min(JobMonth.month)).where(JobMonth.job == key))
    if month is None or service.config.archive_to is None:
        return
    if not _one.acquire(blocking=False):
        raise BusyError("the lines of another job are being restored; send again")
    try:
        place = open_place(service.config.archive_to)
        try:
            with duckdb_errors():
                restore_month(service, month, place, job_id=job_id, score=False)
        finally:
            place.close()
    except ArchiveError as error:
        _log.warning("job %d stays without its lines: %s", key, error.message)
    finally:
        _one.release()


def restore_month(
    service: Service,
    month: str,
    place: Place,
    *,
    job_id: str | None = None,
    score: bool = True,
    each: Each = iter,
) -> Restored:
    """Bring back the deleted lines of a month's jobs, or of one; `score` them as of today.

    A job of several months needs the archives of all. Jobs that were deleted or erased stay so.
    Raises ArchiveError for a month that is not there, or not whole.
    """
    service = service.for_every_project()
    files = _files(service, place, month, job_id)
    wanted = {
        key: archived
        for key, archived in read_columns("jobs", files["jobs"], "job, job_id")
        if job_id in (None, archived)
    }
    found, months = _to_restore(service, wanted)
    others = {one for of_job in months.values() for one in of_job} - {month}
    archived = others.intersection(months_in(place))
    known = {month: files, **{one: _files(service, place, one, job_id) for one in sorted(archived)}}
    done, not_whole = 0, list[str]()
    for first in range(0, len(found["due"]), JOBS_AT_ONCE):
        keys = found["due"][first : first + JOBS_AT_ONCE]
        for key in _restore(service, known, keys, months, each, not_whole):
            done += 1
            if score:
                _score(service, key)
    if done:
        audit.log(service, "archive-restored", f"{month}, {done} jobs: {place.address}")
    there, gone = len(found["there"]), len(found["gone"])
    return {
        "month": month,
        "restored": done,
        "there_already": there,
        "deleted_or_erased": gone,
        "not_whole": not_whole,
    }


def _files(service: Service, place: Place, month: str, job_id: str | None) -> dict[str, list[Path]]:
    """Return the files of a month; with the id of a job, the lines of its projects only."""
    manifest = require_month(place, month, store_id(service) or "none")
    of_jobs = manifest.of("jobs")
    found = {table: list[Path]() for table in TABLES}
    found |= require_files(place, replace(manifest, files=tuple(of_jobs)))
    others = [file for file in manifest.files if file not in of_jobs]
    if job_id is not None:
        rows = read_columns("jobs", found["jobs"], "job_id, project")
        mine = {project for archived, project in rows if archived == job_id}
        others = [file for file in others if file.project in mine]
    return found | require_files(place, replace(manifest, files=tuple(others)))


def _to_restore(
    service: Service, wanted: Mapping[int, str]
) -> tuple[dict[str, list[int]], dict[int, list[str]]]:
    """Return the jobs by what is to be done with them, and the months of those due."""
    found: dict[str, list[int]] = {"due": [], "there": [], "gone": []}
    months: dict[int, list[str]] = {}
    with service.store.read() as session:
        for key, job_id in wanted.items():
            job = session.get(Job, key)
            if job is None or job.job_id != job_id:  # an erased job has another id
                found["gone"].append(key)
            elif job.intervals_deleted_us is None:
                found["there"].append(key)
            else:
                found["due"].append(key)
                of_job = sa.select(JobMonth.month).where(JobMonth.job == key)
                months[key] = list(session.scalars(of_job))
    return found, months


def _restore(
    service: Service,
    files: Mapping[str, Mapping[str, list[Path]]],
    keys: Sequence[int],
    months: Mapping[int, list[str]],
    each: Each,
    not_whole: list[str],
) -> Iterator[int]:
    """Restore some jobs, each in a transaction of its own; yield the keys of those.

    Adds the ids of those to `not_whole` that have lines in a month which `files` lacks, or that
    were archived there after their lines were deleted, as `stored_b` says.
    """
    jobs: dict[int, list[dict[str, Any]]] = {key: [] for key in keys}
    intervals: dict[int, list[dict[str, Any]]] = {key: [] for key in keys}
    counts: dict[int, list[dict[str, Any]]] = {key: [] for key in keys}
    for of_month in files.values():
        for table, into in (("jobs", jobs), ("intervals", intervals), ("counts", counts)):
            names = [name for name, _ in TABLES[table]]
            for row in read_table(table, of_month[table], keys):
                into[row[0]].append(dict(zip(names, row, strict=True)))
    for key in each(keys):
        if len(jobs[key]) != len(months[key]) or not all(part["stored_b"] for part in jobs[key]):
            not_whole.append(jobs[key][0]["job_id"])
            continue
        work = partial(_restore_job, key, jobs[key], intervals[key], counts[key])
        if service.store.transact(work, large=True):
            yield key


def _restore_job(
    key: int,
    parts: Sequence[dict[str, Any]],
    intervals: Sequence[dict[str, Any]],
    counts: Sequence[dict[str, Any]],
    session: Session,
) -> bool:
    """Add the lines of one job, unless another process has, or the job was erased meanwhile."""
    job = session.scalars(sa.select(Job).where(Job.id == key).with_for_update()).one_or_none()
    if job is None or job.intervals_deleted_us is None or job.job_id != parts[0]["job_id"]:
        return False
    of_devices = sa.select(Device.node, Device.device_id, Device.id).where(Device.job == key)
    devices = {(node, device): one for node, device, one in session.execute(of_devices)}
    of_writers = sa.select(Writer.node, Writer.writer, Writer.id).where(Writer.job == key)
    writers = {(node, writer): one for node, writer, one in session.execute(of_writers)}
    rows = [
        {
            "device": devices[row["node"], row["device_id"]],
            "start_us": row["start"],
            "end_us": row["end"],
            **{name: row[name] for name in _PLAIN},
        }
        for row in intervals
    ]
    upsert(session, Interval, rows)
    counted = [
        {
            "writer": writers[row["node"], row["writer"]],
            "at_us": row["at"],
            **{name: row[name] for name in ("seq", "unit", "amount", "phase", "extra")},
        }
        for row in counts
    ]
    upsert(session, Count, counted)
    job.intervals_deleted_us = None
    job.stored_b = max(part["stored_b"] for part in parts)
    return True


def _score(service: Service, key: int) -> None:
    """Score a restored job as every stored one is: with the factors of today."""
    try:
        score_job(service, key, "restored", force=True)
    except GramwattError as error:
        _log.warning("restored job %d cannot be scored again: %s", key, error.message)
