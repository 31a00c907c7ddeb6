"""Correct a job after it was measured: zone, region, unit, PUE, name, project, tags, exclusion."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy.orm import Session

from gramwatt.collectors.common.config import PARSERS
from gramwatt.sci.base.errors import LookupFailed, ScoreError
from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.journal.corrections import EXCLUDED, FIELDS, PLACE, TAG, declared, exclusion
from gramwatt.sci.journal.records import JobRecord
from gramwatt.sci.score.score import changes_no_figure
from gramwatt.service.access import audit
from gramwatt.service.access.projects import require_own
from gramwatt.service.common.errors import CorrectionError
from gramwatt.service.container import Service
from gramwatt.service.jobs.documents import (
    Expected,
    JobSummary,
    find_job,
    own_job,
    require_expected,
    require_intervals,
)
from gramwatt.service.jobs.journal import corrections_of, declared_head, refresh_head
from gramwatt.service.jobs.scoring import score_job, score_provisionally
from gramwatt.service.store.models import Correction, Job

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

    `changes` may hold `zone`, `region`, `unit`, `pue`, `name`, `project`, `tags` (an object) and
    `excluded`, which needs a `reason`; None makes a field undeclared. Raises UnknownJobError,
    DeletedJobError, ChangedError, IntervalsDeletedError, CorrectionError or ScoreError.
    """
    wanted = _checked(service, changes, reason)
    service = own_job(service, job_id)

    def declare(session: Session) -> tuple[int, bool, bool]:
        job = find_job(session, job_id, lock=True)
        require_expected(job, expected)
        rows = _rows(session, job, wanted)
        if not all(changes_no_figure(row.field) for row in rows):
            require_intervals(job, "only its name, tags and exclusion can still be corrected")
        for row in rows:
            row.made_us, row.made_by, row.reason = service.now_us(), by, reason
        session.add_all(rows)
        if rows:
            fields = ", ".join(row.field for row in rows)
            audit.record(session, service, "job-corrected", f"{job_id}: {fields}", by)
            job.version += 1
            session.flush()
            refresh_head(session, job)
        require_own(service, job.project)
        return job.id, job.state == "running", bool(rows)

    key, running, changed = service.store.transact(declare)
    if running:
        score_provisionally(service, key, fresh=changed)
    else:
        score_job(service, key, REASON)
    with service.store.read() as session:
        return JobSummary.from_row(session.get_one(Job, key))


def _checked(service: Service, changes: Mapping[str, Any], reason: str | None) -> dict[str, Any]:
    """Return the changes by the field of a correction; raises CorrectionError for one without
    meaning.
    """
    wanted: dict[str, Any] = {}
    if reason is not None and len(reason) > REASON_MOST:
        raise CorrectionError("reason", f"has more than {REASON_MOST} characters")
    for name, value in changes.items():
        if name == "tags":
            wanted |= {f"{TAG}{key}": text for key, text in _tags(value).items()}
        elif name == EXCLUDED:
            if value and not reason:
                raise CorrectionError("reason", "say why the job is left out: give a reason")
            wanted[name] = reason if value else None
        elif name in FIELDS:
            wanted[name] = _value(name, value)
        else:
            known = ", ".join((*FIELDS, "tags", EXCLUDED))
            raise CorrectionError(name, f"cannot be corrected; known: {known}")
    if all(wanted.get(name) for name in PLACE):
        raise CorrectionError("region", "give zone or region, not both")
    check_place(service.catalog, wanted)
    for one, other in (PLACE, PLACE[::-1]):
        # As in the configuration: a place given closer to the job replaces the whole place.
        if wanted.get(one):
            wanted[other] = None
    return wanted


def _value(name: str, value: Any) -> Any:
    if value is None:
        if name in ("name", "project"):
            raise CorrectionError(name, "a job always has one; give a text")
        return None
    try:
        found = PARSERS[name](value)
    except (TypeError, ValueError) as error:
        raise CorrectionError(name, str(error)) from None
    return list(found) if isinstance(found, tuple) else found


def _tags(value: Any) -> dict[str, str | None]:
    """Tags by name, None for one to take away; the rules are those of the setting."""
    for key in value:
        if not key.strip() or len(key) > TAG_KEY_MOST:
            raise CorrectionError("tags", f"the name of a tag has 1 to {TAG_KEY_MOST} characters")
    given = {key: text for key, text in value.items() if text is not None}
    try:
        tags: dict[str, str | None] = {**PARSERS["tags"](given)}
    except (TypeError, ValueError) as error:
        raise CorrectionError("tags", str(error)) from None
    return tags | {key: None for key, text in value.items() if text is None}


def check_place(catalog: Catalog, wanted: Mapping[str, Any]) -> None:
    """Raise CorrectionError for a `zone` or `region` that the catalog does not know."""
    finds: dict[str, Callable[[str], object]] = {"zone": catalog.zone, "region": catalog.region}
    for name, find in finds.items():
        if wanted.get(name):
            try:
                find(wanted[name])
            except LookupFailed as error:
                raise CorrectionError(name, error.message, close=error.close) from None


def _rows(session: Session, job: Job, wanted: Mapping[str, Any]) -> list[Correction]:
    """Return a row for every field whose value differs from what is declared now."""
    head, known = _head(session, job), corrections_of(session, job)
    rows = []
    for field, value in wanted.items():
        old = exclusion(known) if field == EXCLUDED else declared(head, field) if head else None
        if value != old:
            texts = {"value": json.dumps(value), "old": json.dumps(old)}
            rows.append(Correction(job=job.id, field=field, **texts))
    return rows


def _head(session: Session, job: Job) -> JobRecord | None:
    try:
        return declared_head(session, job)
    except ScoreError:  # no writer has said yet what runs
        return None
