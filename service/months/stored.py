"""Sums of months as the store keeps them: they hold as long as what they were made of does."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt import __version__
from gramwatt.sci.analysis.documents import ExcludedDoc, MonthDoc
from gramwatt.sci.analysis.month import excluded_row, previous_month
from gramwatt.sci.base.days import day_of
from gramwatt.service.access.projects import one_project
from gramwatt.service.container import Service
from gramwatt.service.months.history import Fields, brief
from gramwatt.service.months.pending import left_out_jobs, pending_keys
from gramwatt.service.months.summed import compared_with, summed
from gramwatt.service.months.sums.keeping import ALL, versions
from gramwatt.service.months.sums.part import EXCLUDED
from gramwatt.service.store.documents import read_head, to_text
from gramwatt.service.store.models import Job, JobMonth, MonthSum, is_pending
from gramwatt.service.store.upserts import upsert

if TYPE_CHECKING:  # numpy is loaded where sums are made
    from gramwatt.service.months.sums.previous import PreviousMonth

Rows = Sequence[dict[str, Any]]
"""Rows of MonthSum to store."""


@dataclass(frozen=True, slots=True)
class StoredMonth:
    """What is kept of a month: `brief`, as JSON, "" where nothing is, and whether it holds now."""

    brief: str
    holds: bool


class MonthStore:
    """Sums of months of a project, or of all: those that are stored while they hold, else new ones.

    `months` are those that will be asked for, `pending` the keys of jobs that run or have lines
    without a score. `new` are the rows that `store_sums` is to store. Where nothing will be stored,
    months before `advised_from` that are made lack their suggestions.
    """

    def __init__(
        self,
        service: Service,
        session: Session,
        months: Collection[str],
        project: str | None,
        pending: Collection[int],
        advised_from: str = "",
    ) -> None:
        self._service, self._session, self._project = service, session, project
        self._advised_from = advised_from
        around = sorted({*months, *map(previous_month, months)})
        self._rows: dict[str, dict[str, Any]] = {}
        self._left_out = left_out_jobs(session, around, sorted(pending))
        self._known = versions(session, around, project)
        self._bases: dict[str, PreviousMonth] = {}
        self.new: list[dict[str, Any]] = []

    def sums(self, month: str) -> str:
        """Return the fields of a month's document that are sums over its scored jobs, as JSON."""
        stored = self._session.get(MonthSum, (month, self._project or ALL))
        if stored is not None and stored.made_of == self.made_of(month):
            return stored.doc
        return str(self._make(month)["doc"])

    def briefs(self, months: Sequence[str]) -> dict[str, Fields]:
        """Return what reports of later months need of those of the months that have a job."""
        found: dict[str, Fields] = {}
        # The earlier ones first: a month that is made leaves what the next is compared with.
        for month, kept in sorted(self.stored(months).items()):
            text = kept.brief if kept.holds else self._make(month)["brief"]
            found[month] = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        return found

    def stored(self, months: Collection[str]) -> dict[str, StoredMonth]:
        """Return what is kept of those of these months that have a part of a scored job."""
        wanted = sa.select(MonthSum.month, MonthSum.made_of, MonthSum.brief).where(
            MonthSum.month.in_(sorted(months)), MonthSum.project == (self._project or ALL)
        )
        kept = {row.month: row for row in self._session.execute(wanted)}
        found = {}
        for month in (month for month in months if month in self._known):
            made_of, text = kept[month][1:] if month in kept else ("", "")
            found[month] = StoredMonth(text, made_of == self.made_of(month))
        return found

    def made_of(self, month: str) -> str:
        """Return a text that changes with whatever the sums of the month are made of."""
        return state_of(self._service, month, self._known, self._left_out)

    def _make(self, month: str) -> dict[str, Any]:
        if month not in self._rows:
            self._rows[month] = self._made(month)
        return self._rows[month]

    def _made(self, month: str) -> dict[str, Any]:
        session, project = self._session, self._project
        without = self._left_out.get(month, ())
        days, so_far = whole_days(self._service, month), None
        before = self._basis(previous_month(month), days)
        if days is not None:
            so_far = compared_with(session, month, project, without, days)
        compared = (before, without, so_far, days)
        advised = month >= self._advised_from
        fields, self._bases[month] = summed(
            self._service, session, month, project, *compared, advised=advised
        )
        sums = to_text({**fields, "excluded": _excluded(session, month, project)})
        row = {
            "month": month,
            "project": project or ALL,
            "made_of": self.made_of(month),
            "doc": sums,
            "brief": brief(fields),
        }
        if month in self._known:
            self.new.append(row)
        return row

    def _basis(self, month: str, days: int | None) -> PreviousMonth:
        """Return what the month after is compared with: this month, or its first days."""
        without = self._left_out.get(month, ())
        if days is not None:
            return compared_with(self._session, month, self._project, without, days)
        if month not in self._bases:
            self._bases[month] = compared_with(self._session, month, self._project, without)
        return self._bases[month]


