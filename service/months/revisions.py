"""Reports of complete months as they were kept: each that differs from the last is a revision."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from gramwatt.sci.analysis.trail import ClosingDoc
from gramwatt.service.common.errors import NoDataError
from gramwatt.service.container import Service
from gramwatt.service.months.sums.keeping import ALL
from gramwatt.service.store.budgets import OutboxMessage
from gramwatt.service.store.models import MonthlyReport
from gramwatt.service.store.months import MonthClosing
from gramwatt.service.store.timestamps import text_from_us
from gramwatt.service.store.upserts import upsert

ROUNDING = 1e-12
"""Relative difference of figures that were added in another order."""


NOT_COMPARED = frozenset(("revision", "issued_at", "revised", "restatement", "closings"))
"""Fields of a report that say what became of it, not of its month."""


class Kept(NamedTuple):
    """The newest revision of a report, and the state of the month that it is known to hold for."""

    id: int
    revision: int
    doc: str
    made_of: str
    jobs: bytes


_COLUMNS = (
    MonthlyReport.id,
    MonthlyReport.revision,
    MonthlyReport.doc,
    MonthlyReport.made_of,
    MonthlyReport.jobs,
)


def newest(session: Session, month: str, project: str | None) -> Kept | None:
    """Return the revision of the month's report that was kept last; None for none."""
    wanted = sa.select(*_COLUMNS).where(*_of(month, project))
    row = session.execute(wanted.order_by(MonthlyReport.revision.desc()).limit(1)).first()
    return Kept(*row) if row else None


def restated(session: Session, month: str, project: str | None, newest: Kept) -> Kept:
    """Return the kept report that a new one restates: the one that the month was closed with.

    Of a month that is not closed, and a project without a report by then, the newest.
    """
    wanted = sa.select(MonthClosing.closed_us).where(
        MonthClosing.month == month, MonthClosing.reopened_us.is_(None)
    )
    closed_us = session.scalar(wanted)
    if closed_us is None:
        return newest
    by_then = sa.select(*_COLUMNS).where(*_of(month, project), MonthlyReport.made_us <= closed_us)
    row = session.execute(by_then.order_by(MonthlyReport.revision.desc()).limit(1)).first()
    return Kept(*row) if row else newest


def closings(session: Session, month: str) -> list[ClosingDoc]:
    """Return who closed the month and opened it again, the newest last."""
    wanted = sa.select(MonthClosing).where(MonthClosing.month == month)
    return [
        {
            "revision": row.revision,
            "closed_at": text_from_us(row.closed_us),
            "closed_by": row.closed_by,
            "reopened_at": None if row.reopened_us is None else text_from_us(row.reopened_us),
            "reopened_by": row.reopened_by,
            "reason": row.reason,
        }
        for row in session.scalars(wanted.order_by(MonthClosing.number))
    ]


def keep(
    service: Service,
    month: str,
    project: str | None,
    revision: int,
    text: str,
    made_of: str,
    jobs: bytes,
    messages: Sequence[Mapping[str, Any]] = (),
) -> bool:
    """Keep a report under a number, and put messages into the outbox with it.

    Return False where another process has used the number.
    """
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
            session.flush()
            upsert(session, OutboxMessage, messages)
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
