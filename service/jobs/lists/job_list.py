"""The list of jobs: keys by one keyset query, which walks an index in the list's order, then rows.

It is an index of jobs; a list by start that asks for labels alone walks the index of the rarest
label.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.orm import Session, aliased

from gramwatt.service.common.answers import JobsAnswer
from gramwatt.service.common.cursors import MAYBE_FLOAT, MAYBE_INT, cut, decode_cursor
from gramwatt.service.common.errors import CursorError
from gramwatt.service.common.requests import JobList
from gramwatt.service.container import Service
from gramwatt.service.jobs.documents import JobSummary, summaries
from gramwatt.service.jobs.lists import filters
from gramwatt.service.jobs.lists.search import found_by
from gramwatt.service.store.models import Job, JobLabel
from gramwatt.service.store.people import known_alias

NEWEST = JobList()
FEW = 2_000
"""Up to so many jobs of a label are looked up one by one, whatever the order of the list."""
Key = sa.Row[Any, int]
"""A job's place in the order of a list: its value of the column, and its key."""


def list_jobs(service: Service, query: JobList = NEWEST) -> tuple[list[JobSummary], str | None]:
    """Return jobs in order, and the cursor of the next page.

    Raises CursorError for a text that is no cursor of the list in this order.
    """
    after = _position(query.cursor, query) if query.cursor else None
    with service.store.read() as session:
        chosen = filters.of_alias(query, lambda name: known_alias(session, name))
        keys = _keys(service, session, chosen, after, query.limit + 1)
        shown, following = cut(keys, query.limit, lambda key: (query.sort, *key))
        wanted = [key for _, key in shown]
        jobs = {job.id: job for job in session.scalars(sa.select(Job).where(Job.id.in_(wanted)))}
        # One may have been deleted between the two statements.
        return summaries(session, [jobs[key] for key in wanted if key in jobs]), following


def jobs_page(service: Service, query: JobList, *, wait: bool = True) -> JobsAnswer:
    """Return the heads of `list_jobs`; raises CursorError.

    With a model, the first page has the sums over all its runs, whatever project or state is
    shown; without `wait`, unless making them takes long.
    """
    jobs, following = list_jobs(service, query)
    answer = JobsAnswer(jobs=[job.head for job in jobs], next_cursor=following)
    if query.model_id is not None and query.cursor is None:
        # Other lists, also those of a command, start without the engine.
        from gramwatt.service.jobs.lists.model_runs import totals_of_model

        sums = totals_of_model(service, query.model_id, wait=wait)
        if sums is not None:
            answer.model = sums
    return answer


def _position(cursor: str, query: JobList) -> tuple[Any, int]:
    kind = MAYBE_INT if filters.column_of(query).type.python_type is int else MAYBE_FLOAT
    sort, value, key = decode_cursor(cursor, str, kind, int)
    if sort != query.sort:
        raise CursorError("a cursor of the list in another order; leave it out to start")
    return value, key


def _keys(
    service: Service, session: Session, query: JobList, after: tuple[Any, int] | None, most: int
) -> Sequence[Key]:
    """Return the keys of the next jobs, in order."""
    labels, few = _rarest_first(service, filters.labels(query))
    # Who sees some projects only walks through their jobs, not through all of a label.
    if filters.is_by_labels(query) and service.store.projects is None:
        walked: Any = aliased(JobLabel)
        column, key = walked.started_us, walked.job
        conditions = [walked.label == labels.pop(0), *filters.started(query, column)]
    else:
        walked, column, key = Job, filters.column_of(query), Job.id
        conditions = list(filters.conditions(query))
        if query.q is not None:
            conditions.append(found_by(service, query.q))
        if few is not None:
            conditions.append(Job.id.in_(few))
    conditions += [_has_label(key, label).correlate(walked).exists() for label in labels]
    return _walk(session, query, sa.select(column, key).where(*conditions), after, most)


def _walk(
    session: Session,
    query: JobList,
    wanted: sa.Select[Any, int],
    after: tuple[Any, int] | None,
    most: int,
) -> Sequence[Key]:
    """Return the next keys: by the column those that have it, then those that do not.

    Two statements where the column may be unknown: each reads its index in order.
    """
    column, key = wanted.selected_columns
    keys = list[Key]()
    value, last = after or (None, None)
    if after is None or value is not None:
        known = wanted.where(column.is_not(None)).order_by(*_order(query, column, key))
        if after is not None:
            place = sa.tuple_(column, key)
            known = known.where(_after_cursor(query, place, sa.tuple_(value, last)))
        keys += session.execute(known.limit(most))
        last = None
    if len(keys) < most and filters.column_of(query).nullable:
        unknown = wanted.where(column.is_(None)).order_by(*_order(query, key))
        if last is not None:
            unknown = unknown.where(_after_cursor(query, key, last))
        keys += session.execute(unknown.limit(most - len(keys)))
    return keys


def _has_label(key: Any, label: str) -> sa.Select[int]:
    """Return a row where a job has a label.

    Asked of each row on the way: SQLite would list all that `in` finds first, and PostgreSQL, but
    for the offset, join by its guess of how many jobs share two labels.
    """
    other = aliased(JobLabel)
    return sa.select(sa.literal(1)).where(other.job == key, other.label == label).offset(0)


def _rarest_first(
    service: Service, labels: Iterable[str]
) -> tuple[list[str], Sequence[int] | None]:
    """Return labels, one that few jobs have first, and the keys of its jobs where they are few.

    Of many a walk through the jobs in order soon has a page; of few it would read most jobs.
    """
    with service.for_every_project().store.read() as session:
        jobs = {
            label: session.scalars(
                sa.select(JobLabel.job).where(JobLabel.label == label).limit(FEW + 1)
            ).all()
            for label in labels
        }
    ordered = sorted(jobs, key=lambda label: len(jobs[label]))
    few = jobs[ordered[0]] if ordered else None
    return ordered, few if few is not None and len(few) <= FEW else None


def _order(query: JobList, *columns: Any) -> list[Any]:
    return [column.desc() if filters.is_descending(query) else column for column in columns]


def _after_cursor(query: JobList, place: Any, position: Any) -> sa.ColumnElement[bool]:
    """Return whether a place comes after a position in the order of the list."""
    if filters.is_descending(query):
        return cast("sa.ColumnElement[bool]", place < position)
    return cast("sa.ColumnElement[bool]", place > position)
