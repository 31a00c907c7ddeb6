"""What people declare after a job, applied over its records: a later statement of the same field
stands in place of an earlier one, and the records themselves stay as they were journaled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gramwatt.sci.figures.document import CorrectionDoc
from gramwatt.sci.records.merge import MergedJob
from gramwatt.sci.records.records import AnyRecord, CountRecord, JobRecord, format_time

PLACE = ("zone", "region")
FIELDS = (*PLACE, "unit", "pue", "name", "project")
TAG, COUNT = "tags.", "count."
"""Prefixes of the field of one tag, such as tags.team, and of R in a unit, such as count.token."""
EXCLUDED = "excluded"
"""The field whose value is the reason why a job is left out of months; None includes it."""


class Correction(Struct, frozen=True):
    """One field declared afterwards; None makes it undeclared. `old` is what stood before."""

    field: str
    value: Any
    old: Any
    by: str
    at: datetime
    reason: str | None = None

    def to_doc(self) -> CorrectionDoc:
        """Return this correction as JSON-ready data."""
        return CorrectionDoc(
            field=self.field,
            value=self.value,
            old=self.old,
            kind="declared",
            by=self.by,
            at=format_time(self.at),
            reason=self.reason,
        )


def corrected(records: Iterable[AnyRecord], corrections: Sequence[Correction]) -> list[AnyRecord]:
    """Return the records with the corrections, oldest first, in every job record."""
    latest = _latest(corrections)
    return [
        msgspec.structs.replace(record, **_fields(record, latest))
        if latest and isinstance(record, JobRecord)
        else record
        for record in records
    ]


def declared_counts(corrections: Iterable[tuple[str, Any]]) -> dict[str, float]:
    """Return R by unit out of the fields and values of corrections, oldest first."""
    latest = {field.removeprefix(COUNT): n for field, n in corrections if field.startswith(COUNT)}
    return {unit: float(amount) for unit, amount in latest.items() if amount is not None}


def with_declared_counts(job: MergedJob, corrections: Sequence[Correction]) -> MergedJob:
    """Return the job with R as declared in place of what was counted in those units."""
    amounts = declared_counts((correction.field, correction.value) for correction in corrections)
    if not amounts:
        return job
    counted = tuple(count for count in job.counts if count.unit not in amounts)
    head = job.head
    who: dict[str, Any] = {"job_id": head.job_id, "node": head.node, "writer": head.writer}
    when: dict[str, Any] = {"since": job.started_at, "at": job.ended_at or job.last_seen}
    stated = (CountRecord(**who, seq=1, **when, unit=u, amount=n) for u, n in amounts.items())
    return replace(job, counts=(*counted, *stated))


def exclusion(corrections: Sequence[Correction]) -> str | None:
    """Return why the job is left out of months; None where it is not."""
    reason: str | None = _latest(corrections).get(EXCLUDED)
    return reason


def declared(job: JobRecord, field: str) -> Any:
    """Return what a job's merged record declares for a correction's field; None without."""
    if field.startswith(TAG):
        return job.tags.get(field.removeprefix(TAG))
    if field == "unit":
        return list(job.units) or None
    return getattr(job, field) or None


def _latest(corrections: Sequence[Correction]) -> dict[str, Any]:
    return {correction.field: correction.value for correction in corrections}


def _fields(job: JobRecord, latest: Mapping[str, Any]) -> dict[str, Any]:
    changed = {name: latest[name] for name in (*PLACE, "pue", "name", "project") if name in latest}
    if "unit" in latest:
        changed["units"] = tuple(latest["unit"] or ())
    tags = {
        field.removeprefix(TAG): value for field, value in latest.items() if field.startswith(TAG)
    }
    if tags:
        whole = {**job.tags, **tags}
        changed["tags"] = {name: text for name, text in whole.items() if text is not None}
    return changed
