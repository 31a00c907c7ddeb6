"""Nothing twice: which device time of a job counts in the jobs of better reporters.

A job's own meter comes before the one that Slurm's Prolog started, that before Prometheus
(`records.REPORTERS`).
Two jobs meet by a device whose id no other has, by a node's own name of it, or because they are the
same work: one pod, or one job of Slurm. A lesser job is scored anew when a better one has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.records.elsewhere import lesser_reporters, parts_taken
from gramwatt.sci.records.records import (
    HOST_CLASSES,
    REPORTERS,
    AnyRecord,
    DeviceRecord,
    Elsewhere,
    JobRecord,
    is_unique,
    readable,
)
from gramwatt.service.store.columns import from_us
from gramwatt.service.store.job_labels import TAG
from gramwatt.service.store.journal import Device, Interval, Statement, Writer
from gramwatt.service.store.models import Job, JobLabel

SAME_WORK = ("slurm", "pod")
"""Tags whose value is alike in all jobs that report the same work."""
LATE_US = 86_400_000_000
"""How long before the last score of a running job its lines of today may lie [us]: a day."""
LAST_US = 2**62


@dataclass(frozen=True, slots=True)
class _Better:
    """A job of a better reporter: its devices as their lines say, and its work."""

    devices: Sequence[tuple[DeviceRecord, tuple[Elsewhere, ...]]]
    places: Mapping[str, str]
    """Number of each node in its Slurm job."""
    clusters: frozenset[str]
    same_work: bool


def counted_elsewhere(session: Session, job: Job, lines: Sequence[AnyRecord]) -> list[AnyRecord]:
    """Return the lines of a lesser job, its devices with what of them counts in better jobs."""
    better = list(_better_jobs(session, job))
    heads = [line for line in lines if isinstance(line, JobRecord)]
    clusters, places = _clusters(heads), _places(heads)
    for index, devices in enumerate(better):
        if clusters and devices.clusters and clusters.isdisjoint(devices.clusters):
            better[index] = replace(devices, same_work=False)
    return [
        msgspec.structs.replace(line, elsewhere=_taken(line, places, better))
        if isinstance(line, DeviceRecord)
        else line
        for line in lines
    ]


def outdated(session: Session, job: Job, *, since_us: int = 0) -> list[int]:
    """Return the keys of the lesser jobs that meet a job that has changed, marked to be scored.

    With `since_us` only those that run or ended after it [us]. Where the store has no lesser job,
    this is one look into an empty index.
    """
    connection = session.connection()  # lesser jobs count whatever projects the session sees
    anyone = sa.select(Job.id).where(Job.reporter.is_not(None)).limit(1)
    if connection.scalar(anyone) is None:
        return []
    devices = connection.execute(
        sa.select(Device.node, Device.device_id).where(Device.job == job.id)
    )
    labels = sa.select(JobLabel.label).where(JobLabel.job == job.id, _is_work(JobLabel.label))
    meets = sa.or_(
        Job.id.in_(sa.select(Device.job).where(_same_device(devices.all()))),
        Job.id.in_(sa.select(JobLabel.job).where(JobLabel.label.in_(labels))),
    )
    statement = (
        sa.select(Job.id)
        .where(Job.reporter.is_not(None), Job.id != job.id)
        .where(Job.reporter.in_(lesser_reporters(job.reporter, REPORTERS)))
        .where(Job.intervals_deleted_us.is_(None), *_overlaps(job, since_us), meets)
        .order_by(Job.reporter, Job.id)
        .with_for_update()
    )
    keys = list(connection.scalars(statement))
    if keys:
        changed = sa.update(Job).where(Job.id.in_(keys))
        connection.execute(changed.values(version=Job.version + 1))
    return keys


def _better_jobs(session: Session, job: Job) -> Iterable[_Better]:
    """Yield the better jobs of a lesser one's time that have one of its devices, or its work."""
    connection = session.connection()  # better jobs count whatever projects the session sees
    own = connection.execute(
        sa.select(Device.node, Device.device_id).where(Device.job == job.id)
    ).all()
    labels = sa.select(JobLabel.label).where(JobLabel.job == job.id, _is_work(JobLabel.label))
    same_work = sa.select(JobLabel.job).where(JobLabel.label.in_(labels))
    worse = (job.reporter, *lesser_reporters(job.reporter, REPORTERS))
    statement = (
        sa.select(Job.id, Job.started_us, Job.ended_us, Job.intervals_deleted_us)
        .add_columns(Job.id.in_(same_work))
        .where(sa.or_(Job.reporter.is_(None), Job.reporter.not_in(worse)))
        .where(Job.id != job.id, *_overlaps(job))
        .where(
            sa.or_(
                Job.id.in_(sa.select(Device.job).where(_same_device(own))),
                Job.id.in_(same_work),
            )
        )
        .order_by(Job.id)
    )
    for key, started_us, ended_us, deleted_us, is_same in connection.execute(statement).all():
        stated = sa.select(Statement.line).join(Writer, Writer.id == Statement.writer)
        stated = stated.where(Writer.job == key).order_by(Writer.id)
        lines = list(readable(connection.scalars(stated)))
        heads = [line for line in lines if isinstance(line, JobRecord)]
        described = {(d.node, d.device_id): d for d in lines if isinstance(d, DeviceRecord)}
        devices = []
        for row in connection.execute(sa.select(Device).where(Device.job == key)).all():
            of_device = sa.select(Interval.start_us, Interval.end_us)
            of_device = of_device.where(Interval.device == row.id).order_by(Interval.start_us)
            spans: Sequence[Any] = connection.execute(of_device).all()
            if deleted_us is not None:
                spans = [(started_us, ended_us)]
            if record := described.get((row.node, row.device_id)):
                devices.append((record, _joined(spans, record.share)))
        yield _Better(devices, _places(heads), frozenset(_clusters(heads)), is_same)


