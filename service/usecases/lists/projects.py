"""The list of projects: those of jobs, and those declared before their first job."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from gramwatt.service.container import Service
from gramwatt.service.store.access import Project
from gramwatt.service.store.models import Job
from gramwatt.service.store.timestamps import text_from_us
from gramwatt.service.usecases.answers import ProjectsAnswer, ProjectSummary
from gramwatt.service.usecases.lists.cursors import cut, decode_cursor

COLUMNS = (
    Job.project,
    sa.func.count().label("jobs"),
    sa.func.sum(sa.case((Job.state == "running", 1), else_=0)).label("running"),
    sa.func.max(Job.started_us).label("last_us"),
)
"""What is shown of a project."""


def projects_page(service: Service, limit: int, cursor: str | None) -> ProjectsAnswer:
    """Projects by name; raises CursorError."""
    after = decode_cursor(cursor, str)[0] if cursor else ""
    with_jobs = (
        sa.select(*COLUMNS)
        .where(Job.project > after)
        .group_by(Job.project)
        .order_by(Job.project)
        .limit(limit + 1)
        .subquery()
    )
    without = (
        sa.select(Project.project, sa.literal(0), sa.literal(0), sa.cast(None, sa.BigInteger))
        .where(Project.project > after)
        .where(~sa.exists().where(Job.project == Project.project))
        .order_by(Project.project)
        .limit(limit + 1)
        .subquery()
    )
    wanted = sa.union_all(sa.select(with_jobs), sa.select(without)).order_by("project")
    with service.store.read() as session:
        rows = session.execute(wanted.limit(limit + 1)).all()
    shown, following = cut(rows, limit, lambda row: (row.project,))
    return {"projects": [summary_of(row) for row in shown], "next_cursor": following}


def summary_of(row: Any, project: str | None = None) -> ProjectSummary:
    """A project's summary from a row of COLUMNS."""
    return {
        "project": project or row.project,
        "jobs": row.jobs,
        "running": int(row.running or 0),
        "last_started_at": None if row.last_us is None else text_from_us(row.last_us),
    }


def project_names(service: Service) -> list[str]:
    """Every project by name."""
    with service.store.read() as session:
        return list(session.scalars(sa.select(Job.project).distinct().order_by(Job.project)))
