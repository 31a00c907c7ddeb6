"""The service about itself: alive, ready, and its metrics."""

from __future__ import annotations

import sqlalchemy as sa
from flask import Response, current_app
from sqlalchemy.exc import SQLAlchemyError

from gramwatt.service.api.problems import Problem
from gramwatt.service.api.routing import Routes
from gramwatt.service.api.support import service
from gramwatt.service.metrics import EXTENSION, Metrics
from gramwatt.service.store.migrate import is_current
from gramwatt.service.store.models import Job
from gramwatt.service.usecases.answers import StatusAnswer

routes = Routes("service")


@routes.get("/healthz")
def alive() -> StatusAnswer:
    """Whether the process answers; asks nothing of the database."""
    return {"status": "ok"}


@routes.get("/readyz", "not-ready")
def ready() -> StatusAnswer:
    """Whether the database can be reached and has this release's tables."""
    try:
        current = is_current(service().store)
    except SQLAlchemyError:
        raise Problem("not-ready", "the database cannot be reached") from None
    if not current:
        raise Problem("not-ready", "the database is not up to date; run: gramwatt db upgrade")
    return {"status": "ok"}


@routes.get("/metrics", media={"text/plain": None})
def metrics() -> Response:
    """Counters of this process and jobs by state, in Prometheus' text format."""
    with service().store.read() as session:
        counted = session.execute(sa.select(Job.state, sa.func.count()).group_by(Job.state)).all()
    kept: Metrics = current_app.extensions[EXTENSION]
    return Response(
        kept.text({state: number for state, number in counted}), content_type=kept.media
    )
