"""Reports of complete months as they were made: each that differs from the last is a revision."""

from __future__ import annotations

import json
import math
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.service.common.errors import NoDataError
from gramwatt.service.container import Service
from gramwatt.service.months.sums.keeping import ALL
from gramwatt.service.store.documents import to_text
from gramwatt.service.store.models import MonthlyReport
from gramwatt.service.store.upserts import upsert

_OWN = (
    MonthlyReport.month == sa.bindparam("month"),
    MonthlyReport.project == sa.bindparam("project"),
)
_NEWEST = (
    sa.select(
        MonthlyReport.doc,
        sa.select(sa.func.count()).select_from(MonthlyReport).where(*_OWN).scalar_subquery(),
    )
    .where(*_OWN)
    .order_by(MonthlyReport.made_us.desc())
    .limit(1)
)
ROUNDING = 1e-12
"""Relative difference of figures that were added in another order."""


def keep(service: Service, month: str, project: str | None, text: str) -> None:
    """Keep the report of a complete month, which is another than the one kept last."""
    row = {"month": month, "project": project or ALL, "made_us": service.now_us(), "doc": text}
    with service.store.write() as session:
        upsert(session, MonthlyReport, [row])


def keep_instead(service: Service, month: str, project: str | None, text: str) -> None:
    """Replace the report that was kept last by the same with fields that its release lacked."""
    own = (MonthlyReport.month == month, MonthlyReport.project == (project or ALL))
    last = sa.select(sa.func.max(MonthlyReport.made_us)).where(*own).scalar_subquery()
    change = sa.update(MonthlyReport).where(*own, MonthlyReport.made_us == last).values(doc=text)
    with service.store.write() as session:
        session.execute(change)


def still_said(reported: str, text: str) -> str | None:
    """The report that is kept, with fields that its release lacked; None where it says otherwise.

    Figures that differ by rounding are those that were reported. That fewer jobs are provisional
    is no other report, unless none is any more: they become final one after another.
    """
    before, now = json.loads(reported), json.loads(text)
    both = before.keys() & now.keys()
    if "provisional" in both:
        both -= {"provisional"} if _is_provisional(before) == _is_provisional(now) else set()
    if not all(_same(before[name], now[name]) for name in both):
        return None
    return reported if before.keys() >= now.keys() else to_text({**now, **before})


def _is_provisional(document: Any) -> bool:
    return document["provisional"] is not None and document["provisional"]["jobs"] > 0


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=ROUNDING)
    return bool(one == other)


def newest(session: Session, month: str, project: str | None) -> tuple[str | None, int]:
    """The report of the month that was kept last, and how many were."""
    found = session.execute(_NEWEST, {"month": month, "project": project or ALL}).first()
    return (found[0], found[1]) if found else (None, 0)


def latest_revision(service: Service, month: str, project: str | None) -> int:
    """The revision of the report that was kept last, of all projects or one; 0 for none."""
    with service.for_every_project().store.read() as session:
        return newest(session, month, project)[1]


def kept(service: Service, month: str, project: str | None, revision: int) -> str:
    """The report that was kept as this revision, the first of which is 1."""
    wanted = (
        sa.select(MonthlyReport.doc)
        .where(MonthlyReport.month == month, MonthlyReport.project == (project or ALL))
        .order_by(MonthlyReport.made_us)
        .offset(revision - 1)
        .limit(1)
    )
    with service.store.read() as session:
        text = session.scalar(wanted)
    if text is None:
        of = f" of project {project!r}" if project else ""
        raise NoDataError(f"no report of {month}{of} was kept as revision {revision}")
    return text
