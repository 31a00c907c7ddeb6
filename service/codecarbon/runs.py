"""Runs of an unmodified codecarbon client: announced once, then a message for each few minutes.

A run becomes a job with its first message, since a client that gets no answer in time announces
itself again for each message. Messages are deltas, and carry the time they were sent. The client
has no last call, so silence closes its job, at its last message.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.base.errors import LookupFailed, RecordError
from gramwatt.sci.journal.records import AnyRecord, JobRecord, decode, encode, parse_time
from gramwatt.service.access.projects import only_project, require_own
from gramwatt.service.codecarbon.client import (
    NODE,
    PARTS,
    WRITER,
    Machine,
    exact_length_s,
    place,
)
from gramwatt.service.common.errors import RefusedMessageError, UnknownRunError
from gramwatt.service.container import Service
from gramwatt.service.jobs.intake.addressing import require_not_deleted
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.store.codecarbon import RUN_PREFIX, CodecarbonEmission, CodecarbonRun
from gramwatt.service.store.models import Job
from gramwatt.service.store.timestamps import from_us, span_us, to_us

KEPT = timedelta(days=30)
"""How long a run that sends nothing is remembered."""
SENDING_US = 1_500_000
"""How much later than measured a message may be sent, at most, while none was lost [us]."""
DRIFT_US = 1_000_000
"""How far the sum of spans may leave the times of sending, as the client's clock is set [us]."""
PUE_TEXT = "a PUE that was set in it is part of its energy, and it does not say so"
DEFAULT_EXPERIMENT = "5b0fa12a-3dd7-45bb-9766-cc326314d9f1"
"""The experiment of a client that was given none."""


@dataclass(frozen=True, slots=True)
class _Message:
    """One message of a run: what it covers, its number from 1, and whether one before it is lost.

    `began_us` is when the span of the first one starts [us].
    """

    run: dict[str, Any]
    start_us: int
    end_us: int
    number: int
    began_us: int
    after_gap: bool


def add_run(service: Service, fields: Mapping[str, Any], zone: str | None = None) -> str:
    """Remember a run and return its id.

    Raises RefusedMessageError for an unknown zone, or ForeignProjectError.
    """
    if zone is not None:
        try:
            service.catalog.zone(zone)
        except LookupFailed as error:
            raise RefusedMessageError(error.message) from None
    require_own(service, _project(service, fields))
    service = service.for_every_project()
    run_id = str(uuid.uuid4())
    now_us = service.now_us()
    old = CodecarbonRun.heard_us < now_us - span_us(KEPT)
    with service.store.write() as session:
        session.execute(sa.delete(CodecarbonRun).where(old))
        doc = json.dumps({**fields, "zone": zone})
        session.add(CodecarbonRun(id=run_id, heard_us=now_us, doc=doc))
    return run_id


def add_emission(service: Service, fields: Mapping[str, Any]) -> str:
    """Store a message's energy as intervals of the run's job; returns the job's id.

    The same message again changes nothing. Raises UnknownRunError, RefusedMessageError for one
    without a meaning, DeletedJobError, or ForeignProjectError.
    """
    service = service.for_every_project()
    job_id = job_id_of(fields["run_id"])
    try:
        lines = _registered(service, job_id, fields)
    except RecordError as error:
        raise RefusedMessageError(error.message) from None
    rejected = ingest(service, job_id, lines)["rejected"]
    if rejected:
        raise RefusedMessageError(rejected[0]["message"])
    return job_id


def job_id_of(run_id: str) -> str:
    """Return the job that a run becomes."""
    return f"{RUN_PREFIX}{run_id}"


def _registered(service: Service, job_id: str, fields: Mapping[str, Any]) -> list[bytes]:
    """Return the message's lines, after its place among those of its run is kept; again the same
    ones.

    Raises RecordError for one that no journal can hold, of which nothing is kept.
    """
    try:
        sent_us = to_us(parse_time(fields["timestamp"]))
    except RecordError as error:
        raise RefusedMessageError(f"timestamp: {error.message}") from None
    with service.store.write() as session:
        wanted = sa.select(CodecarbonRun).where(CodecarbonRun.id == fields["run_id"])
        run = session.scalars(wanted.with_for_update()).one_or_none()
        if run is None:
            require_not_deleted(service, session, job_id, None)
            raise UnknownRunError(f"unknown run {fields['run_id']!r}; start the tracker again")
        stated: dict[str, Any] = json.loads(run.doc)
        sent_as = _project(service, stated)
        job = sa.select(Job.project).where(Job.job_id == job_id, Job.declared_project == sent_as)
        require_own(service, session.scalar(job) or sent_as)
        run.heard_us = service.now_us()
        row, before = _row(session, run.id, sent_us, fields)
        began = sa.select(CodecarbonEmission.start_us).where(
            CodecarbonEmission.run == run.id, CodecarbonEmission.number == 1
        )
        message = _Message(
            run=stated,
            start_us=row.start_us,
            end_us=row.end_us,
            number=row.number,
            began_us=session.scalars(began).one(),
            after_gap=before is not None and row.start_us > before.end_us,
        )
        lines = [encode(record).encode() for record in _records(service, job_id, message, fields)]
        decode(lines[0])  # the job's: of a clock that is not set yet, no journal can hold it
        return lines


