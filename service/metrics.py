"""The service's own metrics, in a Prometheus registry per app."""

from __future__ import annotations

import time
from collections.abc import Mapping

from flask import Flask, Response, g, request
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

EXTENSION = "gramwatt-metrics"


class Metrics:
    """Counters of requests and jobs of one app."""

    media = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "gramwatt_http_requests",
            "Requests answered.",
            ("route", "method", "status"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "gramwatt_http_request_seconds",
            "Time to answer.",
            ("route",),
            registry=self.registry,
        )
        self.jobs = Gauge("gramwatt_jobs", "Jobs by state.", ("state",), registry=self.registry)

    def text(self, jobs_by_state: Mapping[str, int]) -> bytes:
        """All metrics in Prometheus' text format."""
        for state, count in jobs_by_state.items():
            self.jobs.labels(state).set(count)
        return generate_latest(self.registry)

    def install(self, app: Flask) -> None:
        """Count every request of the app; by route, not by address, to keep the series few."""
        app.extensions[EXTENSION] = self
        app.before_request(_start)
        app.after_request(self._stop)

    def _stop(self, response: Response) -> Response:
        route = request.url_rule.rule if request.url_rule else "none"
        self.requests.labels(route, request.method, str(response.status_code)).inc()
        self.seconds.labels(route).observe(
            time.perf_counter() - g.get("started_s", time.perf_counter())
        )
        return response


def _start() -> None:
    g.started_s = time.perf_counter()
