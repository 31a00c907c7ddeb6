"""Monthly reports: sums of the jobs' parts, stored while they hold; those of ended months kept."""

from __future__ import annotations

import json
import math
import time
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt import __version__
from gramwatt.sci.analysis.month import (
    Pending,
    excluded_row,
    pending_doc,
    previous_month,
)
from gramwatt.sci.base.document import ExcludedDoc, MonthDoc
from gramwatt.sci.base.month_rows import BudgetUse
from gramwatt.service.config import EACH_PROJECT
from gramwatt.service.container import Service
from gramwatt.service.rollups.filling import fill_parts, is_missing
from gramwatt.service.rollups.keeping import ALL, versions
from gramwatt.service.rollups.part import EXCLUDED, REFUSED
from gramwatt.service.store.documents import read_head, read_month, to_text
from gramwatt.service.store.models import (
    Job,
    JobMonth,
    MonthlyReport,
    MonthSum,
    is_pending,
)
from gramwatt.service.store.timestamps import from_us
from gramwatt.service.store.upserts import upsert
from gramwatt.service.usecases.access.projects import one_project
from gramwatt.service.usecases.errors import NoDataError, StillSummingError
from gramwatt.service.usecases.months.beside import (
    Fields,
    brief,
    budget_uses,
    followed,
    months_before,
    revised,
    trend,
)
from gramwatt.service.usecases.months.kept import keep, keep_instead, kept, newest, still_said
from gramwatt.service.usecases.months.pending import (
    deleted_jobs,
    left_out_jobs,
    pending_jobs,
    pending_keys,
)
from gramwatt.service.usecases.months.summed import summed, trend_fields

MONTH = r"(19|20|21)\d\d-(0[1-9]|1[0-2])"
"""A month as it is written, YYYY-MM."""
TREND_ONLY = ""
"""What stands for the sums of a month of which only what a trend shows is stored."""
LATE_MONTHS = 3
"""Ended months whose reports are made again by themselves when late data change them."""


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
    _fill(service, wait_s)
    with service.store.read() as session:
        found = _found(service, session, month, project, months_before(month))
    _store_sums(service, found.new)
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
    """`totals`, `previous`, `days` and `jobs_unscored` of a month; None where it has no job.

    They are those of the report, without what that says of other months.
    """
    service = service.for_every_project()
    _fill(service, None)
    try:
        with service.store.read() as session:
            found = _found(service, session, month, project, ())
    except NoDataError:
        return None
    _store_sums(service, found.new)
    read = {
        name: msgspec.json.decode(found.fields[name]) for name in ("totals", "previous", "days")
    }
    return {**read, "jobs_unscored": pending_doc(found.unscored)}


