"""What people declare after a job, applied over its records: a later statement of the same field
stands in place of an earlier one, and the records themselves stay as they were journaled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from gramwatt.sci.base.document import CorrectionDoc
from gramwatt.sci.journal.records import AnyRecord, JobRecord, format_time

PLACE = ("zone", "region")
FIELDS = (*PLACE, "unit", "pue", "name", "project")
TAG = "tags."
"""Prefix of the field of one tag, such as tags.team."""
EXCLUDED = "excluded"
"""The field whose value is the reason why a job is left out of months; None includes it."""


@dataclass(frozen=True, slots=True)
class Correction:
    """One field declared afterwards; None makes it undeclared. `old` is what stood before."""

    field: str
    value: Any
    old: Any
    by: str
    at: datetime
    reason: str | None = None

    def to_doc(self) -> CorrectionDoc:
        """Return this correction as JSON-ready data."""
        return {
            "field": self.field,
            "value": self.value,
            "old": self.old,
            "kind": "declared",
            "by": self.by,
            "at": format_time(self.at),
            "reason": self.reason,
        }


def corrected(records: Iterable[AnyRecord], corrections: Sequence[Correction]) -> list[AnyRecord]:
    """Return the records with the corrections, oldest first, in every job record."""
    latest = _latest(corrections)
    return [
        replace(record, **_fields(record, latest))
        if latest and isinstance(record, JobRecord)
        else record
        for record in records
    ]


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