def _overlaps(job: Job, since_us: int = 0) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the condition of jobs whose time meets that of `job`, and that did not end before."""
    ended_us = LAST_US if job.ended_us is None else job.ended_us
    return (
        Job.started_us < ended_us,
        sa.or_(Job.ended_us.is_(None), Job.ended_us > max(job.started_us, since_us)),
    )


def _same_device(own: Iterable[Any]) -> sa.ColumnElement[bool]:
    """Return the condition of devices that are one of these."""
    pairs = [(node, device_id) for node, device_id in own if not is_unique(device_id)]
    ids = sorted({device_id for _, device_id in own if is_unique(device_id)})
    return sa.or_(
        Device.device_id.in_(ids),
        sa.tuple_(Device.node, Device.device_id).in_(pairs),
    )


def _is_work(label: Any) -> sa.ColumnElement[bool]:
    return sa.or_(*(label.startswith(f"{TAG}:{name}:", autoescape=True) for name in SAME_WORK))


def _clusters(heads: Iterable[JobRecord]) -> set[str]:
    return {name for head in heads if (name := head.scheduler.get("slurm_cluster"))}


def _places(heads: Iterable[JobRecord]) -> dict[str, str]:
    return {h.node: n for h in heads if (n := h.scheduler.get("slurm_node"))}


def _joined(spans: Iterable[Any], part: float) -> tuple[Elsewhere, ...]:
    """Return spans [us] in order as such of a part of a device; those that meet are one."""
    joined: list[list[int]] = []
    for start_us, end_us in spans:
        if joined and start_us <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end_us)
        else:
            joined.append([start_us, end_us])
    return tuple(Elsewhere(from_us(start), from_us(end), part) for start, end in joined)


def _taken(
    device: DeviceRecord, places: Mapping[str, str], better: Iterable[_Better]
) -> tuple[Elsewhere, ...]:
    """Return which part of a device's energy counts in the better jobs, by time."""
    jobs = []
    for job in better:
        spans = [
            span if not job.same_work else span._replace(part=1.0)
            for record, had in job.devices
            if _is_same(device, record, job, places)
            for span in had
        ]
        jobs.append(parts_taken([[s] for s in spans]))
    return parts_taken(jobs, device.share)


def _is_same(
    device: DeviceRecord, other: DeviceRecord, job: _Better, places: Mapping[str, str]
) -> bool:
    """Return whether a better job's device is this one.

    Processors and memory are shared by what runs on a node, so only the same work has the same.
    """
    if device.device_class not in HOST_CLASSES and device.device_id == other.device_id:
        return is_unique(device.device_id) or device.node == other.node
    if not job.same_work or device.device_class not in HOST_CLASSES:
        return False
    if device.device_class != other.device_class:
        return False
    here, there = places.get(device.node), job.places.get(other.node)
    if here is not None and there is not None:
        return here == there
    nodes = {record.node for record, _ in job.devices}
    return device.node not in nodes or device.node == other.node