def _row(
    session: Session, run: str, sent_us: int, fields: Mapping[str, Any]
) -> tuple[CodecarbonEmission, CodecarbonEmission | None]:
    """Return the message's row, new or known, and the one sent before it."""
    table = CodecarbonEmission
    earlier = sa.select(table).where(table.run == run, table.sent_us < sent_us)
    before = session.scalars(earlier.order_by(table.sent_us.desc()).limit(1)).one_or_none()
    known = session.get(table, (run, sent_us))
    if known is not None:
        return known, before
    start_us, end_us = _span(sent_us, before, fields)
    number = session.scalar(sa.select(sa.func.count()).where(table.run == run)) or 0
    row = table(run=run, sent_us=sent_us, start_us=start_us, end_us=end_us, number=number + 1)
    session.add(row)
    session.flush()
    return row, before


def _span(
    sent_us: int, before: CodecarbonEmission | None, fields: Mapping[str, Any]
) -> tuple[int, int]:
    """Return the span of a message [us]: from the end of the one before, unless one was lost.

    The length is the client's own where it can be recovered, else the time since the last message.
    """
    duration_s = fields["duration"]
    exact_s = exact_length_s(duration_s, fields["emissions_sum"], fields["emissions_rate"])
    length_us = max(1, round((exact_s or duration_s) * 1e6))
    if before is None or sent_us - length_us > before.sent_us + SENDING_US:
        return sent_us - length_us, sent_us
    start_us = before.end_us
    end_us = start_us + length_us if exact_s else sent_us
    end_us = min(max(end_us, sent_us - DRIFT_US), sent_us + DRIFT_US)
    return start_us, max(end_us, start_us + 1)


def _records(
    service: Service, job_id: str, message: _Message, fields: Mapping[str, Any]
) -> list[AnyRecord]:
    """Return the job, its devices and the message's intervals; after a gap a notice.

    Job and devices are the same lines each time, so that none of them is lost with a message.
    """
    machine = Machine.from_fields(message.run)
    who: dict[str, Any] = {"job_id": job_id, "node": NODE, "writer": WRITER}
    began = from_us(message.began_us)
    devices = machine.devices(who, 2)
    found: list[AnyRecord] = [_job(service, who, message, machine), *devices]
    if message.after_gap:
        lost = "meter-gap: codecarbon's client lost a message; the energy until the next is unknown"
        gap = {**who, "writer": f"{WRITER}-gap", "role": "recovery", "resumes": WRITER}
        found.append(JobRecord(**gap, seq=message.number, started_at=began, notices=(lost,)))
    first = 2 + len(devices) + (message.number - 1) * len(devices)
    span = (from_us(message.start_us), from_us(message.end_us))
    energy = {part: fields[f"{part}_energy"] for part in PARTS}
    return [*found, *machine.intervals(who, first, span, energy)]


def _job(
    service: Service, who: Mapping[str, Any], message: _Message, machine: Machine
) -> JobRecord:
    run = message.run
    cloud = {"cloud_provider": run.get("provider"), "cloud_region": run.get("region")}
    _, region, _ = place(cloud, service.catalog)
    named = {"experiment": run["experiment_id"], "tracking_mode": run.get("tracking_mode")}
    return JobRecord(
        **who,
        seq=1,
        started_at=from_us(message.began_us),
        role="track",
        project=_project(service, run),
        name="codecarbon run",
        kind="other",
        zone=run["zone"],
        region=None if run["zone"] else region,
        tags={name: str(value) for name, value in named.items() if value},
        versions={"codecarbon": machine.version},
        notices=machine.notices(PUE_TEXT),
    )


def _project(service: Service, run: Mapping[str, Any]) -> str:
    """Return the project that a run's job belongs to: the caller's only one, else the
    experiment.
    """
    experiment = str(run["experiment_id"])
    return only_project(service, "default" if experiment == DEFAULT_EXPERIMENT else experiment)
