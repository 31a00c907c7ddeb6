"""Close a month once its report is final, and open it again with a reason.

A closed month goes on following its jobs: what they change is a restatement of the report that it
was closed with.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TypedDict

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from gramwatt.reports.sections.not_summed import incomplete
from gramwatt.sci.analysis.trail import ClosingDoc
from gramwatt.service.access import audit
from gramwatt.service.common.errors import MonthStateError
from gramwatt.service.container import Service
from gramwatt.service.months.report import keep_month
from gramwatt.service.months.revisions import closings
from gramwatt.service.store.documents import read_month
from gramwatt.service.store.months import MonthClosing


class ClosedMonth(TypedDict):
    """A month and its closings, the newest last; `closed` says whether it is closed now."""

    month: str
    closed: bool
    closings: list[ClosingDoc]


def close_month(service: Service, month: str, *, by: str) -> ClosedMonth:
    """Close a month with the newest revision of its report; a closed one stays as it is.

    Raises MonthStateError while the month is not complete, NoDataError.
    """
    service = service.for_every_project()
    document = read_month(keep_month(service, month))
    revision = document["revision"]
    if revision is None:
        why = " ".join(incomplete(document))
        raise MonthStateError(f"{month} is not complete, so it cannot be closed. {why}")

    def close(session: Session) -> None:
        if not _is_closed(session, month):
            row = MonthClosing(month=month, number=len(closings(session, month)) + 1)
            row.revision, row.closed_us, row.closed_by = revision, service.now_us(), by
            session.add(row)
            audit.record(session, service, "month-closed", f"{month}, revision {revision}", by)

    with suppress(IntegrityError):  # another process has closed it meanwhile
        service.store.transact(close)
    return closed_month(service, month)


def reopen_month(service: Service, month: str, reason: str, *, by: str) -> ClosedMonth:
    """Open a closed month again; raises MonthStateError for one that is not closed."""
    service = service.for_every_project()

    def reopen(session: Session) -> None:
        wanted = sa.select(MonthClosing).where(
            MonthClosing.month == month, MonthClosing.reopened_us.is_(None)
        )
        row = session.scalars(wanted.with_for_update()).one_or_none()
        if row is None:
            raise MonthStateError(f"{month} is not closed")
        row.reopened_us, row.reopened_by, row.reason = service.now_us(), by, reason
        audit.record(session, service, "month-reopened", f"{month}: {reason}", by)

    service.store.transact(reopen)
    return closed_month(service, month)


def closed_month(service: Service, month: str) -> ClosedMonth:
    """Return whether a month is closed, and by whom it was closed and opened."""
    with service.for_every_project().store.read() as session:
        found = closings(session, month)
        return {"month": month, "closed": _is_closed(session, month), "closings": found}


def _is_closed(session: Session, month: str) -> bool:
    found = closings(session, month)
    return bool(found) and found[-1]["reopened_at"] is None
