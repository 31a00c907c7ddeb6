"""The state of the service itself: whether it can answer, and how many jobs it holds."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from gramwatt.service.container import Service
from gramwatt.service.store.migrate import is_current
from gramwatt.service.store.models import Job
from gramwatt.service.usecases.answers import JOB_STATES
from gramwatt.service.usecases.errors import NotReadyError


def require_ready(service: Service) -> None:
    """Raise NotReadyError unless the database can be reached and has this release's tables."""
    try:
        current = is_current(service.store)
    except SQLAlchemyError:
        raise NotReadyError("the database cannot be reached") from None
    if not current:
        raise NotReadyError("the database is not up to date; run: gramwatt db upgrade")


def jobs_by_state(service: Service) -> dict[str, int]:
    """How many jobs are in each state."""
    wanted = sa.select(Job.state, sa.func.count()).group_by(Job.state)
    with service.store.read() as session:
        counted = {state: number for state, number in session.execute(wanted)}
    return {**dict.fromkeys(JOB_STATES, 0), **counted}
