"""Monthly reports: the sums of a month beside what the store and its settings know of it.

The reports of ended months are kept as revisions.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy.orm import Session

from gramwatt.sci.figures.days import day_of
from gramwatt.sci.month.document import Beside, TrendSums, month_document, months_before
from gramwatt.sci.month.documents import MonthDoc, MonthSums
from gramwatt.sci.month.month import pending_doc, previous_month
from gramwatt.sci.month.yearly import YearDoc, months_of_year, year_document, year_totals
from gramwatt.service.access.projects import one_project
from gramwatt.service.common.errors import BusyError, NoDataError
from gramwatt.service.container import Service
from gramwatt.service.months import revisions
from gramwatt.service.months.cache import month_advice, month_sums
from gramwatt.service.months.pending import (
    deleted_jobs,
    jobs_to_rescore,
    pending_jobs,
    pending_keys,
)
from gramwatt.service.months.rows import changes_of
from gramwatt.service.months.spending import budget_uses
from gramwatt.service.store.columns import from_us, read_month, to_text
from gramwatt.service.store.models import Job, is_pending
from gramwatt.service.store.months import JobMonth
from gramwatt.service.store.people import with_names

RUNNING_MONTHS = 36
"""Months before now that a running job may be in: one that says it began long ago adds no more."""
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
    """Return the report of a month as compact JSON; no report is kept.

    Where the newest kept revision still says the same, it is that; else `revision` is null. With
    `revision`, the report that was kept under that number. A caller who is bound to projects has
    the report of one of them. Raises NoDataError for a month without a job; with `nil`, only for
    one that has not begun and for an unknown project, and the report of no job is nil.
    Without `names` people have their aliases, as jobs were scored.
    """
    project = one_project(service, project, month)
    service = service.for_every_project()
    with service.store.read() as session:
        if revision is not None:
            report = revisions.kept(session, month, project, revision)
            return with_names(session, report.doc) if names else report.doc
        newest = revisions.newest(session, month, project)
        changes = changes_of(session, month, project)
    document = read_now(service, month, project, nil=nil, known=newest is not None)
    text = to_text(document)
    if newest is not None and document.complete and newest.changes == changes:
        text = _as_kept(newest.doc, document)
    with service.store.read() as session:
        return with_names(session, text) if names else text


def month_alone(service: Service, month: str, project: str | None, *, advised: bool) -> MonthDoc:
    """Return the report of a month without what it has of other months: for the sums of a year.

    Where the newest kept revision still says the same, it is that. While jobs of the month are
    scored again its sums are those that are kept: they change with each job. Only one to be
    `advised` has advice. Raises NoDataError for a month without a job.
    """
    service = service.for_every_project()
    with service.store.read() as session:
        newest = revisions.newest(session, month, project)
        changes = changes_of(session, month, project)
        beside = _beside(service, session, month, project, (month, *months_before(month)))
        if newest is not None and beside.complete and newest.changes == changes:
            return read_month(with_names(session, newest.doc))
    own = month_sums(service, (month,), project, MonthSums, as_kept=bool(beside.rescoring))
    sums = own.get(month)
    if sums is None or not (sums.totals.jobs or sums.excluded):
        if not (newest or beside.has_jobs):
            raise NoDataError(f"no job in {month}")
        sums = sums or _no_sums(month, project)
    if advised:
        beside = replace(beside, advice=month_advice(service, sums))
    text = to_text(month_document(sums, None, {}, beside))
    with service.store.read() as session:
        return read_month(with_names(session, text))


def _no_sums(month: str, project: str | None) -> MonthSums:
    from gramwatt.service.months.sums import sum_month  # loads numpy

    return sum_month(lambda *_: (), month, project)


def _as_kept(text: str, document: MonthDoc) -> str:
    """Return a kept report with today's memo: another factor there does not make a revision."""
    before = read_month(text)
    if before.market_based == document.market_based:
        return text
    memo = {"market_based": document.market_based}
    return to_text(msgspec.structs.replace(before, **memo))


def keep_month(service: Service, month: str, project: str | None = None) -> str:
    """Return the report of a month like `month_text`; that of a complete month is kept.

    It becomes the next revision where its jobs differ from those of the newest one. Of processes
    that keep the same report at once one does. Of a month without a job the report is nil; raises
    NoDataError for one that has not begun, and for an unknown project.
    """
    project = one_project(service, project, month)
    service = service.for_every_project()
    text: str | None = None
    for _ in range(TRIES):
        with service.store.read() as session:
            newest = revisions.newest(session, month, project)
            changes = changes_of(session, month, project)
        document = read_now(service, month, project, nil=True, known=newest is not None)
        if not document.complete:
            text = to_text(document)
        elif newest is not None and newest.changes == changes:
            text = _as_kept(newest.doc, document)
        else:
            text = revisions.keep(service, document, newest, changes)
        if text is not None:
            break
    if text is None:
        raise BusyError(f"the report of {month} is being kept by others; ask again")
    with service.store.read() as session:
        return with_names(session, text)


