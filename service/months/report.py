"""Monthly reports: sums of the jobs' parts; those of ended months are kept as revisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.analysis.documents import BudgetUse, ExcludedDoc, MonthDoc
from gramwatt.sci.analysis.month import (
    Pending,
    pending_doc,
    previous_month,
)
from gramwatt.sci.analysis.trail import DeletedRow
from gramwatt.service.access.projects import one_project
from gramwatt.service.common.errors import BusyError, NoDataError
from gramwatt.service.container import Service
from gramwatt.service.months import revisions
from gramwatt.service.months.history import (
    Fields,
    followed,
    months_before,
    revised,
    trend,
)
from gramwatt.service.months.pending import (
    deleted_jobs,
    pending_jobs,
    pending_keys,
)
from gramwatt.service.months.rescoring import jobs_to_rescore
from gramwatt.service.months.spending import budget_uses
from gramwatt.service.months.stored import MonthStore, Rows, store_sums
from gramwatt.service.months.sums.keeping import versions
from gramwatt.service.store.documents import read_month, to_text
from gramwatt.service.store.models import Job, JobMonth, is_pending
from gramwatt.service.store.people import with_names
from gramwatt.service.store.timestamps import from_us, text_from_us

RUNNING_MONTHS = 36
"""Months before now that a running job may be in: one that says it began long ago adds no more."""
MONTH = r"(19|20|21)\d\d-(0[1-9]|1[0-2])"
"""A month as it is written, YYYY-MM."""
TRIES = 5
"""How often a report is made again because another process kept one meanwhile."""


def month_report(
    service: Service,
    month: str,
    project: str | None = None,
    *,
    revision: int | None = None,
    names: bool = True,
) -> MonthDoc:
    """Return the report of a month as `month_text` does, parsed."""
    return read_month(month_text(service, month, project, revision=revision, names=names))


def month_text(
    service: Service,
    month: str,
    project: str | None = None,
    *,
    revision: int | None = None,
    nil: bool = False,
    names: bool = True,
) -> str:
    """Return the report of a month as compact JSON; nothing is written.

    Where the newest kept revision still says the same, it is that; else `revision` is null. With
    `revision`, the report that was kept under that number. A caller who is bound to projects has
    the report of one of them. Raises NoDataError for a month without a job; with `nil`, only for
    one that has not begun and for an unknown project, and the report of no job is nil.
    Without `names` people have their aliases, as jobs were scored.
    """
    project = one_project(service, project, month)
    service = service.for_every_project()
    if revision is not None:
        text = revisions.kept(service, month, project, revision)
        with service.store.read() as session:
            return with_names(session, text) if names else text
    with service.store.read() as session:
        newest = revisions.newest(session, month, project)
        if nil and newest is None:
            _require_begun(service, session, month, project)
        known = nil or newest is not None
        advised_from = previous_month(month)  # whose suggestions the report follows
        others = months_before(month)
        found = _found(service, session, month, project, others, known, advised_from)
        text, _ = _text(service, session, found, newest)
        return with_names(session, text) if names else text


def keep_month(service: Service, month: str, project: str | None = None) -> str:
    """Return the report of a month like `month_text`; that of a complete month is kept.

    It becomes the next revision where it says something else than the newest one. Of processes
    that keep the same report at once one does. Of a month without a job the report is nil; raises
    NoDataError for one that has not begun, and for an unknown project.
    """
    project = one_project(service, project, month)
    service = service.for_every_project()
    text = _kept(service, month, project)
    with service.store.read() as session:
        return with_names(session, text)


def _kept(service: Service, month: str, project: str | None) -> str:
    for _ in range(TRIES):
        with service.store.read() as session:
            newest = revisions.newest(session, month, project)
            if newest is None:
                _require_begun(service, session, month, project)
            found = _found(service, session, month, project, months_before(month), known=True)
            text, is_new = _text(service, session, found, newest)
            jobs = revisions.job_rows(session, month, project)
        store_sums(service, found.new)
        if not found.complete:
            return text
        if not is_new:
            assert newest is not None  # what is not new was kept
            revisions.still_holds(service, newest, found.made_of)
            return text
        number = newest.revision + 1 if newest else 1
        text = _issued(text, number, text_from_us(service.now_us()))
        if revisions.keep(service, month, project, number, text, found.made_of, jobs):
            return text
    raise BusyError(f"the report of {month} is being kept by others; ask again")


def sum_month(service: Service, month: str, project: str | None = None) -> None:
    """Store the sums of a month, so that its reports need not make them."""
    service = service.for_every_project()
    with service.store.read() as session:
        found = _found(service, session, month, project, (), known=True)
    store_sums(service, found.new)


@dataclass(frozen=True)
class _Found:
    """What the store has of a month: its sums, those of months before, and jobs in no sum."""

    month: str
    project: str | None
    fields: Fields
    sums: Mapping[str, Fields]
    new: Rows
    made_of: str
    running: Sequence[Pending]
    unscored: Sequence[Pending]
    excluded: Sequence[ExcludedDoc]
    deletions: Sequence[DeletedRow]
    rescoring: int
    complete: bool
    open_months: Sequence[str]
    budgets: Sequence[BudgetUse]


def _found(
    service: Service,
    session: Session,
    month: str,
    project: str | None,
    others: Sequence[str],
    known: bool,
    advised_from: str = "",
) -> _Found:
    """Read the month and what its report says of `others`; raises NoDataError unless `known`.

    With `advised_from`, months before it that are not stored are summed without suggestions.
    """
    now_us = service.now_us()
    pending = pending_keys(session)
    running, unscored, excluded = pending_jobs(service, session, month, project, pending)
    # A month that its jobs have left goes on answering once it was reported.
    if not (known or running or unscored or excluded):
        _require_parts(session, month, project)
    stored = MonthStore(service, session, (month, *others), project, pending, advised_from)
    older = stored.briefs(others)
    fields = _fields(stored.sums(month))
    sums: dict[str, Fields] = {**older, month: fields}
    rescoring = jobs_to_rescore(service, session, (month, *others), project)
    ended = now_us >= service.month_span_us(month)[1]
    complete = ended and not (running or unscored or rescoring)
    first_us = min(pending.values(), default=now_us)
    open_months = [one for one in sums if one != month and first_us < service.month_span_us(one)[1]]
    return _Found(
        month=month,
        project=project,
        fields=fields,
        sums=sums,
        new=stored.new,
        made_of=stored.made_of(month),
        running=running,
        unscored=unscored,
        excluded=[*msgspec.json.decode(fields["excluded"]), *excluded],
        deletions=deleted_jobs(service, session, month, project),
        rescoring=rescoring,
        complete=complete,
        open_months=open_months if complete else [*open_months, month],
        budgets=budget_uses(service, session, month, project) if others else [],
    )


def _require_parts(session: Session, month: str, project: str | None) -> None:
    """Raise NoDataError for a month that no scored or excluded job has a part of."""
    if not versions(session, (month,), project):
        raise NoDataError(f"no job {f'of project {project!r} ' if project else ''}in {month}")


def _require_begun(service: Service, session: Session, month: str, project: str | None) -> None:
    """Raise NoDataError for a month that has not begun, or a project that never had a job."""
    if service.now_us() < service.month_span_us(month)[0]:
        raise NoDataError(f"{month} has not begun")
    known = sa.select(Job.id).where(Job.project == project).limit(1)
    if project is not None and session.scalar(known) is None:
        raise NoDataError(f"no job of project {project!r} in {month}, nor in any other month")


def _text(
    service: Service, session: Session, found: _Found, newest: revisions.Kept | None
) -> tuple[str, bool]:
    """Return the report as compact JSON, and whether no kept revision says the same."""
    fields = {**found.fields, **_raw(_beside(service, found))}
    text = _written(fields, "null")
    if not found.complete or newest is None:
        return text, True
    before = _fields(newest.doc)
    if revisions.says_the_same(newest.doc, text):
        # Another factor of the memo is no other report.
        if before[revisions.MEMO] == fields[revisions.MEMO]:
            return newest.doc, False
        return _encoded({**before, revisions.MEMO: fields[revisions.MEMO]}), False
    reasons = revisions.reasons(session, newest, found.month, found.project)
    return _written(fields, revised(newest.revision, before, reasons)), True


def _beside(service: Service, found: _Found) -> dict[str, Any]:
    """Fields of the document that are not sums over its scored jobs."""
    return {
        "month": found.month,
        "project": found.project,
        "complete": found.complete,
        "trend": trend(found.sums, found.open_months),
        "budgets": found.budgets,
        "followed": followed(found.sums.get(previous_month(found.month)), found.fields),
        "statement": service.config.reports.statement(),
        "jobs_running": pending_doc(found.running),
        "jobs_unscored": pending_doc(found.unscored),
        "jobs_to_rescore": found.rescoring,
        "excluded": found.excluded,
        "deleted": len(found.deletions),
        "deletions": found.deletions,
    }


def _fields(text: str) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(text, type=dict[str, msgspec.Raw])


def _raw(fields: Mapping[str, Any]) -> dict[str, msgspec.Raw]:
    return {name: msgspec.Raw(to_text(value).encode()) for name, value in fields.items()}


def _written(fields: Fields, revised: str) -> str:
    """Return the document without a revision as compact JSON, with its fields in their order."""
    texts = {"revised": revised, "revision": "null", "issued_at": "null"}
    whole = {**fields, **{name: msgspec.Raw(text.encode()) for name, text in texts.items()}}
    return _encoded({name: whole[name] for name in MonthDoc.__struct_fields__})


def _encoded(fields: Mapping[str, Any]) -> str:
    return msgspec.json.encode(fields).decode()


def _issued(text: str, revision: int, issued_at: str) -> str:
    """Return the document with the number and time of its revision."""
    return _encoded({**_fields(text), "revision": revision, "issued_at": issued_at})


def months_with_data(service: Service) -> list[str]:
    """Return every month (YYYY-MM) with a part of a job, newest first; of an unscored one its
    first, and of a running one up to RUNNING_MONTHS before now, whatever start it declares.
    """
    now = service.month_now()
    with service.store.read() as session:
        found = set(_months(session))
        began = session.execute(sa.select(Job.started_us, Job.state).where(is_pending())).all()
    for started_us, state in began:
        first = service.month_of(from_us(started_us))
        if state == "running":  # one that says it begins later is in no month yet
            latest = now, *months_before(now, RUNNING_MONTHS), first
            found.update(month for month in latest if first <= month <= now)
        else:
            found.add(first)
    return sorted(found, reverse=True)


def _months(session: Session) -> Iterator[str]:
    """Yield every month with a part of a scored job; each costs one search of the index."""
    month = session.scalar(sa.select(sa.func.min(JobMonth.month)))
    while month is not None:
        yield month
        month = session.scalar(sa.select(sa.func.min(JobMonth.month)).where(JobMonth.month > month))
