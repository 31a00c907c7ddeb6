"""The list of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.orm import Session, aliased

from gramwatt.service.common.answers import JobsAnswer
from gramwatt.service.common.cursors import MAYBE_FLOAT, MAYBE_INT, cut, decode_cursor
from gramwatt.service.common.errors import CursorError
from gramwatt.service.container import Service
from gramwatt.service.jobs.documents import JobSummary, summaries
from gramwatt.service.jobs.lists.filters import JobFilter
from gramwatt.service.jobs.lists.search import FEW, found_by
from gramwatt.service.store.models import Job, JobLabel
from gramwatt.service.store.people import known_alias


def list_jobs(
    service: Service, limit: int, cursor: str | None, **only: Any
) -> tuple[list[JobSummary], str | None]:
    """Jobs in order, and the cursor of the next page; `only` is as in JobFilter.

    Raises CursorError for a text that is no cursor of the list in this order.
    """
    after = _position(cursor, JobFilter(**only)) if cursor else None
    with service.store.read() as session:
        chosen = JobFilter(**only).of_alias(lambda name: known_alias(session, name))
        # Who sees some projects only walks through their jobs, not through all of a label.
        by_labels = chosen.is_by_labels and service.store.projects is None
        if by_labels:
            rows = _labelled(session, chosen, after, limit + 1)
        else:
            searched = () if chosen.q is None else (found_by(service, chosen.q),)
            rows = _rows(session, chosen, after, limit + 1, *searched)
        shown, following = cut(
            rows, limit, lambda job: (chosen.sort, getattr(job, chosen.column.key), job.id)
        )
        return summaries(session, shown), following


def jobs_page(
    service: Service, limit: int, cursor: str | None, *, wait: bool = True, **only: Any
) -> JobsAnswer:
    """Return the heads of `list_jobs`; raises CursorError.

    With a model, the first page has the sums over all its runs, whatever project or state is
    shown; without `wait`, unless making them takes long.
    """
    jobs, following = list_jobs(service, limit, cursor, **only)
    answer = JobsAnswer(jobs=[job.head for job in jobs], next_cursor=following)
    model_id = only.get("model_id")
    if model_id is not None and cursor is None:
        # Other lists, also those of a command, start without the engine.
        from gramwatt.service.jobs.lists.model_runs import totals_of_model

        sums = totals_of_model(service, model_id, wait=wait)
        if sums is not None:
            answer.model = sums
    return answer


def _position(cursor: str, chosen: JobFilter) -> tuple[Any, int]:
    kind = MAYBE_INT if chosen.column.type.python_type is int else MAYBE_FLOAT
    sort, value, key = decode_cursor(cursor, str, kind, int)
    if sort != chosen.sort:
        raise CursorError("a cursor of the list in another order; leave it out to start")
    return value, key


def _rows(
    session: Session,
    chosen: JobFilter,
    after: tuple[Any, int] | None,
    most: int,
    *searched: sa.ColumnElement[bool],
) -> Sequence[Job]:
    """Return the next rows: by the column those that have it, then by key those that do not.

    Two queries, because each of them reads its index in order. `searched` is what `q` asks.
    """
    column, found = chosen.column, list[Job]()
    wanted = sa.select(Job).where(*chosen.conditions(), *searched)
    few = _few_labelled(session, list(chosen.labels()))
    if few is not None:
        wanted = wanted.where(Job.id.in_(few))
    value, key = after or (None, None)
    if after is None or value is not None:
        known = wanted.where(column.is_not(None)).order_by(*_order(chosen, column, Job.id))
        if after is not None:
            known = known.where(
                _after_cursor(chosen, sa.tuple_(column, Job.id), sa.tuple_(value, key))
            )
        found += session.scalars(known.limit(most))
        key = None
    if len(found) < most and sa.inspect(Job).columns[column.key].nullable:
        unknown = wanted.where(column.is_(None)).order_by(*_order(chosen, Job.id))
        if key is not None:
            unknown = unknown.where(_after_cursor(chosen, Job.id, key))
        found += session.scalars(unknown.limit(most - len(found)))
    return found


def _labelled(
    session: Session, chosen: JobFilter, after: tuple[Any, int] | None, most: int
) -> Sequence[Job]:
    """Return the next rows that have the labels, in the order of their start.

    Each label's part of its index is in that order, and has all that is asked of it.
    """
    labels = list(chosen.labels())
    lead, *others = [aliased(JobLabel) for _ in labels]
    if others:
        _rarest_first(session, labels)
    wanted = sa.select(lead.job).where(lead.label == labels[0], *chosen.started(lead.started_us))
    for other, text in zip(others, labels[1:], strict=True):
        of_job = sa.and_(other.job == lead.job, other.started_us == lead.started_us)
        wanted = wanted.join(other, of_job).where(other.label == text)
    if after is not None:
        place = sa.tuple_(lead.started_us, lead.job)
        wanted = wanted.where(_after_cursor(chosen, place, sa.tuple_(*after)))
    ordered = wanted.order_by(*_order(chosen, lead.started_us, lead.job))
    while True:
        keys = list(session.scalars(ordered.limit(most)))
        found = {job.id: job for job in session.scalars(sa.select(Job).where(Job.id.in_(keys)))}
        if len(found) == len(keys):  # else one was deleted between the two statements
            return [found[key] for key in keys]


def _rarest_first(session: Session, labels: list[str]) -> None:
    """Order the labels, one that few jobs have first; of none that few have, read all in step."""

    def jobs(label: str) -> int:
        some = sa.select(JobLabel.job).where(JobLabel.label == label).limit(FEW + 1)
        return session.scalar(sa.select(sa.func.count()).select_from(some.subquery())) or 0

    known = {label: jobs(label) for label in labels}
    labels.sort(key=known.__getitem__)
    if known[labels[0]] > FEW and session.get_bind().dialect.name == "postgresql":
        # PostgreSQL expects one job in all to have both, and would read all of both to sort it.
        session.execute(sa.text("SET LOCAL enable_hashjoin = off"))
        session.execute(sa.text("SET LOCAL enable_nestloop = off"))


def _few_labelled(session: Session, labels: Sequence[str]) -> list[int] | None:
    """Return the jobs that have all these labels; None where many have, or no label is wanted.

    Of many, a walk through the jobs in order soon has a page. Of few it would read most jobs, and
    a database that guesses how many share labels, as if one said nothing of another, walks.
    """
    if not labels:
        return None
    each = [aliased(JobLabel) for _ in labels]
    wanted = sa.select(each[0].job).limit(FEW + 1)
    for other in each[1:]:
        wanted = wanted.join(other, other.job == each[0].job)
    wanted = wanted.where(*(one.label == text for one, text in zip(each, labels, strict=True)))
    found = list(session.scalars(wanted))
    return found if len(found) <= FEW else None


def _order(chosen: JobFilter, *columns: Any) -> list[Any]:
    return [column.desc() if chosen.is_descending else column for column in columns]


def _after_cursor(chosen: JobFilter, place: Any, position: Any) -> sa.ColumnElement[bool]:
    """Return whether a place comes after a position in the order of the list."""
    if chosen.is_descending:
        return cast("sa.ColumnElement[bool]", place < position)
    return cast("sa.ColumnElement[bool]", place > position)
