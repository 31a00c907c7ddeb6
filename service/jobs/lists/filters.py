"""Which jobs a list shows, and in which order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import InstrumentedAttribute

from gramwatt.service.common.requests import NEWEST_FIRST, Sort
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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """What a job must have to be listed (None: any), and the order of the list.

    `since` and `until` bound the start, [since, until). `tags` are texts "key=value" or
    "key:value", all of which a job must have; `user` is the tag of that name. `hardware` is a
    catalog id of one of the job's devices, `zone` that of any of its nodes. `q` is part of the
    name, the model's id or a tag "key:value", whatever the case, or begins the job's id. A `sort`
    with "-" is descending; jobs whose figure is not known come last in both directions.
    """

    project: str | None = None
    kind: str | None = None
    state: str | None = None
    name: str | None = None
    model_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    hardware: str | None = None
    zone: str | None = None
    user: str | None = None
    tags: tuple[str, ...] = ()
    q: str | None = None
    sort: Sort = NEWEST_FIRST

    @property
    def column(self) -> InstrumentedAttribute[Any]:
        """The column that the list is sorted by."""
        return _COLUMNS[self.sort.removeprefix("-")]

    @property
    def is_descending(self) -> bool:
        """Return whether the largest comes first."""
        return self.sort.startswith("-")

    def conditions(self) -> Iterator[sa.ColumnElement[bool]]:
        """Return what the filters ask of a row of jobs, but for `q` (`lists.search`) and labels."""
        for name in ("project", "kind", "state", "name", "model_id"):
            value = getattr(self, name)
            if value is not None:
                yield getattr(Job, name) == value
        yield from self.started(Job.started_us)

    def started(self, start_us: InstrumentedAttribute[int]) -> Iterator[sa.ColumnElement[bool]]:
        """Return what `since` and `until` ask of a start."""
        if self.since is not None:
            yield start_us >= to_us(self.since)
        if self.until is not None:
            yield start_us < to_us(self.until)

    @property
    def is_by_labels(self) -> bool:
        """Return whether labels and the start alone say which jobs, and in which order."""
        others = (self.project, self.kind, self.state, self.name, self.model_id, self.q)
        alone = all(other is None for other in others) and self.column is Job.started_us
        return alone and any(self.labels())

    def of_alias(self, alias: Callable[[str], str | None]) -> JobFilter:
        """Return the filter with the alias of a person where it has a name."""
        start = f"{USER}:"
        tags = [TAG_SEPARATOR.sub(":", text, count=1) for text in self.tags]
        names = [*([self.user] if self.user is not None else [])]
        names += [tag.removeprefix(start) for tag in tags if tag.startswith(start)]
        users = tuple(f"{start}{alias(name) or name}" for name in names)
        others = (tag for tag in tags if not tag.startswith(start))
        return replace(self, user=None, tags=(*users, *others))

    def labels(self) -> Iterator[str]:
        """Yield the labels that a job must have."""
        for kind, value in ((HARDWARE, self.hardware), (ZONE, self.zone)):
            if value is not None:
                yield label_text(kind, value)
        for text in self.tags:
            yield label_text(TAG, text)
