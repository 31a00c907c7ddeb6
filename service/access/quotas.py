"""Quotas of projects: journal lines a day, jobs, reports rendered an hour, and what is stored.

Each is off until a setting names a limit. Who is at it is refused with 429, and lines wait where
they are; a batch that crosses it is still taken. The process itself, and commands on the store,
have none.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.service.common.errors import QuotaError
from gramwatt.service.container import THIS_MACHINE, Service
from gramwatt.service.store.access import ProjectUse
from gramwatt.service.store.models import Job
from gramwatt.service.store.upserts import upsert

LINES, JOBS, RENDERS, STORED = "lines_per_day", "jobs", "renders_per_hour", "stored_mib"
_WORDS = {
    LINES: "{:,.0f} journal lines a day",
    JOBS: "{:,.0f} jobs",
    RENDERS: "{:,.0f} reports rendered an hour",
    STORED: "{:g} MiB of journal lines",
}
_PERIODS_S = {LINES: 86_400, RENDERS: 3_600}
_MIB = 2**20
_STORED_KNOWN_S = 60.0
"""How long a process believes the sum of what a project has stored [s]."""
_stored: dict[tuple[str, str], tuple[float, float]] = {}
PROJECTS_MOST = 1000
"""Projects whose use is shown."""


class QuotaUse(NamedTuple):
    """How much of a quota a project uses now, in the unit of the quota's name."""

    project: str
    quota: str
    used: float
    limit: float


def limit_of(service: Service, quota: str, project: str) -> float | None:
    """Return a project's limit; None where it has none."""
    limits = service.config.quotas.get(quota, {})
    return limits.get(project, limits.get(""))


def take(service: Service, session: Session, quota: str, project: str, amount: int) -> None:
    """Add to the lines or renders of a project in this period; raises QuotaError at the limit."""
    limit = _applied(service, quota, project)
    if limit is None:
        return
    start_us = _period_us(service, quota)
    row = {"project": project, "quota": quota, "period_us": start_us, "amount": 0}
    upsert(session, ProjectUse, [row])
    use = session.get_one(ProjectUse, (project, quota), with_for_update=True)
    used = use.amount if use.period_us == start_us else 0
    if used >= limit:
        end_us = start_us + 1_000_000 * _PERIODS_S[quota]
        raise _error(project, quota, limit, math.ceil((end_us - service.now_us()) / 1e6))
    use.period_us, use.amount = start_us, used + amount


def take_render(service: Service, project: str | None) -> None:
    """Count a report that is rendered for somebody; None is every project, which has no quota."""
    if project is not None and _applied(service, RENDERS, project) is not None:
        whole = service.for_every_project()
        whole.store.transact(lambda session: take(service, session, RENDERS, project, 1))


def require_room(service: Service, session: Session, project: str) -> None:
    """Raise QuotaError where a project stores as much as it may, by a sum of the last minute."""
    limit = _applied(service, STORED, project)
    if limit is None:
        return
    key, now_s = (service.config.database_url, project), time.monotonic()
    stored_b, known_s = _stored.get(key, (0.0, -math.inf))
    if now_s - known_s >= _STORED_KNOWN_S:
        wanted = sa.select(sa.func.sum(Job.stored_b)).where(Job.project == project)
        stored_b = float(session.scalar(wanted) or 0)
        _stored[key] = stored_b, now_s
    if stored_b >= limit * _MIB:
        raise _error(project, STORED, limit)


def require_job(service: Service, session: Session, project: str) -> None:
    """Raise QuotaError where a project has as many jobs as it may."""
    limit = _applied(service, JOBS, project)
    if limit is None:
        return
    wanted = sa.select(sa.func.count()).select_from(Job).where(Job.project == project)
    if (session.scalar(wanted) or 0) >= limit:
        raise _error(project, JOBS, limit)


def uses(service: Service) -> list[QuotaUse]:
    """Return how much of each quota is used, by project."""
    if not any(service.config.quotas.values()):
        return []
    found: dict[tuple[str, str], float] = {}
    with service.store.read() as session:
        sums = sa.select(Job.project, sa.func.count(), sa.func.sum(Job.stored_b))
        by_project = sums.group_by(Job.project).order_by(Job.project).limit(PROJECTS_MOST)
        for project, jobs, stored_b in session.execute(by_project):
            found |= {(project, JOBS): jobs, (project, STORED): float(stored_b) / _MIB}
        for use in session.scalars(sa.select(ProjectUse)):
            if use.period_us == _period_us(service, use.quota):
                found[use.project, use.quota] = use.amount
    return sorted(_uses(service, found))


def _uses(service: Service, found: dict[tuple[str, str], float]) -> Iterator[QuotaUse]:
    named = {name for limits in service.config.quotas.values() for name in limits if name}
    for project in named | {project for project, _ in found}:
        for quota in service.config.quotas:
            limit = limit_of(service, quota, project)
            if limit is not None:
                yield QuotaUse(project, quota, found.get((project, quota), 0.0), limit)


def _applied(service: Service, quota: str, project: str) -> float | None:
    return None if service.caller is THIS_MACHINE else limit_of(service, quota, project)


def _period_us(service: Service, quota: str) -> int:
    """Return the beginning of the day or hour, UTC [us since 1970]."""
    length_us = 1_000_000 * _PERIODS_S[quota]
    return service.now_us() // length_us * length_us


def _error(project: str, quota: str, limit: float, retry_s: int | None = None) -> QuotaError:
    has = f"project {project!r} has reached its quota of {_WORDS[quota].format(limit)}"
    variable = f"GRAMWATT_QUOTA_{quota.upper()}"
    if retry_s is not None:
        text = f"{has}; it begins anew in {retry_s} s"
    else:
        text = f"{has}; delete jobs, or ask who runs the server to raise {variable}"
    return QuotaError(text, quota, limit, retry_s)
