"""The jobs that a text is found in: in their name, model or tags, or at the start of their id.

Many jobs have few names, models and labels between them, so each of these is looked at once, and
an index gives the jobs of those that match. Where a column has more than `VALUES_MOST` of them,
its index is read as a whole: half a second for a million jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import InstrumentedAttribute, Session

from gramwatt.service.container import Service
from gramwatt.service.store.job_labels import DIGEST, TAG, label_text
from gramwatt.service.store.models import Job, JobLabel
from gramwatt.service.store.people import USER, Person

VALUES_MOST = 500
"""Up to so many different names, models or labels are looked at one by one."""
FEW = 1_000
"""Up to so many jobs with a text or with labels are looked up one by one."""
Condition = sa.ColumnElement[bool]


def found_by(service: Service, text: str) -> Condition:
    """Return what is asked of a row of jobs, so that it is one that `q` of a list finds.

    The session that asks sees to it that the rows are the caller's.
    """
    of_job, of_label = _conditions(service, text)
    ways = [sa.select(Job.id).where(one) for one in of_job]
    ways += [sa.select(JobLabel.job).where(one) for one in of_label]
    # To know its project SQLite would look up the row of every name and label that it reads;
    # PostgreSQL begins with the caller's jobs where these are few.
    store = service.for_every_project().store if service.store.is_sqlite else service.store
    with store.read() as session:
        few = list(session.scalars(sa.union_all(*ways).limit(FEW + 1)))
    if len(few) <= FEW:
        return Job.id.in_(set(few))
    # Of many, a walk through the jobs in order soon has a page.
    labelled = [sa.select(JobLabel.job).where(JobLabel.job == Job.id, one) for one in of_label]
    return sa.or_(*of_job, *(one.offset(0).correlate(Job).exists() for one in labelled))


def _conditions(service: Service, text: str) -> tuple[list[Condition], list[Condition]]:
    """Return conditions on a job, joined by OR, and on one of its labels."""
    plain = text.replace("/", "//").replace("%", "/%").replace("_", "/_")
    # SQLite's LIKE knows the case of the letters a to z alone.
    glob = _glob(text) if service.store.is_sqlite and not text.isascii() else None

    of_user = label_text(TAG, f"{USER}:")

    def within(column: sa.ColumnElement[str]) -> Condition:
        if glob is not None:
            return column.op("GLOB")(f"*{glob}*")
        return column.icontains(text, autoescape=True)

    def is_tag(label: sa.ColumnElement[str]) -> Condition:
        found = label.ilike(f"{TAG}:%{plain}%", escape="/")
        if glob is not None:
            found = label.op("GLOB")(f"{TAG}:*{glob}*")
        return sa.and_(found, label.not_like(f"{label_text(TAG, '')}{DIGEST}%"))

    def is_plain_tag(label: sa.ColumnElement[str]) -> Condition:
        return sa.and_(is_tag(label), label.not_like(f"{of_user}%"))

    # A caller who sees some projects would walk through the values of the others, row by row.
    with service.for_every_project().store.read() as session:
        of_name = _having(session, Job.name, within)
        of_model = _having(session, Job.model_id, within)
        named = sa.select(Person.alias).where(is_tag(sa.literal(of_user) + Person.name))
        users = [f"{of_user}{alias}" for alias in session.scalars(named)]
        of_label = _having(session, JobLabel.label, is_plain_tag)
        return (
            [_begins_id(text), *of_name, *of_model],
            [*of_label, *([JobLabel.label.in_(users)] if users else [])],
        )


def _begins_id(text: str) -> Condition:
    # The first finds it by the index of PostgreSQL; the second, because SQLite's ignores case.
    begins = Job.job_id.startswith(text, autoescape=True)
    return sa.and_(begins, sa.func.substr(Job.job_id, 1, len(text)) == text)


def _glob(text: str) -> str:
    """Return the GLOB pattern of SQLite for a text, whatever the case of its letters."""
    pattern = ""
    for one in text:
        cases = {one, one.lower(), one.upper(), one.upper().lower()}
        same = "".join(sorted(case for case in cases if len(case) == 1))
        pattern += f"[{same}]" if len(same) > 1 or same in "*?[" else same
    return pattern


def _having(
    session: Session,
    column: InstrumentedAttribute[Any],
    matches: Callable[[Any], Condition],
) -> list[Condition]:
    """Return what a row is asked, so that its value matches; nothing where no value does."""
    values = _matching(session, column, matches)
    if values is None:
        return [matches(column)]
    return [column.in_(values)] if values else []


def _matching(
    session: Session,
    column: InstrumentedAttribute[Any],
    matches: Callable[[Any], Condition],
) -> Sequence[str] | None:
    """Return the values of the column that match; None where it has more than `VALUES_MOST`.

    Each value costs one search of the column's index.
    """
    met = sa.select(sa.func.min(column).label("value")).cte("met", recursive=True)
    following = sa.select(sa.func.min(column)).where(column > met.c.value)
    met = met.union_all(
        sa.select(following.correlate(met).scalar_subquery()).where(met.c.value.is_not(None))
    )
    wanted = sa.select(met.c.value, matches(met.c.value)).where(met.c.value.is_not(None))
    rows = session.execute(wanted.limit(VALUES_MOST + 1)).all()
    return [value for value, found in rows if found] if len(rows) <= VALUES_MOST else None
