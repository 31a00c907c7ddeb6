"""The service's metrics in Prometheus' text format: counted in its processes, and measured.

Under gunicorn, PROMETHEUS_MULTIPROC_DIR names a folder in which every worker keeps its counters, so
that any worker answers with the sums. What the store knows is read when it is asked for, and is the
same from every process and host.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from flask import Flask, Response, g, request
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector

EXTENSION = "gramwatt-metrics"
METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
"""The methods that are labels; any other a caller has made up, and each would be a series."""
OTHER = "other"
SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""The variable by which prometheus_client shares counters among processes."""


class Measure(NamedTuple):
    """A figure of the store as it is now: its values by the values of its labels."""

    name: str
    help: str
    labels: tuple[str, ...]
    values: Mapping[tuple[str, ...], float]


class Metrics:
    """Counters of the requests of one app, or of all processes of a server."""

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
            "gramwatt_http_request_seconds", "Time to answer.", ("route",), registry=self.registry
        )
        self.lines = Counter(
            "gramwatt_ingest_lines",
            "Journal lines that arrived: accepted, duplicate or rejected.",
            ("outcome",),
            registry=self.registry,
        )
        for outcome in ("accepted", "duplicate", "rejected"):
            self.lines.labels(outcome)

    def count_lines(self, accepted: int, duplicate: int, rejected: int) -> None:
        """Count the lines of an upload that was answered."""
        self.lines.labels("accepted").inc(accepted)
        self.lines.labels("duplicate").inc(duplicate)
        self.lines.labels("rejected").inc(rejected)

    def text(self, measures: Iterable[Measure]) -> bytes:
        """Return the counters and these measures in Prometheus' text format."""
        counted = self.registry
        if os.environ.get(SHARED):
            counted = CollectorRegistry()
            MultiProcessCollector(counted)  # type: ignore[no-untyped-call]
        measured = CollectorRegistry()
        measured.register(_Measured(measures))
        return generate_latest(counted) + generate_latest(measured)

    def install(self, app: Flask) -> None:
        """Count every request of the app, whose beginning `logs` notes; by route, not by address,
        to keep the series few.
        """
        app.extensions[EXTENSION] = self
        app.after_request(self._stop)

    def _stop(self, response: Response) -> Response:
        route = request.url_rule.rule if request.url_rule else "none"
        method = request.method if request.method in METHODS else OTHER
        self.requests.labels(route, method, str(response.status_code)).inc()
        self.seconds.labels(route).observe(time.perf_counter() - g.request_began_s)
        return response


class _Measured:
    """Measures as prometheus_client's registry takes them."""

    def __init__(self, measures: Iterable[Measure]) -> None:
        self._measures = list(measures)

    def collect(self) -> Iterator[Metric]:
        for name, text, labels, values in self._measures:
            family = GaugeMetricFamily(name, text, labels=labels)  # a counter would never fall
            for key, value in values.items():
                family.add_metric(key, value)
            yield family
