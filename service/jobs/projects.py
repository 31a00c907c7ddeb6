"""Projects: those with jobs, and those that were declared before their first."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from gramwatt.service.access import audit
from gramwatt.service.access.projects import require_own
from gramwatt.service.common.answers import ProjectsAnswer, ProjectSummary
from gramwatt.service.common.requests import cut, decode_cursor
from gramwatt.service.container import Service
from gramwatt.service.store.access import Project
from gramwatt.service.store.columns import text_from_us
from gramwatt.service.store.models import Job

_PROJECT_COLUMNS = (
    Job.project,
    sa.func.count().label("jobs"),
    sa.func.max(Job.started_us).label("last_us"),
)
"""What one index has of a project; that of states has which jobs run."""


def projects_page(service: Service, limit: int, cursor: str | None) -> ProjectsAnswer:
    """Projects by name; raises CursorError."""
    after = decode_cursor(cursor, str)[0] if cursor else ""
    with_jobs = (
        sa.select(*_PROJECT_COLUMNS)
        .where(Job.project > after)
        .group_by(Job.project)
        .order_by(Job.project)
        .limit(limit + 1)
        .subquery()
    )
    without = (
        sa.select(Project.project, sa.literal(0), sa.cast(None, sa.BigInteger))
        .where(Project.project > after)
        .where(~sa.exists().where(Job.project == Project.project))
        .order_by(Project.project)
        .limit(limit + 1)
        .subquery()
    )
    statement = sa.union_all(sa.select(with_jobs), sa.select(without)).order_by("project")
    with service.store.read() as session:
        rows = session.execute(statement.limit(limit + 1)).all()
        running = _running(session)
    shown, following = cut(rows, limit, lambda row: (row.project,))
    return ProjectsAnswer(projects=[_summary(row, running) for row in shown], next_cursor=following)


def declare_project(service: Service, project: str) -> ProjectSummary:
    """List a project from now on, also before its first job; the same again changes nothing.

    Raises ForeignProjectError for a project of others.
    """
    require_own(service, project)
    caller = service.caller
    # Who declares it at the same moment has done the same.
    with suppress(IntegrityError), service.for_every_project().store.write() as session:
        if session.get(Project, project) is None:
            made_us = service.now_us()
            session.add(Project(project=project, declared_us=made_us, declared_by=caller.name))
            audit.record(session, service, "project-declared", project)
    with service.store.read() as session:
        return _one(session, project)


def _one(session: Session, project: str) -> ProjectSummary:
    """Return one project, with or without jobs."""
    statement = sa.select(*_PROJECT_COLUMNS).where(Job.project == project).group_by(Job.project)
    row = session.execute(statement).one_or_none()
    if row is None:
        return ProjectSummary(project=project, jobs=0, running=0, last_started_at=None)
    return _summary(row, _running(session))


def _running(session: Session) -> dict[str, int]:
    """Return how many jobs of each project run."""
    statement = sa.select(Job.project, sa.func.count()).where(Job.state == "running")
    return {project: jobs for project, jobs in session.execute(statement.group_by(Job.project))}


def _summary(row: Any, running: dict[str, int]) -> ProjectSummary:
    return ProjectSummary(
        project=row.project,
        jobs=row.jobs,
        running=running.get(row.project, 0),
        last_started_at=None if row.last_us is None else text_from_us(row.last_us),
    )


def project_names(service: Service) -> list[str]:
    """Return every project by name; each costs one search of the index, however many jobs it
    has.
    """
    first = sa.select(sa.func.min(Job.project).label("project")).cte("known", recursive=True)
    following = sa.select(sa.func.min(Job.project)).where(Job.project > first.c.project)
    names = first.union_all(
        sa.select(following.scalar_subquery()).where(first.c.project.is_not(None))
    )
    with service.store.read() as session:
        named = sa.select(names.c.project).where(names.c.project.is_not(None))
        return list(session.scalars(named.order_by(names.c.project)))
