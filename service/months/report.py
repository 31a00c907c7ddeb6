"""Monthly reports: sums of the jobs' parts, stored while they hold; those of ended months kept."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from gramwatt.service.access.projects import one_project
from gramwatt.service.common.errors import NoDataError, StillSummingError
from gramwatt.service.container import Service
from gramwatt.service.months.history import (
    Fields,
    budget_uses,
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
from gramwatt.service.months.revisions import keep, keep_instead, kept, newest, still_said
from gramwatt.service.months.stored import MonthStore, Rows, store_sums
from gramwatt.service.months.sums.filling import fill_parts, is_missing
from gramwatt.service.months.sums.keeping import versions
from gramwatt.service.store.documents import read_month, to_text
from gramwatt.service.store.models import (
    Job,
    JobMonth,
    is_pending,
)
from gramwatt.service.store.timestamps import from_us

MONTH = r"(19|20|21)\d\d-(0[1-9]|1[0-2])"
"""A month as it is written, YYYY-MM."""


def month_report(
    service: Service,
    month: str,
    project: str | None = None,
    *,
    revision: int | None = None,
    wait_s: float | None = None,
) -> MonthDoc:
    """The report of a month; raises NoDataError. That of a complete month is kept as a revision.

    Jobs of an earlier release are added to the months first. Raises StillSummingError where that
    takes longer than `wait_s`; without it, this waits. A caller who is bound to projects has the
    report of one of them.
    """
    text = month_text(service, month, project, revision=revision, wait_s=wait_s)
    return read_month(text)


def month_text(
    service: Service,
    month: str,
    project: str | None = None,
    *,
    revision: int | None = None,
    wait_s: float | None = None,
) -> str:
    """The same as compact JSON: stored sums are passed on as they are, without reading them.

    With `revision`, the report that was kept under that number; raises NoDataError for none.
    """
    project = one_project(service, project, month)
    service = service.for_every_project()
    if revision is not None:
        return kept(service, month, project, revision)
    with _filled(service, wait_s) as session:
        found = _found(service, session, month, project, months_before(month))
    store_sums(service, found.new)
    fields = {**found.fields, **_raw(_beside(service, found))}
    reported = found.reported
    if not found.complete:
        return _written(fields, None, "null")
    before = _fields(reported) if reported else {}
    text = _written(fields, found.revision, bytes(before.get("revised", b"null")).decode())
    if text == reported:
        return text
    same = still_said(reported, text) if reported is not None else None
    if same is not None:
        if same != reported:
            keep_instead(service, month, project, same)
        return same
    text = _written(fields, found.revision + 1, revised(found.revision, before))
    keep(service, month, project, text)
    return text


def month_sums(service: Service, month: str, project: str | None = None) -> dict[str, Any] | None:
    """`totals`, `previous`, `days`, `jobs_unscored` and `jobs_running` of a month.

    None where it has no job. They are those of the report, without what that says of other months.
    """
    service = service.for_every_project()
    try:
        with _filled(service, None) as session:
            found = _found(service, session, month, project, ())
    except NoDataError:
        return None
    store_sums(service, found.new)
    read = {
        name: msgspec.json.decode(found.fields[name]) for name in ("totals", "previous", "days")
    }
    return {
        **read,
        "jobs_unscored": pending_doc(found.unscored),
        "jobs_running": pending_doc(found.running),
    }


@dataclass(frozen=True)
class _Found:
    """What the store has of a month: its sums, those of months before, and jobs in no sum."""

    month: str
    project: str | None
    fields: Fields
    sums: Mapping[str, Fields]
    new: Rows
    running: Sequence[Pending]
    unscored: Sequence[Pending]
    excluded: Sequence[ExcludedDoc]
    deleted: int
    reported: str | None
    revision: int
    complete: bool
    open_months: Sequence[str]
    budgets: Sequence[BudgetUse]


def _found(
    service: Service, session: Session, month: str, project: str | None, others: Sequence[str]
) -> _Found:
    now_us = service.now_us()
    pending = pending_keys(session)
    running, unscored, excluded = pending_jobs(service, session, month, project, pending)
    # A month that its jobs have left goes on answering once it was reported.
    reported, revision = newest(session, month, project)
    if reported is None and not (running or unscored or excluded):
        _require_parts(session, month, project)
    stored = MonthStore(service, session, (month, *others), project, pending)
    # Those of the month before come first: they leave what this one is compared with.
    older = stored.briefs(others)
    fields = _fields(stored.sums(month))
    refused = msgspec.json.decode(fields["refused"])
    unscored += [Pending(job_id, name, of, {}) for job_id, name, of in refused]
    sums: dict[str, Fields] = {**older, month: fields}
    complete = now_us >= service.month_span_us(month)[1] and not running and not unscored
    first_us = min(pending.values(), default=now_us)
    open_months = [one for one in sums if one != month and first_us < service.month_span_us(one)[1]]
    return _Found(
        month=month,
        project=project,
        fields=fields,
        sums=sums,
        new=stored.new,
        running=running,
        unscored=unscored,
        excluded=[*msgspec.json.decode(fields["excluded"]), *excluded],
        deleted=deleted_jobs(service, session, month, project),
        reported=reported,
        revision=revision,
        complete=complete,
        open_months=open_months if complete else [*open_months, month],
        budgets=budget_uses(session, month, project, fields) if others else [],
    )


def _require_parts(session: Session, month: str, project: str | None) -> None:
    """Raise NoDataError for a month that no scored or excluded job has a part of."""
    if not versions(session, (month,), project):
        raise NoDataError(f"no job {f'of project {project!r} ' if project else ''}in {month}")


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
        "excluded": found.excluded,
        "deleted": found.deleted,
    }


def _fields(text: str) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(text, type=dict[str, msgspec.Raw])


def _raw(fields: Mapping[str, Any]) -> dict[str, msgspec.Raw]:
    return {name: msgspec.Raw(to_text(value).encode()) for name, value in fields.items()}


def _written(fields: Fields, revision: int | None, revised: str) -> str:
    """The document as compact JSON, with its fields in their order."""
    own = {"revision": to_text(revision), "revised": revised}
    whole = {**fields, **{name: msgspec.Raw(text.encode()) for name, text in own.items()}}
    return msgspec.json.encode({name: whole[name] for name in MonthDoc.__annotations__}).decode()


@contextmanager
def _filled(service: Service, wait_s: float | None) -> Iterator[Session]:
    """A session that reads the parts of every job; raises StillSummingError where some lack."""
    with service.store.read() as session:
        if not is_missing(session):
            yield session
            return
    ends = math.inf if wait_s is None else time.monotonic() + wait_s
    fill_parts(service, lambda: time.monotonic() < ends)
    with service.store.read() as session:
        if is_missing(session):
            raise StillSummingError(
                "the jobs of an earlier release are still being added to the months; "
                "ask again in a minute"
            )
        yield session


def months_with_data(service: Service) -> list[str]:
    """Every month (YYYY-MM) with a part of a job, newest first; of an unscored one its first."""
    now = service.month_now()
    with service.store.read() as session:
        found = set(_months(session))
        began = session.execute(sa.select(Job.started_us, Job.state).where(is_pending())).all()
    for started_us, state in began:
        first = service.month_of(from_us(started_us))
        month = now if state == "running" else first
        while month >= first:
            found.add(month)
            month = previous_month(month)
    return sorted(found, reverse=True)


def _months(session: Session) -> Iterator[str]:
    """Every month with a part of a scored job; each costs one search of the index."""
    month = session.scalar(sa.select(sa.func.min(JobMonth.month)))
    while month is not None:
        yield month
        month = session.scalar(sa.select(sa.func.min(JobMonth.month)).where(JobMonth.month > month))
