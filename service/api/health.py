"""The service about itself: alive, ready, and its metrics."""

from __future__ import annotations

from typing import TypedDict

from flask import Response, current_app

from gramwatt.service.api.access import Access
from gramwatt.service.api.routing import Routes
from gramwatt.service.api.support import service
from gramwatt.service.metrics import EXTENSION, Metrics
from gramwatt.service.usecases.status import jobs_by_state, require_ready

routes = Routes("service")


class StatusAnswer(TypedDict):
    """The state of the service itself."""

    status: str


@routes.get("/healthz", access=Access.OPEN)
def alive() -> StatusAnswer:
    """Whether the process answers; asks nothing of the database."""
    return {"status": "ok"}


@routes.get("/readyz", "not-ready", access=Access.READ)
def ready() -> StatusAnswer:
    """Whether the database can be reached and has this release's tables."""
    require_ready(service())
    return {"status": "ok"}


@routes.get("/metrics", media={"text/plain": None}, access=Access.READ_ALL)
def metrics() -> Response:
    """Counters of this process and jobs by state, in Prometheus' text format."""
    metrics: Metrics = current_app.extensions[EXTENSION]
    return Response(metrics.text(jobs_by_state(service())), content_type=metrics.media)
