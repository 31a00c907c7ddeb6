"""The sums of months as they are kept: a row a month and project, made again where jobs changed.

A score counts its change in its own transaction (`rows.py`). Who reads sums that were made of fewer
changes makes them again, one thread at a time, and keeps them for the next.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

from gramwatt.sci.figures.structs import decode
from gramwatt.sci.month.documents import MonthAdvice, MonthSums
from gramwatt.service.container import Service
from gramwatt.service.months.large import MonthScope, scope_sums
from gramwatt.service.months.statements import month_scope
from gramwatt.service.store.columns import to_text
from gramwatt.service.store.months import ALL, MonthSum

Sums = TypeVar("Sums", bound=msgspec.Struct)
Name = tuple[str, str | None]
"""A month, and a project or None for all."""
_making: dict[tuple[str, Name], Lock] = {}
"""A lock for each month and project of a store that this process has summed."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of a month, as JSON, None before it is first made; and whether it holds now."""

    document: str | None
    holds: bool


def kept_sums(service: Service, names: Collection[Name]) -> dict[Name, Kept]:
    """Return what is kept of these months, without months that never had a job; nothing is summed.

    What the caller may see is for the caller of this to check, as for all here.
    """
    columns = (MonthSum.month, MonthSum.project, MonthSum.document)
    statement = sa.select(*columns, MonthSum.made_of, MonthSum.changes).where(
        MonthSum.month.in_({month for month, _ in names}),
        MonthSum.project.in_({project or ALL for _, project in names}),
    )
    with service.for_every_project().store.read() as session:
        rows = session.execute(statement).all()
    stored = {
        (month, project or None): Kept(document, made_of == changes)
        for month, project, document, made_of, changes in rows
    }
    return {name: stored[name] for name in names if name in stored}


def kept_months(service: Service, months: Collection[str], project: str | None) -> dict[str, Kept]:
    """Return the same of months of one project, or of all, by month."""
    stored = kept_sums(service, [(month, project) for month in months])
    return {month: of_month for (month, _), of_month in stored.items()}


def sums_by_name(
    service: Service, names: Collection[Name], kind: type[Sums], *, as_kept: bool = False
) -> dict[Name, Sums]:
    """Return the sums of these months, without months that never had a job.

    `kind` names the fields that are wanted of `MonthSums`. Sums that jobs have changed since are
    made again, or taken as they are kept.
    """
    sums: dict[Name, Sums] = {}
    for name, stored in kept_sums(service, names).items():
        usable = readable(stored.document, kind) if stored.holds or as_kept else None
        sums[name] = usable or decode(_made(service, name, stored.document), kind)
    return sums


def month_sums(
    service: Service,
    months: Collection[str],
    project: str | None,
    kind: type[Sums],
    *,
    as_kept: bool = False,
) -> dict[str, Sums]:
    """Return the same of months of one project, or of all, by month."""
    names = [(month, project) for month in months]
    sums = sums_by_name(service, names, kind, as_kept=as_kept)
    return {month: of_month for (month, _), of_month in sums.items()}


def keep_sums(service: Service, month: str, project: str | None = None) -> None:
    """Bring the kept sums of a month up to date, of a project or of all."""
    month_sums(service, [month], project, MonthSums)


def month_advice(service: Service, sums: MonthSums) -> MonthAdvice:
    """Return what the store adds to the sums of a month; made again where jobs changed."""
    service, name = service.for_every_project(), (sums.month, sums.project or ALL)
    with service.store.read() as session:
        row = session.get(MonthSum, name)
        is_current = row is not None and row.advised_of == row.changes
        if row and is_current and (stored := readable(row.advice, MonthAdvice)):
            return stored
        from gramwatt.service.months.advice import advised  # the engine, loaded where it is asked

        advice = advised(service, session, sums)
    # Of sums that jobs have changed since they were read it is not known how many changes they saw.
    if row is not None and readable(row.document, MonthSums) == sums:
        _keep(service, name, advised_of=row.made_of, advice=to_text(advice))
    return advice


def readable(text: str | None, kind: type[Sums]) -> Sums | None:
    """Return what is kept; None for nothing, and for what another release kept in its form."""
    try:
        return None if text is None else decode(text, kind)
    except msgspec.ValidationError:
        return None


def _made(service: Service, name: Name, before: str | None) -> str:
    """Make the sums of a month and keep them, unless another thread has done so meanwhile."""
    service, key = service.for_every_project(), (name[0], name[1] or ALL)
    with _making.setdefault((f"{service.store.url}", name), Lock()):
        stored = kept_sums(service, [name]).get(name)
        if stored is not None and stored.holds and stored.document not in (None, before):
            return str(stored.document)
        changes, text = scope_sums(service, MonthScope(*name, *month_scope(*name)))
        _keep(service, key, made_of=changes, document=text)
    return text


def _keep(service: Service, key: tuple[str, str], **values: Any) -> None:
    """Keep what was made; what cannot be kept, while another writes, the next reader makes."""
    change = sa.update(MonthSum).where(MonthSum.month == key[0], MonthSum.project == key[1])
    service.store.note(lambda session: session.execute(change.values(**values)))
