"""Sums of months as the store keeps them: they hold as long as what they were made of does."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt import __version__
from gramwatt.sci.analysis.documents import ExcludedDoc, MonthDoc
from gramwatt.sci.analysis.month import excluded_row, previous_month
from gramwatt.service.access.projects import one_project
from gramwatt.service.container import Service
from gramwatt.service.months.history import Fields, brief
from gramwatt.service.months.pending import left_out_jobs, pending_keys
from gramwatt.service.months.summed import (
    compared_with,
    no_basis,
    read_basis,
    summed,
    trend_fields,
)
from gramwatt.service.months.sums.keeping import ALL, versions
from gramwatt.service.months.sums.part import EXCLUDED, REFUSED
from gramwatt.service.store.documents import read_head, to_text
from gramwatt.service.store.models import Job, JobMonth, MonthBasis, MonthSum, is_pending
from gramwatt.service.store.upserts import upsert

if TYPE_CHECKING:  # numpy is loaded where sums are made
    from gramwatt.service.months.sums.earlier import Earlier

TREND_ONLY = ""
"""What stands for the sums of a month of which only what a trend shows is stored."""
# Made once: their making takes longer than the asking.
_STORED = sa.select(
    MonthSum.month, MonthSum.made_of, MonthSum.brief, MonthSum.doc != TREND_ONLY
).where(
    MonthSum.month.in_(sa.bindparam("months", expanding=True)),
    MonthSum.project == sa.bindparam("of"),
)
_BASIS = sa.select(MonthBasis.sums).where(
    MonthBasis.month == sa.bindparam("month"),
    MonthBasis.project == sa.bindparam("of"),
    MonthBasis.made_of == sa.bindparam("made_of"),
)
_ASIDE = (
    sa.select(JobMonth.use, Job.job_id, Job.project, Job.head)
    .join(JobMonth, JobMonth.job == Job.id)
    .where(JobMonth.month == sa.bindparam("month"))
    .where(JobMonth.use.in_((EXCLUDED, REFUSED)), ~is_pending())
    .order_by(Job.started_us, Job.job_id)
)
_ASIDE_OF = _ASIDE.where(JobMonth.project == sa.bindparam("of"))
Rows = Sequence[tuple[type[MonthSum | MonthBasis], dict[str, Any]]]
"""Tables, and a row to store in each."""


class MonthStore:
    """Sums of months of a project, or of all: those that are stored while they hold, else new ones.

    `months` are those that will be asked for, `pending` the keys of jobs that run or have lines
    without a score. `new` are the rows that `store_sums` is to store.
    """

    def __init__(
        self,
        service: Service,
        session: Session,
        months: Collection[str],
        project: str | None,
        pending: Collection[int],
    ) -> None:
        self._service, self._session, self._project = service, session, project
        around = sorted({*months, *map(previous_month, months)})
        self._left_out = left_out_jobs(session, around, sorted(pending))
        self._known = versions(session, around, project)
        self._bases: dict[str, Earlier] = {}
        self.new: list[tuple[type[MonthSum | MonthBasis], dict[str, Any]]] = []

    def sums(self, month: str) -> str:
        """The fields of a month's document that are sums over its scored jobs, as JSON."""
        stored = self._session.get(MonthSum, (month, self._project or ALL))
        if stored is not None and stored.made_of == self.made_of(month) and stored.doc:
            return stored.doc
        return str(self._make(month)["doc"])

    def briefs(self, months: Sequence[str]) -> dict[str, Fields]:
        """What reports of later months need of those of the months, latest first, that have a job.

        Of the latest, whose advice is followed, all sums are made; of the others what a trend
        shows.
        """
        stored = self.stored(months)
        found: dict[str, Fields] = {}
        for month, of_month in stored.items():
            text = of_month.brief
            if month == months[0] and not (of_month.holds and of_month.has_sums):
                text = self._make(month)["brief"]
            elif not of_month.holds:
                kept = trend_fields(self._session, month, self._project, self._without(month))
                text = msgspec.json.encode(kept).decode()
                self._add(MonthSum, month, self.made_of(month), doc=TREND_ONLY, brief=text)
            found[month] = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        return found

    def stored(self, months: Collection[str]) -> dict[str, StoredMonth]:
        """What is kept of those of these months that have a part of a scored job."""
        wanted = {"months": sorted(months), "of": self._project or ALL}
        kept = {row.month: row for row in self._session.execute(_STORED, wanted)}
        found = {}
        for month in (month for month in months if month in self._known):
            made_of, text, has_sums = kept[month][1:] if month in kept else ("", "", False)
            found[month] = StoredMonth(text, made_of == self.made_of(month), has_sums)
        return found

    def made_of(self, month: str) -> str:
        """A text that changes with whatever the sums of the month are made of."""
        return self._made_of(month, previous_month(month))

    def _made_of(self, *months: str) -> str:
        known = {one: self._known[one] for one in months if one in self._known}
        left_out = {one: self._left_out[one] for one in months if one in self._left_out}
        # A build between two releases has the version of the one before, and may know more fields.
        layout = zlib.crc32(" ".join(MonthDoc.__annotations__).encode())
        engine = [__version__, layout, self._service.catalog.version]
        return json.dumps([known, left_out, *engine], sort_keys=True)

    def _make(self, month: str) -> dict[str, Any]:
        before = self._basis(previous_month(month))
        session, project = self._session, self._project
        without = self._without(month)
        fields, basis = summed(self._service, session, month, project, before, without)
        self._bases[month] = basis
        refused, excluded = _aside(session, month, project)
        sums = to_text({**fields, "refused": refused, "excluded": excluded})
        return self._add(MonthSum, month, self.made_of(month), doc=sums, brief=brief(fields))

    def _basis(self, month: str) -> Earlier:
        """What the month after is compared with; stored once there is one to compare."""
        if month not in self._known:
            return no_basis()
        project, made_of = self._project, self._made_of(month)
        wanted = {"month": month, "of": project or ALL, "made_of": made_of}
        stored = self._session.scalar(_BASIS, wanted)
        basis = read_basis(stored) if stored is not None else None
        if basis is None:
            basis = self._bases.get(month)
            if basis is None:
                basis = compared_with(self._session, month, project, self._without(month))
            self._add(MonthBasis, month, made_of, sums=basis.to_bytes())
        return basis

    def _without(self, month: str) -> Sequence[int]:
        """Keys of the jobs with a part in the month whose newest lines no score has yet."""
        return self._left_out.get(month, ())

    def _add(
        self, table: type[MonthSum | MonthBasis], month: str, made_of: str, **columns: Any
    ) -> dict[str, Any]:
        row = {"month": month, "project": self._project or ALL, "made_of": made_of, **columns}
        if month in self._known:
            self.new.append((table, row))
        return row