def whole_days(service: Service, month: str) -> int | None:
    """Return how many whole days of a month in progress are over; None for any other month."""
    if month != service.month_now():
        return None
    return day_of(service.now(), service.config.zone).day - 1


def state_of(
    service: Service,
    month: str,
    known: Mapping[str, int],
    left_out: Mapping[str, Sequence[int]],
) -> str:
    """Return a text that changes with whatever the sums of a month are made of.

    `known` are the versions of months of its project, `left_out` the jobs in no sum by month.
    """
    months = (month, previous_month(month))
    # A build between two releases has the version of the one before, and may know more fields.
    layout = zlib.crc32(" ".join(MonthDoc.__struct_fields__).encode())
    about = [{one: of[one] for one in months if one in of} for of in (known, left_out)]
    memo = sorted(service.config.reports.market_factors.items())
    made_by = (__version__, layout, service.catalog.version, whole_days(service, month), memo)
    return json.dumps([*about, *made_by], sort_keys=True)


def month_made_of(service: Service, month: str, project: str | None) -> str:
    """Return a text that changes with whatever the sums of a month are made of."""
    with service.for_every_project().store.read() as session:
        return MonthStore(service, session, (month,), project, pending_keys(session)).made_of(month)


def stored_months(
    service: Service, months: Collection[str], project: str | None
) -> dict[str, StoredMonth]:
    """Return what is kept of those of the months that have a part of a scored job.

    Nothing is summed. Raises NoDataError for a project that the caller does not see.
    """
    project = one_project(service, project, max(months))
    with service.for_every_project().store.read() as session:
        return MonthStore(service, session, months, project, pending_keys(session)).stored(months)


def stored_sums(service: Service, month: str, project: str | None) -> str | None:
    """Return the sums of a month as last stored, as JSON, whether they hold or not; None for none.

    Raises NoDataError for a project that the caller does not see.
    """
    project = one_project(service, project, month)
    with service.for_every_project().store.read() as session:
        stored = session.get(MonthSum, (month, project or ALL))
        return stored.doc if stored is not None else None


def store_sums(service: Service, rows: Rows) -> None:
    """Store what was made, in place of what the rows of those months have.

    While another process writes they are not stored, and are made again when they are asked for.
    """
    if rows:
        # In one order, so that who stores or deletes the same months waits for each other.
        ordered = sorted(rows, key=lambda row: row["month"])
        service.store.note(lambda session: upsert(session, MonthSum, ordered, replace=True))


def _excluded(session: Session, month: str, project: str | None) -> list[ExcludedDoc]:
    """Return the excluded jobs of the month, in order of their start."""
    wanted = (
        sa.select(Job.head)
        .join(JobMonth, JobMonth.job == Job.id)
        .where(JobMonth.month == month, JobMonth.use == EXCLUDED, ~is_pending())
        .order_by(Job.started_us, Job.job_id)
    )
    if project is not None:
        wanted = wanted.where(JobMonth.project == project)
    return [excluded_row(read_head(text)) for text in session.scalars(wanted)]
