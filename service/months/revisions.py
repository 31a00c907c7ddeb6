"""Reports of complete months as they were kept: each that differs from the last is a revision."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from gramwatt.service.common.errors import NoDataError
from gramwatt.service.container import Service
from gramwatt.service.months.sums.keeping import ALL
from gramwatt.service.store.models import Job, JobMonth, MonthlyReport
from gramwatt.service.store.timestamps import text_from_us

ROUNDING = 1e-12
"""Relative difference of figures that were added in another order."""


MEMO = "market_based"
NOT_COMPARED = frozenset(("revision", "issued_at", "revised", MEMO))
"""Fields of a report that say what became of it, not of its month, and the memo of settings."""


Ledger = Mapping[int, int]
"""The score revision of each job of a month that its sums hold, or that was excluded, by key."""


class Kept(NamedTuple):
    """The newest revision of a report, and the state of the month that it is known to hold for."""

    id: int
    revision: int
    doc: str
    made_of: str


def newest(session: Session, month: str, project: str | None) -> Kept | None:
    """Return the revision of the month's report that was kept last; None for none."""
    columns = (MonthlyReport.id, MonthlyReport.revision, MonthlyReport.doc, MonthlyReport.made_of)
    wanted = sa.select(*columns).where(*_of(month, project))
    row = session.execute(wanted.order_by(MonthlyReport.revision.desc()).limit(1)).first()
    return Kept(*row) if row else None


def ledger_of(session: Session, month: str, project: str | None) -> dict[int, int]:
    """Return the newest score of each job of a month, the jobs with the most carbon first."""
    wanted = sa.select(Job.id, Job.revision).join(JobMonth, JobMonth.job == Job.id)
    wanted = wanted.where(JobMonth.month == month)
    if project is not None:
        wanted = wanted.where(JobMonth.project == project)
    grams = sa.func.coalesce(Job.total_g, -1.0).desc()
    return {key: revision for key, revision in session.execute(wanted.order_by(grams, Job.id))}


def pack_ledger(ledger: Ledger) -> bytes:
    """Return a ledger as the store keeps it."""
    return zlib.compress(json.dumps(list(ledger.items())).encode())


def unpack_ledger(packed: bytes) -> dict[int, int]:
    """Return what `pack_ledger` packed."""
    return dict(json.loads(zlib.decompress(packed))) if packed else {}


def keep(
    service: Service,
    month: str,
    project: str | None,
    revision: int,
    text: str,
    made_of: str,
    jobs: bytes,
) -> bool:
    """Keep a report under a number; return False where another process has used the number."""
    row = MonthlyReport(
        month=month,
        project=project or ALL,
        revision=revision,
        made_us=service.now_us(),
        made_of=made_of,
        doc=text,
        jobs=jobs,
    )
    try:
        with service.store.write() as session:
            session.add(row)
    except IntegrityError:
        return False
    return True


def still_holds(service: Service, kept: Kept, made_of: str) -> None:
    """Note that a kept report says what the month's present state does too."""
    if kept.made_of == made_of:
        return
    change = sa.update(MonthlyReport).where(MonthlyReport.id == kept.id).values(made_of=made_of)
    with service.store.write() as session:
        session.execute(change)


def says_the_same(kept: str, text: str) -> bool:
    """Return True where a report has the figures of the kept one, but for rounding.

    That fewer jobs are provisional is no other report, unless none is any more: they become final
    one after another. Fields that only one of them has are of another release.
    """
    before, now = json.loads(kept), json.loads(text)
    both = (before.keys() & now.keys()) - NOT_COMPARED
    if "provisional" in both and _is_provisional(before) == _is_provisional(now):
        both.discard("provisional")
    return all(_same(before[name], now[name]) for name in both)


def _is_provisional(document: Any) -> bool:
    return bool(document["provisional"]["jobs"])


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=ROUNDING)
    return bool(one == other)


def latest_revision(service: Service, month: str, project: str | None) -> int:
    """Return the number of the newest kept revision; 0 for none."""
    with service.for_every_project().store.read() as session:
        found = newest(session, month, project)
    return found.revision if found else 0


def kept(service: Service, month: str, project: str | None, revision: int) -> str:
    """Return the report that was kept as this revision; raises NoDataError."""
    wanted = sa.select(MonthlyReport.doc).where(
        *_of(month, project), MonthlyReport.revision == revision
    )
    with service.store.read() as session:
        text = session.scalar(wanted)
    if text is None:
        of = f" of project {project!r}" if project else ""
        raise NoDataError(f"no report of {month}{of} was kept as revision {revision}")
    return text


def kept_jobs(session: Session, month: str, project: str | None, revision: int) -> bytes:
    """Return the scores that a kept report was made of, packed; raises NoDataError."""
    wanted = sa.select(MonthlyReport.jobs).where(
        *_of(month, project), MonthlyReport.revision == revision
    )
    found = session.scalar(wanted)
    if found is None:
        raise NoDataError(f"no report of {month} was kept as revision {revision}")
    return found


def kept_reports(service: Service, project: str | None) -> dict[str, list[str]]:
    """Return when the reports of each month were kept (RFC 3339), newest first."""
    wanted = (
        sa.select(MonthlyReport.month, MonthlyReport.made_us)
        .where(MonthlyReport.project == (project or ALL))
        .order_by(MonthlyReport.revision.desc())
    )
    found: dict[str, list[str]] = {}
    with service.store.read() as session:
        for month, made_us in session.execute(wanted):
            found.setdefault(month, []).append(text_from_us(made_us))
    return found


def _of(month: str, project: str | None) -> tuple[sa.ColumnElement[bool], ...]:
    return MonthlyReport.month == month, MonthlyReport.project == (project or ALL)