@dataclass(frozen=True, slots=True)
class StoredMonth:
    """What is kept of a month: `brief`, as JSON, "" where nothing is, and whether it holds now.

    `has_sums` is false where only what a trend shows of the month is kept.
    """

    brief: str
    holds: bool
    has_sums: bool


def month_made_of(service: Service, month: str, project: str | None) -> str:
    """A text that changes with whatever the sums of a month, and of the one before, are made of."""
    with service.for_every_project().store.read() as session:
        return MonthStore(service, session, (month,), project, pending_keys(session)).made_of(month)


def stored_months(
    service: Service, months: Collection[str], project: str | None
) -> dict[str, StoredMonth]:
    """What is kept of those of the months that have a part of a scored job; nothing is summed.

    Raises NoDataError for a project that the caller does not see.
    """
    project = one_project(service, project, max(months))
    with service.for_every_project().store.read() as session:
        return MonthStore(service, session, months, project, pending_keys(session)).stored(months)


def stored_sums(service: Service, month: str, project: str | None) -> str | None:
    """The sums of a month as last stored, as JSON, whether they hold or not; None for none.

    Raises NoDataError for a project that the caller does not see.
    """
    project = one_project(service, project, month)
    with service.for_every_project().store.read() as session:
        stored = session.get(MonthSum, (month, project or ALL))
        return stored.doc or None if stored is not None else None


def store_sums(service: Service, rows: Rows) -> None:
    """Store what was made, in place of what the rows of those months have."""
    if not rows:
        return
    with service.store.write() as session:
        # In one order, so that who stores or deletes the same months waits for each other.
        for table, row in sorted(rows, key=lambda one: (one[1]["month"], one[0].__name__)):
            upsert(session, table, [row], replace=True)


def _aside(
    session: Session, month: str, project: str | None
) -> tuple[list[tuple[str, str, str]], list[ExcludedDoc]]:
    """The jobs that no sum of the month holds, in order of their start.

    Id, name and project of those whose figures no sum can hold until they are excluded, and the
    rows of the excluded.
    """
    jobs = session.execute(
        _ASIDE if project is None else _ASIDE_OF, {"month": month, "of": project}
    )
    refused, excluded = [], []
    for use, job_id, of_project, text in jobs:
        head = read_head(text)
        if use == EXCLUDED:
            excluded.append(excluded_row(head))
        else:
            refused.append((job_id, head["name"], of_project))
    return refused, excluded
