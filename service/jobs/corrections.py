"""Correct a job after it was measured: place, unit, R, PUE, name, project, tags, exclusion."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.collectors.settings.config import PARSERS
from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.figures.errors import LookupFailed, RecordError, ScoreError
from gramwatt.sci.figures.unit_names import close_units
from gramwatt.sci.records.corrections import (
    COUNT,
    EXCLUDED,
    FIELDS,
    PLACE,
    TAG,
    declared,
    declared_counts,
    exclusion,
)
from gramwatt.sci.records.merge import increments
from gramwatt.sci.records.records import (
    AMOUNT_MOST,
    VERSION,
    CountRecord,
    JobRecord,
    decode,
    encode,
    format_time,
    readable,
)
from gramwatt.sci.score.score import changes_no_figure
from gramwatt.service.access import audit
from gramwatt.service.common.errors import CorrectionError, ServiceError
from gramwatt.service.container import Service
from gramwatt.service.jobs.documents import (
    Expected,
    JobSummary,
    find_job,
    find_known_job,
    locked_job,
    own_job,
    require_expected,
    require_intervals,
    summaries,
)
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.jobs.journal import (
    corrections_of,
    counts_of,
    declared_head,
    refresh_own_head,
)
from gramwatt.service.jobs.scoring import score_job, score_provisionally
from gramwatt.service.store.journal import Correction, Statement, Writer
from gramwatt.service.store.models import Job
from gramwatt.service.store.people import USER, alias_of, with_names

REASON = "corrected"
"""Why the revision of a correction was made."""
TAG_KEY_MOST, REASON_MOST = 500, 512
"""Characters of the longest name of a tag, and of the longest reason."""


def correct_job(
    service: Service,
    job_id: str,
    changes: Mapping[str, Any],
    *,
    by: str,
    reason: str | None = None,
    expected: Expected = None,
) -> JobSummary:
    """Declare fields of a job afterwards and score it again; what changes nothing is left out.

    `changes` may hold `zone`, `region`, `unit`, `counts` (R by unit), `pue`, `name`, `project`,
    `boundary` (a tag), `tags` (an object) and `excluded`, which needs a `reason`; None makes a
    field undeclared. Raises UnknownJobError, DeletedJobError,
    ForeignProjectError, IntervalsDeletedError, CorrectionError or ScoreError.
    """
    declared = _checked(service, changes, reason)
    service, own = own_job(service, job_id)

    def declare(session: Session) -> tuple[int, bool, bool]:
        job = locked_job(session, own, job_id)
        require_expected(job, expected)
        if declared.get(f"{TAG}{USER}"):
            declared[f"{TAG}{USER}"] = alias_of(session, declared[f"{TAG}{USER}"])
        _check_units(session, job, declared)
        rows = _rows(session, job, declared)
        if not all(changes_no_figure(row.field) for row in rows):
            require_intervals(job, "only its name, tags and exclusion can still be corrected")
        for row in rows:
            row.made_us, row.made_by = service.now_us(), alias_of(session, by)
            row.reason = reason
        session.add_all(rows)
        if rows:
            fields = ", ".join(row.field for row in rows)
            audit.record(session, service, "job-corrected", f"{job_id}: {fields}", by)
            job.version += 1
            session.flush()
            refresh_own_head(service, session, job)
        return job.id, job.state == "running", bool(rows)

    key, running, changed = service.store.transact(declare)
    if running:
        score_provisionally(service, key, fresh=changed)
    else:
        score_job(service, key, REASON)
    with service.store.read() as session:
        job = session.get(Job, key) or find_job(session, job_id)  # deleted meanwhile, it says so
        return summaries(session, [job])[0]


def _checked(service: Service, changes: Mapping[str, Any], reason: str | None) -> dict[str, Any]:
    """Return the changes by the field of a correction; raises CorrectionError for one without
    meaning.
    """
    declared: dict[str, Any] = {}
    if reason is not None and len(reason) > REASON_MOST:
        raise CorrectionError("reason", f"has more than {REASON_MOST} characters")
    for name, value in changes.items():
        declared |= _fields(name, value, reason)
    if all(declared.get(name) for name in PLACE):
        raise CorrectionError("region", "give zone or region, not both")
    check_place(service.catalog, declared)
    for place, other in (PLACE, PLACE[::-1]):
        # As in the configuration: a place given closer to the job replaces the whole place.
        if declared.get(place):
            declared[other] = None
    return declared


def _fields(name: str, value: Any, reason: str | None) -> dict[str, Any]:
    """Return one change by the fields of its corrections."""
    if name == "tags":
        return {f"{TAG}{key}": text for key, text in _tags(value).items()}
    if name == "counts":
        return {f"{COUNT}{unit}": _amount(unit, amount) for unit, amount in value.items()}
    if name == EXCLUDED:
        if value and not reason:
            raise CorrectionError("reason", "say why the job is left out: give a reason")
        return {name: reason if value else None}
    if name in FIELDS:
        return {name: _value(name, value)}
    fields = ", ".join((*FIELDS, "tags", EXCLUDED, "counts"))
    raise CorrectionError(name, f"cannot be corrected; known: {fields}")


def _value(name: str, value: Any) -> Any:
    if value is None:
        if name in ("name", "project"):
            raise CorrectionError(name, "a job always has one; give a text")
        return None
    try:
        parsed = PARSERS[name](value)
    except (TypeError, ValueError) as error:
        raise CorrectionError(name, str(error)) from None
    return list(parsed) if isinstance(parsed, tuple) else parsed


def _amount(unit: str, value: Any) -> float | None:
    """Return R in a unit as declared, None for one that is not any more."""
    field = f"{COUNT}{unit}"
    try:
        PARSERS["unit"]([unit])
        amount = None if value is None else float(value)
    except (TypeError, ValueError) as error:
        raise CorrectionError(field, str(error)) from None
    if amount is not None and not 0 < amount <= AMOUNT_MOST:
        most = f"{AMOUNT_MOST:g}"
        raise CorrectionError(field, f"R must be above zero and at most {most}, not {value:g}")
    return None if amount is None else _plain(amount)


def _plain(amount: float) -> float:
    """Return a whole number as one, so that it is written without a point."""
    return int(amount) if amount.is_integer() else amount


def _check_units(session: Session, job: Job, declared: Mapping[str, Any]) -> None:
    """Raise CorrectionError for units that the job does not have and that are like known ones."""
    head = _head(session, job)
    own = {*(head.units if head else ()), *_counted(session, job)}
    for field, value in declared.items():
        units = value or () if field == "unit" else (field.removeprefix(COUNT),)
        if value is None or not (field == "unit" or field.startswith(COUNT)):
            continue
        for unit in units:
            if unit not in own and (close := close_units(unit, own)):
                text = f"unknown unit {unit!r}; close matches: {', '.join(close)}"
                raise CorrectionError(field, text, close=close)


def _counted(session: Session, job: Job) -> dict[str, float]:
    """Return what the stored lines of a job counted, by unit."""
    sums: dict[str, float] = {}
    for count in increments(counts_of(session, job)):
        assert isinstance(count, CountRecord)
        sums[count.unit] = sums.get(count.unit, 0.0) + count.amount
    return {unit: _plain(amount) for unit, amount in sums.items()}


def _tags(value: Any) -> dict[str, str | None]:
    """Tags by name, None for one to take away; the rules are those of the setting."""
    for key in value:
        if not key.strip() or len(key) > TAG_KEY_MOST:
            raise CorrectionError("tags", f"the name of a tag has 1 to {TAG_KEY_MOST} characters")
    texts = {key: text for key, text in value.items() if text is not None}
    try:
        tags: dict[str, str | None] = {**PARSERS["tags"](texts)}
    except (TypeError, ValueError) as error:
        raise CorrectionError("tags", str(error)) from None
    return tags | {key: None for key, text in value.items() if text is None}


def check_place(catalog: Catalog, declared: Mapping[str, Any]) -> None:
    """Raise CorrectionError for a `zone` or `region` that the catalog does not know."""
    finds: dict[str, Callable[[str], object]] = {"zone": catalog.zone, "region": catalog.region}
    for name, find in finds.items():
        if declared.get(name):
            try:
                find(declared[name])
            except LookupFailed as error:
                raise CorrectionError(name, error.message, close=error.close) from None


def _rows(session: Session, job: Job, values: Mapping[str, Any]) -> list[Correction]:
    """Return a row for every field whose value differs from what is declared now."""
    head, earlier = _head(session, job), corrections_of(session, job)
    stated = declared_counts((correction.field, correction.value) for correction in earlier)
    counted = _counted(session, job) if any(field.startswith(COUNT) for field in values) else {}
    rows = []
    old: Any
    for field, value in values.items():
        unit, old = field.removeprefix(COUNT), None
        if unit != field:
            old = stated.get(unit)
        elif field == EXCLUDED:
            old = exclusion(earlier)
        elif head is not None:
            old = declared(head, field)
        if value != old:
            before = counted.get(unit) if old is None else old
            texts = {"value": json.dumps(value), "old": json.dumps(before)}
            rows.append(Correction(job=job.id, field=field, **texts))
    return rows


def _head(session: Session, job: Job) -> JobRecord | None:
    try:
        return declared_head(session, job)
    except ScoreError:  # no writer has said yet what runs
        return None


FIRST = 1
"""The number of the line that opens the job; the sender goes on with the next one."""


def open_job(
    service: Service,
    job_id: str,
    node: str,
    writer: str,
    declared: Mapping[str, Any],
) -> tuple[JobSummary, bool]:
    """Return the job, and whether this opened it; the same again changes nothing.

    `declared` holds fields of a job's record. Raises CorrectionError for a field without meaning,
    ServiceError `conflict` for a job that declares something else, UnknownJobError for an id of
    others, or DeletedJobError.
    """
    check_place(service.catalog, declared)
    identity = {"job_id": job_id, "node": node, "writer": writer, "seq": FIRST}
    now = {"started_at": format_time(service.now())}
    line = {"v": VERSION, "type": JobRecord.TYPE, **identity, "role": "command", **now, **declared}
    record = _record_of(line)
    created = _opening_lines(service, job_id)[0] is None
    if created:
        ingest(service, job_id, [encode(record).encode()])
    job, lines = _opening_lines(service, job_id)
    assert job is not None  # the line made it; where it was deleted since, that is said
    stored = lines.get((node, writer, FIRST))
    if stored is None:
        raise _opened_otherwise(job_id, "opened by another writer")
    differing = [name for name in declared if getattr(stored, name) != getattr(record, name)]
    if differing:
        raise _opened_otherwise(job_id, f"with another {differing[0]}")
    with service.store.read() as session:
        return summaries(session, [job])[0], created


def _opened_otherwise(job_id: str, what: str) -> ServiceError:
    text = f"job {job_id!r} is there already, {what}; change it with PATCH"
    return ServiceError(text, "conflict")


def _record_of(line: Mapping[str, Any]) -> JobRecord:
    try:
        record = decode(json.dumps(line))
    except RecordError as error:
        # What else a job's record refuses is its only time.
        raise CorrectionError(error.field or "started_at", error.message) from None
    assert isinstance(record, JobRecord)  # the type of the line
    return record


def _opening_lines(
    service: Service, job_id: str
) -> tuple[Job | None, dict[tuple[str, str, int], JobRecord]]:
    """Return the job and its lines that say what runs, by node, writer and number."""
    with service.store.read() as session:
        job = find_known_job(session, job_id)
        if job is None:
            return None, {}
        statement = sa.select(Statement.line).join(Writer, Writer.id == Statement.writer)
        # Lines that contradict another of their number have negative ones.
        statement = statement.where(Writer.job == job.id, Statement.seq > 0)
        records = list(readable(with_names(session, line) for line in session.scalars(statement)))
    return job, {(r.node, r.writer, r.seq): r for r in records if isinstance(r, JobRecord)}
