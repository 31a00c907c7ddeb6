"""Keep the rows of a job's months, in the transaction that stores its score or deletes it.

Whoever changes rows of a month counts that in `month_sums`, for all projects and for the job's own:
sums that were made of fewer changes do not hold any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.service.months.statements import Execute
from gramwatt.service.store.columns import insert_of, upsert
from gramwatt.service.store.models import Job
from gramwatt.service.store.months import ALL, METHODS, OF_JOB, JobMonth, MonthSum
from gramwatt.service.store.restriction import RestrictedSession

PORTION = 2_000
"""Rows that are read at once."""
Rows = Mapping[str, Sequence[dict[str, Any]]]
"""The rows of a job by table, as `sci.month.rows.rows_of` makes them."""
_JOB_MONTHS = OF_JOB["job_months"]


def from_session(session: Session) -> Execute:
    """Return how statements run on the store; a session that sees some projects only is refused."""
    if isinstance(session, RestrictedSession):
        raise TypeError("statements in SQL cannot be restricted; name the projects in their scope")

    def execute(statement: str, values: Mapping[str, Any]) -> Any:
        rows = session.execute(sa.text(statement), dict(values)).yield_per(PORTION)
        return chain.from_iterable(rows.partitions())

    return execute


def keep_rows(session: Session, job: Job, rows: Rows, *, is_new: bool) -> None:
    """Replace the rows of a job by the rows of its newest document.

    Nothing changes where that is not a new revision and has the same figures of the same traits.
    """
    keyed = {table: [{**row, "job": job.id} for row in rows[table]] for table in OF_JOB}
    for row in keyed["job_months"]:
        row["revision"] = job.revision  # a score that is alike has no revision of its own
    stored = sa.select(_JOB_MONTHS).where(_JOB_MONTHS.c.job == job.id)
    if not is_new:
        before = [dict(row) for row in session.connection().execute(stored).mappings()]
        if sorted(before, key=_month) == sorted(keyed["job_months"], key=_month):
            return
    touched = _remove(session, job.id) | {
        (row["month"], row["project"]) for row in rows["job_months"]
    }
    for name, table in METHODS.items():
        upsert(session, table, rows[name])
    for name, of_table in keyed.items():
        if of_table:
            session.connection().execute(sa.insert(OF_JOB[name]), of_table)
    _count(session, touched)


def forget_rows(session: Session, key: int) -> None:
    """Remove the rows of a job that runs again."""
    _count(session, _remove(session, key))


def erase_rows(session: Session, key: int) -> None:
    """Remove the rows of a job that is deleted, sums that name it, and methods of no other job."""
    connection = session.connection()
    own = sa.select(_JOB_MONTHS.c.method).where(_JOB_MONTHS.c.job == key)
    methods = set(connection.execute(own).scalars())
    touched = _remove(session, key)
    _count(session, touched)
    for month, project in sorted(touched):
        empty_sums(session, MonthSum.month == month, MonthSum.project.in_((project, ALL)))
    for method in sorted(methods):
        if not connection.scalar(sa.select(sa.exists().where(_JOB_MONTHS.c.method == method))):
            for table in reversed(METHODS.values()):
                connection.execute(sa.delete(table).where(table.c.method == method))


def empty_sums(session: Session, *conditions: sa.ColumnElement[bool]) -> None:
    """Remove what is kept of months, which may name a deleted job; the next reader makes it."""
    empty = dict.fromkeys(("document", "made_of", "advice", "advised_of"))
    session.connection().execute(sa.update(MonthSum).where(*conditions).values(empty))


def changes_of(session: Session, month: str, project: str | None) -> int:
    """Return how often the rows of a month have changed."""
    of_month = MonthSum.month == month, MonthSum.project == (project or ALL)
    return session.scalar(sa.select(MonthSum.changes).where(*of_month)) or 0


def _month(row: Mapping[str, Any]) -> str:
    return str(row["month"])


def _remove(session: Session, key: int) -> set[tuple[str, str]]:
    """Remove the rows of a job; return the months and projects that they were in."""
    own = sa.select(JobMonth.month, JobMonth.project).where(JobMonth.job == key)
    touched = {(month, project) for month, project in session.execute(own)}
    for table in OF_JOB.values():
        for month in sorted({month for month, _ in touched}):
            gone = sa.delete(table).where(table.c.month == month, table.c.job == key)
            session.connection().execute(gone)
    return touched


def _count(session: Session, touched: set[tuple[str, str]]) -> None:
    """Count a change of months and projects, in one order, so that transactions wait in turn."""
    if not touched:
        return
    connection = session.connection()
    statement = insert_of(connection.dialect.name)(MonthSum).values(changes=1)
    again = statement.on_conflict_do_update(
        index_elements=("month", "project"), set_={"changes": MonthSum.changes + 1}
    )
    both = {(month, name) for month, project in touched for name in (project, ALL)}
    rows = [{"month": month, "project": project, "changes": 1} for month, project in sorted(both)]
    connection.execute(again, rows)