@dataclass(frozen=True)
class _Found:
    """What the store has of a month: its sums, those of months before, and jobs in no sum."""

    month: str
    project: str | None
    fields: Fields
    sums: Mapping[str, Fields]
    new: Sequence[dict[str, str]]
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
    text, row = _sums(service, session, month, project, list(pending))
    fields, new = _fields(text), [row] if row else []
    refused = msgspec.json.decode(fields["refused"])
    unscored += [Pending(job_id, name, of, {}) for job_id, name, of in refused]
    sums: dict[str, Fields] = {month: fields}
    if others:
        older, rows = _briefs(service, session, others, project, list(pending))
        sums, new = {**older, **sums}, [*new, *rows]
    complete = now_us >= service.month_span_us(month)[1] and not running and not unscored
    first_us = min(pending.values(), default=now_us)
    open_months = [one for one in sums if one != month and first_us < service.month_span_us(one)[1]]
    return _Found(
        month=month,
        project=project,
        fields=fields,
        sums=sums,
        new=new,
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


def _fill(service: Service, wait_s: float | None) -> None:
    with service.store.read() as session:
        if not is_missing(session):
            return
    ends = math.inf if wait_s is None else time.monotonic() + wait_s
    fill_parts(service, lambda: time.monotonic() < ends)
    with service.store.read() as session:
        if is_missing(session):
            raise StillSummingError(
                "the jobs of an earlier release are still being added to the months; "
                "ask again in a minute"
            )


def _sums(
    service: Service, session: Session, month: str, project: str | None, pending: Sequence[int]
) -> tuple[str, dict[str, str] | None]:
    """The sums of the month: those that are stored while they hold, else new ones to store."""
    months = (month, previous_month(month))
    left_out = left_out_jobs(session, months, pending)
    known = versions(session, months, project)
    made_of = _made_of(service, known, left_out)
    stored = session.get(MonthSum, (month, project or ALL))
    if stored is not None and stored.made_of == made_of and stored.doc != TREND_ONLY:
        return stored.doc, None
    fields = summed(service, session, months, project, left_out)
    refused, excluded = _refused(session, month, project), _excluded(session, month, project)
    sums = to_text({**fields, "refused": refused, "excluded": excluded})
    if month not in known:
        return sums, None
    row = {"month": month, "project": project or ALL, "made_of": made_of, "doc": sums}
    return sums, {**row, "brief": brief(fields)}


def _made_of(service: Service, known: Mapping[str, int], left_out: Mapping[str, list[int]]) -> str:
    # A build between two releases has the version of the one before, and may know more fields.
    layout = zlib.crc32(" ".join(MonthDoc.__annotations__).encode())
    engine = [__version__, layout, service.catalog.version]
    return json.dumps([known, left_out, *engine], sort_keys=True)


def _briefs(
    service: Service,
    session: Session,
    months: Sequence[str],
    project: str | None,
    pending: Sequence[int],
) -> tuple[dict[str, Fields], list[dict[str, str]]]:
    """What is kept of those of these months, the latest first, that have a job; and what to store.

    Of the latest, whose advice is followed, all sums are made; of the others what a trend shows.
    """
    around = sorted({*months, *map(previous_month, months)})
    known, left_out = versions(session, around, project), left_out_jobs(session, around, pending)
    stored = _stored(session, months, project)
    found: dict[str, Fields] = {}
    new = []
    for month in (month for month in months if month in known):
        made_of = _made_of_month(service, month, known, left_out)
        old, text, has_sums = stored.get(month, ("", "", False))
        row: dict[str, str] | None = None
        if month == months[0] and not (old == made_of and has_sums):
            _, row = _sums(service, session, month, project, pending)
            assert row is not None  # what is stored does not hold
        elif old != made_of:
            kept = msgspec.json.encode(trend_fields(session, month, project, left_out)).decode()
            row = {"month": month, "project": project or ALL, "made_of": made_of}
            row |= {"doc": TREND_ONLY, "brief": kept}
        if row is not None:
            text = row["brief"]
            new.append(row)
        found[month] = _fields(text)
    return found, new


def _stored(
    session: Session, months: Collection[str], project: str | None
) -> dict[str, tuple[str, str, bool]]:
    """What is stored of these months: what it was made of, `brief`, and whether all sums are."""
    wanted = sa.select(
        MonthSum.month, MonthSum.made_of, MonthSum.brief, MonthSum.doc != TREND_ONLY
    ).where(MonthSum.month.in_(months), MonthSum.project == (project or ALL))
    return {
        month: (made_of, text, whole) for month, made_of, text, whole in session.execute(wanted)
    }


def _made_of_month(
    service: Service,
    month: str,
    known: Mapping[str, int],
    left_out: Mapping[str, list[int]],
) -> str:
    both = (month, previous_month(month))
    return _made_of(
        service,
        {one: known[one] for one in both if one in known},
        {one: left_out[one] for one in both if one in left_out},
    )


def month_made_of(service: Service, month: str, project: str | None) -> str:
    """A text that changes with whatever the sums of a month, and of the one before, are made of."""
    months = (month, previous_month(month))
    with service.for_every_project().store.read() as session:
        left_out = left_out_jobs(session, months, list(pending_keys(session)))
        known = versions(session, months, project)
    return _made_of_month(service, month, known, left_out)


@dataclass(frozen=True, slots=True)
class StoredMonth:
    """What is kept of a month: `brief`, as JSON, "" where nothing is, and whether it holds now.

    `has_sums` is false where only what a trend shows of the month is kept.
    """

    brief: str
    holds: bool
    has_sums: bool


def stored_months(
    service: Service, months: Collection[str], project: str | None
) -> dict[str, StoredMonth]:
    """What is kept of those of the months that have a part of a scored job; nothing is summed.

    Raises NoDataError for a project that the caller does not see.
    """
    project = one_project(service, project, max(months))
    around = sorted({*months, *map(previous_month, months)})
    with service.for_every_project().store.read() as session:
        left_out = left_out_jobs(session, around, list(pending_keys(session)))
        known = versions(session, around, project)
        stored = _stored(session, months, project)
    found = {}
    for month in (month for month in months if month in known):
        old, brief, has_sums = stored.get(month, ("", "", False))
        holds = old == _made_of_month(service, month, known, left_out)
        found[month] = StoredMonth(brief, holds, has_sums)
    return found


def stored_sums(service: Service, month: str, project: str | None) -> str | None:
    """The sums of a month as last stored, as JSON, whether they hold or not; None for none.

    Raises NoDataError for a project that the caller does not see.
    """
    project = one_project(service, project, month)
    with service.for_every_project().store.read() as session:
        stored = session.get(MonthSum, (month, project or ALL))
        return stored.doc or None if stored is not None else None


def _store_sums(service: Service, rows: Sequence[dict[str, str]]) -> None:
    if not rows:
        return
    with service.store.write() as session:
        upsert(session, MonthSum, rows)
        for row in rows:
            wanted = (MonthSum.month == row["month"], MonthSum.project == row["project"])
            session.execute(sa.update(MonthSum).where(*wanted).values(row))


def _marked(session: Session, month: str, project: str | None, use: str) -> Sequence[Job]:
    """The jobs whose part of the month is marked so, in order of their start."""
    wanted = (
        sa.select(Job)
        .join(JobMonth, JobMonth.job == Job.id)
        .where(JobMonth.month == month, JobMonth.use == use, ~is_pending())
        .order_by(Job.started_us, Job.job_id)
    )
    if project is not None:
        wanted = wanted.where(JobMonth.project == project)
    return session.scalars(wanted).all()


def _excluded(session: Session, month: str, project: str | None) -> list[ExcludedDoc]:
    jobs = _marked(session, month, project, EXCLUDED)
    return [excluded_row(read_head(job.head)) for job in jobs]


def _refused(session: Session, month: str, project: str | None) -> list[tuple[str, str, str]]:
    """Id, name and project of jobs whose figures no sum can hold, until they are excluded."""
    jobs = _marked(session, month, project, REFUSED)
    return [(job.job_id, read_head(job.head)["name"], job.project) for job in jobs]


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


def make_missing_reports(service: Service) -> list[tuple[str, str | None]]:
    """Make the reports of complete months without one, and anew where late data changed the last.

    Those over all projects, and of each project that has its own. Returns the months that ended
    last, the newest first, each with None and its projects.
    """
    fill_parts(service)
    now_us = service.now_us()
    ended = [m for m in months_with_data(service) if service.month_span_us(m)[1] <= now_us]
    with service.store.read() as session:
        wanted = [(m, project) for m in ended for project in _reported(service, session, m)]
        kept = session.execute(sa.select(MonthlyReport.month, MonthlyReport.project))
        made = {(month, project) for month, project in kept}
        late = ended[:LATE_MONTHS]
        missing = [(m, p) for m, p in wanted if (m, p or ALL) not in made or m in late]
        pending = pending_keys(session)
        complete = [
            (m, p) for m, p in missing if not any(pending_jobs(service, session, m, p, pending)[:2])
        ]
    for month, project in complete:
        month_text(service, month, project)
    return [(month, project) for month, project in wanted if month in late]


def _reported(service: Service, session: Session, month: str) -> list[str | None]:
    """None, which is all projects, and the projects with a report of the month of their own."""
    chosen = service.config.reports.projects
    if not chosen:
        return [None]
    with_parts = sa.select(JobMonth.project).where(JobMonth.month == month)
    # One that its jobs have left goes on being revised.
    with_report = sa.select(MonthlyReport.project).where(MonthlyReport.month == month)
    found = set(session.scalars(sa.union(with_parts, with_report))) - {ALL}
    return [None, *sorted(found if EACH_PROJECT in chosen else found & chosen)]


def sum_present_month(service: Service) -> None:
    """Bring the stored sums of the present month up to date, of each project and of all."""
    month = service.month_now()
    wanted = sa.select(JobMonth.project).where(JobMonth.month == month).distinct()
    with service.store.read() as session:
        projects = list(session.scalars(wanted))
    for project in (*projects, None) if projects else ():
        month_sums(service, month, project)
