"""What the request of a list of jobs asks of their rows, and in which order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy.orm import InstrumentedAttribute

from gramwatt.service.common.requests import JobList
from gramwatt.service.store.job_labels import HARDWARE, TAG, ZONE, label_text
from gramwatt.service.store.models import Job
from gramwatt.service.store.people import USER
from gramwatt.service.store.timestamps import to_us

_COLUMNS: dict[str, InstrumentedAttribute[Any]] = {
    "started_at": Job.started_us,
    "ended_at": Job.ended_us,
    "duration": Job.duration_s,
    "energy": Job.energy_kwh,
    "total": Job.total_g,
}


TAG_SEPARATOR = re.compile("[:=]")


def column_of(query: JobList) -> InstrumentedAttribute[Any]:
    """Return the column that the list is sorted by."""
    return _COLUMNS[query.sort.removeprefix("-")]


def is_descending(query: JobList) -> bool:
    """Return whether the largest comes first."""
    return query.sort.startswith("-")


def conditions(query: JobList) -> Iterator[sa.ColumnElement[bool]]:
    """Return what the filters ask of a row of jobs, but for `q` (`lists.search`) and labels."""
    for name in ("project", "kind", "state", "name", "model_id"):
        value = getattr(query, name)
        if value is not None:
            yield getattr(Job, name) == value
    yield from started(query, Job.started_us)


def started(
    query: JobList, start_us: InstrumentedAttribute[int]
) -> Iterator[sa.ColumnElement[bool]]:
    """Return what `since` and `until` ask of a start, in [since, until)."""
    if query.since is not None:
        yield start_us >= to_us(query.since)
    if query.until is not None:
        yield start_us < to_us(query.until)


def is_by_labels(query: JobList) -> bool:
    """Return whether labels and the start alone say which jobs, and in which order."""
    others = (query.project, query.kind, query.state, query.name, query.model_id, query.q)
    alone = all(other is None for other in others) and column_of(query) is Job.started_us
    return alone and any(labels(query))


def of_alias(query: JobList, alias: Callable[[str], str | None]) -> JobList:
    """Return the request with the alias of a person where it has a name."""
    start = f"{USER}:"
    tags = [TAG_SEPARATOR.sub(":", text, count=1) for text in query.tag]
    names = [*([query.user] if query.user is not None else [])]
    names += [tag.removeprefix(start) for tag in tags if tag.startswith(start)]
    users = [f"{start}{alias(name) or name}" for name in names]
    others = [tag for tag in tags if not tag.startswith(start)]
    return replace(query, user=None, tag=[*users, *others])


def labels(query: JobList) -> Iterator[str]:
    """Yield the labels that a job must have."""
    for kind, value in ((HARDWARE, query.hardware), (ZONE, query.zone)):
        if value is not None:
            yield label_text(kind, value)
    for text in query.tag:
        yield label_text(TAG, text)
