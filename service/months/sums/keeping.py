"""Keep the parts of jobs' months in the store, in the transaction that changes the job.

Whoever changes what a month is made of gives the month a new version, for all projects and for the
job's own: sums that were made of another version do not hold any more.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.base.document import JobDoc
from gramwatt.service.months.sums.part import (
    EXCLUDED,
    PORTION,
    SUMMED,
    PartRow,
    StoredPart,
)
from gramwatt.service.store.models import Job, JobMonth, MonthSum, MonthVersion
from gramwatt.service.store.timestamps import to_us
from gramwatt.service.store.upserts import upsert

_PART = cast(sa.Table, JobMonth.__table__)
_PARTS = sa.select(_PART).where(_PART.c.job == sa.bindparam("key")).order_by(_PART.c.month)
_OF_MONTH = sa.select(
    _PART.c.job, _PART.c.job_id, _PART.c.started_us, _PART.c.texts, _PART.c.numbers
).where(_PART.c.month == sa.bindparam("of_month"))
# Not `use == SUMMED`: SQLite would go by the index with the project, from page to page, rather than
# by the key, in whose order the rows lie. That takes twice as long.
_ROWS = _OF_MONTH.where(_PART.c.use != EXCLUDED)
_ROWS_OF = _OF_MONTH.where(_PART.c.use == SUMMED, _PART.c.project == sa.bindparam("of_project"))
_MONTHS = sa.select(JobMonth.month, JobMonth.project).where(JobMonth.job == sa.bindparam("key"))
_VERSIONS = sa.select(MonthVersion.month, MonthVersion.version).where(
    MonthVersion.month.in_(sa.bindparam("months", expanding=True)),
    MonthVersion.project == sa.bindparam("project"),
)
_GONE = sa.delete(_PART).where(_PART.c.job == sa.bindparam("key"))
ALL = ""
"""How the store writes "every project"."""


def keep_parts(
    session: Session, job: Job, document: JobDoc, parts: dict[str, StoredPart], *, is_new: bool
) -> None:
    """Replace the job's parts by those of its newest document (`parts_of`).

    Months stay as they are where the parts do and the document is not a new revision.
    """
    of_job = {
        "project": document.project,
        "job_id": job.job_id,
        "started_us": to_us(datetime.fromisoformat(document.started_at)),
    }
    rows = [
        {
            "month": month,
            "job": job.id,
            **of_job,
            "use": part.use,
            "texts": part.texts,
            "numbers": part.numbers,
        }
        for month, part in sorted(parts.items())
    ]
    if not is_new and rows == _stored(session, job.id):
        return
    filled = {(month, document.project) for month in parts}
    touched = _remove(session, job.id) | filled
    upsert(session, JobMonth, rows)
    session.flush()
    _renew(session, touched, filled)


def _stored(session: Session, key: int) -> list[dict[str, Any]]:
    """Return the parts of a job, by month."""
    return [dict(row) for row in session.execute(_PARTS, {"key": key}).mappings()]


def forget_parts(session: Session, key: int) -> None:
    """Remove the parts of a job that is deleted, and what was kept of months without any."""
    touched = _remove(session, key)
    session.flush()
    _renew(session, touched)


def read_rows(
    session: Session, month: str, project: str | None, without: Iterable[int]
) -> Iterator[Sequence[PartRow]]:
    """Yield the parts of a month's jobs in portions, but of excluded jobs and those of
    `without`.
    """
    wanted = _ROWS if project is None else _ROWS_OF
    values = {"of_month": month, "of_project": project}
    left_out = set(without)
    for portion in session.execute(wanted, values).partitions(PORTION):
        # Rows are tuples like parts; making them parts would take as long as reading them.
        found = cast("Sequence[PartRow]", portion)
        yield [row for row in found if row[0] not in left_out] if left_out else found


def versions(session: Session, months: Sequence[str], project: str | None) -> dict[str, int]:
    """Return the version of each of these months that has one."""
    wanted = {"months": list(months), "project": project or ALL}
    return {month: version for month, version in session.execute(_VERSIONS, wanted)}


def _remove(session: Session, key: int) -> set[tuple[str, str]]:
    """Remove the parts of a job; the months and projects that they were in."""
    found = {(month, project) for month, project in session.execute(_MONTHS, {"key": key})}
    if found:
        session.connection().execute(_GONE, {"key": key})
    return found


def _renew(
    session: Session, touched: set[tuple[str, str]], filled: Collection[tuple[str, str]] = ()
) -> None:
    """Give months and projects a new version, in one order; nothing stays of those without jobs.

    Those that are `filled` have a job for certain.
    """
    if not touched:
        return
    known = {(month, name) for month, project in filled for name in (project, ALL)}
    both = {(month, name) for month, project in touched for name in (project, ALL)}
    rows = [
        {"month": month, "project": project, "version": secrets.randbits(62)}
        for month, project in sorted(both)
    ]
    # Locked before a look at the parts: a job that is scored meanwhile has added its own, or waits.
    upsert(session, MonthVersion, rows, replace=True)
    for month, project in sorted(both - known):
        if _has_part(session, month, project):
            continue
        for table in (MonthVersion, MonthSum):
            gone = (table.month == month, table.project == project)
            session.execute(sa.delete(table).where(*gone))


def _has_part(session: Session, month: str, project: str) -> bool:
    of_month = [JobMonth.month == month, *([JobMonth.project == project] if project else [])]
    return session.scalar(sa.select(sa.literal(1)).where(*of_month).limit(1)) is not None
