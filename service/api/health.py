"""The service about itself: alive, ready, and its metrics."""

from __future__ import annotations

from flask import Response, current_app
from msgspec import Struct

from gramwatt.service.api.access import Access, has_valid_key, whole_service
from gramwatt.service.api.routing import Routes
from gramwatt.service.api.support import service
from gramwatt.service.common.errors import NotReadyError
from gramwatt.service.metrics import EXTENSION, Metrics
from gramwatt.service.status import require_ready, store_measures
from gramwatt.service.tasks.runs import task_measures

routes = Routes("service")
ALIVE, READY = "service.alive", "service.ready"
"""The endpoints of probes: the process answers; the database too."""


class StatusAnswer(Struct):
    """The state of the service itself."""

    status: str


@routes.get("/healthz", access=Access.OPEN)
def alive() -> StatusAnswer:
    """Return whether the process answers; asks nothing of the database."""
    return StatusAnswer(status="ok")


@routes.get("/readyz", "not-ready", access=Access.OPEN)
def ready() -> StatusAnswer:
    """Say that the database can be reached and has this release's tables.

    Probes have no key, so it needs none; the reason for a 503 is told to a valid key only.
    """
    try:
        require_ready(whole_service())
    except NotReadyError:
        if has_valid_key():
            raise
        raise NotReadyError("not ready; a key is told why") from None
    return StatusAnswer(status="ok")


@routes.get("/metrics", media={"text/plain": None}, access=Access.METRICS_ALL)
def metrics() -> Response:
    """Requests and lines counted, and what the store holds, in Prometheus' text format.

    While the database is away the counters are answered all the same.
    """
    metrics: Metrics = current_app.extensions[EXTENSION]
    measures = store_measures(service())
    if len(measures) > 1:
        measures += task_measures(service())
    return Response(metrics.text(measures), content_type=metrics.media)
