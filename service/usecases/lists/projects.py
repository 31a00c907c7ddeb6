"""The list of projects."""

from __future__ import annotations

import sqlalchemy as sa

from gramwatt.service.container import Service
from gramwatt.service.store.models import Job
from gramwatt.service.store.timestamps import text_from_us
from gramwatt.service.usecases.answers import ProjectsAnswer
from gramwatt.service.usecases.lists.cursors import cut, decode_cursor


def projects_page(service: Service, limit: int, cursor: str | None) -> ProjectsAnswer:
    """Projects by name; raises CursorError."""
    after = decode_cursor(cursor, str)[0] if cursor else ""
    running = sa.func.sum(sa.case((Job.state == "running", 1), else_=0))
    wanted = (
        sa.select(
            Job.project,
            sa.func.count().label("jobs"),
            running.label("running"),
            sa.func.max(Job.started_us).label("last_us"),
        )
        .where(Job.project > after)
        .group_by(Job.project)
        .order_by(Job.project)
        .limit(limit + 1)
    )
    with service.store.read() as session:
        rows = session.execute(wanted).all()
    shown, following = cut(rows, limit, lambda row: (row.project,))
    return {
        "projects": [
            {
                "project": row.project,
                "jobs": row.jobs,
                "running": int(row.running),
                "last_started_at": text_from_us(row.last_us),
            }
            for row in shown
        ],
        "next_cursor": following,
    }


def project_names(service: Service) -> list[str]:
    """Every project by name."""
    with service.store.read() as session:
        return list(session.scalars(sa.select(Job.project).distinct().order_by(Job.project)))