def read_now(
    service: Service,
    month: str,
    project: str | None = None,
    *,
    nil: bool = False,
    known: bool = False,
) -> MonthDoc:
    """Return the report of a month as it is, without a revision; for a caller of every project.

    Raises NoDataError for a month without a job; with `nil`, only for one that has not begun and
    for an unknown project. One that is `known` had jobs.
    """
    others = months_before(month)
    sums = month_sums(service, (month, others[0]), project, MonthSums)
    older = month_sums(service, others[1:], project, TrendSums)
    with service.store.read() as session:
        beside = _beside(service, session, month, project, (month, *others))
        own = sums.get(month)
        if own is None or not (own.totals.jobs or own.excluded):
            known = known or beside.has_jobs
            if not (nil or known):
                of = f"of project {project!r} " if project else ""
                raise NoDataError(f"no job {of}in {month}")
            if not known:
                _require_begun(service, session, month, project)
    if own is None:
        own = _no_sums(month, project)
    before = sums.get(previous_month(month))
    suggested = month_advice(service, before).advice if before is not None else []
    beside = replace(beside, advice=month_advice(service, own), suggested=suggested)
    trend: dict[str, MonthSums | TrendSums] = {**older}
    if before is not None:
        trend[before.month] = before
    return month_document(own, before, trend, beside)


def _beside(
    service: Service, session: Session, month: str, project: str | None, months: tuple[str, ...]
) -> Beside:
    """Return what the sums of a month do not hold; `months` are the trend's."""
    now_us, pending = service.now_us(), pending_keys(session)
    running, unscored, excluded = pending_jobs(service, session, month, project, pending)
    rescoring = jobs_to_rescore(service, session, months, project)
    ended = now_us >= service.month_span_us(month)[1]
    complete = ended and not (running or unscored or rescoring)
    first_us = min(pending.values(), default=now_us)
    open_months = [of for of in months[1:] if first_us < service.month_span_us(of)[1]]
    return Beside(
        complete=complete,
        days=whole_days(service, month),
        open_months=open_months if complete else [month, *open_months],
        running=pending_doc(running),
        unscored=pending_doc(unscored),
        rescoring=rescoring,
        excluded=excluded,
        deletions=deleted_jobs(service, session, month, project),
        budgets=budget_uses(service, session, month, project),
        market_factors=service.config.reports.market_factors,
        statement=service.config.reports.statement(),
    )


def whole_days(service: Service, month: str) -> int | None:
    """Return how many whole days of a month in progress are over; None for any other month."""
    if month != service.month_now():
        return None
    return day_of(service.now(), service.config.zone).day - 1


def _require_begun(service: Service, session: Session, month: str, project: str | None) -> None:
    """Raise NoDataError for a month that has not begun, or a project that never had a job."""
    if service.now_us() < service.month_span_us(month)[0]:
        raise NoDataError(f"{month} has not begun")
    statement = sa.select(Job.id).where(Job.project == project).limit(1)
    if project is not None and session.scalar(statement) is None:
        raise NoDataError(f"no job of project {project!r} in {month}, nor in any other month")


def months_with_data(service: Service) -> list[str]:
    """Return every month (YYYY-MM) with a part of a job, newest first; of an unscored one its
    first, and of a running one up to RUNNING_MONTHS before now, whatever start it declares.
    """
    now = service.month_now()
    with service.store.read() as session:
        months = set(_months(session))
        began = session.execute(sa.select(Job.started_us, Job.state).where(is_pending())).all()
    for started_us, state in began:
        first = service.month_of(from_us(started_us))
        if state == "running":  # one that says it begins later is in no month yet
            latest = now, *months_before(now, RUNNING_MONTHS), first
            months.update(month for month in latest if first <= month <= now)
        else:
            months.add(first)
    return sorted(months, reverse=True)


def _months(session: Session) -> Iterator[str]:
    """Yield every month with a part of a scored job; each costs one search of the index."""
    month = session.scalar(sa.select(sa.func.min(JobMonth.month)))
    while month is not None:
        yield month
        month = session.scalar(sa.select(sa.func.min(JobMonth.month)).where(JobMonth.month > month))


def year_report(service: Service, year: str, project: str | None = None) -> YearDoc:
    """Return the report of a year; nothing is written. Raises NoDataError."""
    project = one_project(service, project, f"{year}-12")
    months = _months_of(service, year, project)
    if not months:
        raise NoDataError(f"no job {f'of project {project!r} ' if project else ''}in {year}")
    now_us, settings = service.now_us(), service.config.reports
    over = {month: now_us >= service.month_span_us(month)[1] for month in months_of_year(year)}
    base = None
    if settings.base_year is not None and settings.base_year != int(year):
        before = _months_of(service, f"{settings.base_year}", project)
        base = settings.base_year, year_totals(list(before.values()))
    return year_document(year, project, months, over, base, settings.targets, settings.statement())


def _months_of(service: Service, year: str, project: str | None) -> dict[str, MonthDoc]:
    """Return the reports of the months of a year that have data, the newest with its advice."""
    documents: dict[str, MonthDoc] = {}
    for month in reversed(months_of_year(year)):
        try:
            documents[month] = month_alone(service, month, project, advised=not documents)
        except NoDataError:
            continue
    return dict(sorted(documents.items()))
