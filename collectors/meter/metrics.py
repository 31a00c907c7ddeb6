"""The figures of a running job for monitoring: Prometheus on a loopback port, and OTLP over HTTP.

Only where the setting `metrics` asks. Threads that read the job's journal on this node, which the
meter's loop writes every 10 s; the loop shares nothing with them. Names and units are those of
OpenTelemetry's conventions for hardware (semconv 1.44, hw.energy and hw.power) and Prometheus'.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import unquote

from gramwatt import __version__
from gramwatt.collectors.common.background import SWITCH_S, in_background
from gramwatt.collectors.common.config import Config
from gramwatt.collectors.common.http import exchange, new_session
from gramwatt.collectors.common.metrics_setting import Metrics
from gramwatt.collectors.journal.spool import SpoolFolder

KEPT_S = 5.0
"""How long figures are given again [s]; the journal has new ones every 10 s."""
REQUEST_TIMEOUT_S = SEND_TIMEOUT_S = 5.0
SEND_EVERY_MS = 60_000
"""OTEL_METRIC_EXPORT_INTERVAL's default [ms] (OpenTelemetry specification)."""
TYPES = {"ram": "memory"}
"""`hw.type` of a class of devices whose name is another."""
SUFFIXES = {"J": "_joules", "W": "_watts", "g/h": "_grams_per_hour", "1": ""}

Labels = tuple[tuple[str, str], ...]


class Instrument(NamedTuple):
    """A figure by OpenTelemetry's name and unit, with its values by attributes."""

    name: str
    unit: str
    is_counter: bool
    help: str
    values: Mapping[Labels, float]


class JobFigures:
    """The figures of the devices, and of the work counted, in the folder of a job on this node."""

    def __init__(self, folder: SpoolFolder, config: Config, *, names: bool) -> None:
        self._folder = folder
        self._config = config
        self._names = names
        self._lock = Lock()
        self._made_at = 0.0
        self._made: list[Instrument] = []
        self._highest: dict[tuple[str, Labels], float] = {}

    @property
    def job_id(self) -> str:
        """Return the job's id."""
        return self._folder.job_id

    def instruments(self, kept_s: float = KEPT_S) -> list[Instrument]:
        """Return all figures, made at most `kept_s` ago [s]; none before the first line."""
        with self._lock:
            if time.monotonic() - self._made_at > kept_s:
                self._made, self._made_at = list(self._read()), time.monotonic()
            return self._made

    def _read(self) -> Iterable[Instrument]:
        from gramwatt.collectors.journal.live import (
            carbon_now,
            device_watts,
            power_now,
            scored_so_far,
        )

        scored = scored_so_far([self._folder], self._config)
        if scored is None:
            return
        job, document = scored
        devices: dict[str, Labels] = {
            device.record.device_id: (
                ("hw.id", device.record.device_id),
                ("hw.type", TYPES.get(device.record.device_class, device.record.device_class)),
            )
            for device in job.devices
        }
        energy_j = {
            devices[device.record.device_id]: sum(one.energy_j for one in device.intervals)
            for device in job.devices
        }
        power_w = {devices[name]: watts for (_, name), watts in device_watts(job).items()}
        work: dict[Labels, float] = {}
        for count in job.counts:
            labels = (("unit", count.unit),)
            work[labels] = work.get(labels, 0.0) + count.amount
        yield self._counter("hw.energy", "J", "Energy of the device since the job began", energy_j)
        yield Instrument("hw.power", "W", False, "Mean power of the newest 5 s or more", power_w)
        yield self._counter("gramwatt.work", "1", "Functional units R counted", work)
        rate = carbon_now(document, power_now(document, sum(power_w.values())))
        if rate is not None:
            text = "gCO2e per hour at this power, with embodied carbon"
            ends = ("", "", rate.value), (".low", ", low end", rate.low)
            for name, end, value in (*ends, (".high", ", high end", rate.high)):
                yield Instrument(f"gramwatt.co2e{name}", "g/h", False, text + end, {(): value})
        if self._names:
            names = (("project", document["project"]), ("name", document["name"]))
            yield Instrument("gramwatt.job.info", "1", False, "The job's names", {names: 1.0})

    def _counter(
        self, name: str, unit: str, text: str, values: Mapping[Labels, float]
    ) -> Instrument:
        # A reading that is known better later may be less, which would be read as a new begin.
        for labels, value in values.items():
            key = name, labels
            self._highest[key] = max(value, self._highest.get(key, 0.0))
        kept = {labels: self._highest[name, labels] for labels in values}
        return Instrument(name, unit, True, text, kept)


def prometheus_text(instruments: Sequence[Instrument], job_id: str) -> str:
    """Return the figures in Prometheus' text format 0.0.4, each with the job's id."""
    lines = []
    for one in instruments:
        name = (
            one.name.replace(".", "_") + SUFFIXES[one.unit] + ("_total" if one.is_counter else "")
        )
        lines.append(f"# HELP {name} {one.help}")
        lines.append(f"# TYPE {name} {'counter' if one.is_counter else 'gauge'}")
        for labels, value in one.values.items():
            pairs = (("job_id", job_id), *labels)
            shown = ",".join(f'{key.replace(".", "_")}="{_escaped(text)}"' for key, text in pairs)
            lines.append(f"{name}{{{shown}}} {value!r}")
    return "".join(f"{line}\n" for line in lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def otlp_request(
    instruments: Sequence[Instrument], resource: Mapping[str, str], start_ns: int, now_ns: int
) -> dict[str, Any]:
    """Return the figures as the JSON of an OTLP request; times are Unix times [ns]."""
    metrics = []
    for one in instruments:
        points = [
            {
                "attributes": _attributes(dict(labels)),
                "startTimeUnixNano": str(start_ns),
                "timeUnixNano": str(now_ns),
                "asDouble": value,
            }
            for labels, value in one.values.items()
        ]
        data: dict[str, Any] = {"gauge": {"dataPoints": points}}
        if one.is_counter:  # 2: cumulative
            total = {"aggregationTemporality": 2, "isMonotonic": True, "dataPoints": points}
            data = {"sum": total}
        metrics.append({"name": one.name, "unit": one.unit, "description": one.help, **data})
    scope = {"scope": {"name": "gramwatt", "version": __version__}, "metrics": metrics}
    about = {"attributes": _attributes(resource)}
    return {"resourceMetrics": [{"resource": about, "scopeMetrics": [scope]}]}


def _attributes(values: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": text}} for key, text in values.items()]


class Exporter:
    """Serves and sends a job's figures until the process ends; a failure is one notice."""

    def __init__(
        self,
        figures: JobFigures,
        metrics: Metrics,
        environ: Mapping[str, str],
        notify: Callable[[str, str], None],
    ) -> None:
        self._figures = figures
        self._environ = environ
        self._notify = notify
        self._start_ns = time.time_ns()
        self._endpoint: str | None = None
        sys.setswitchinterval(SWITCH_S)
        if metrics.port is not None:
            self._listen(str(metrics.host), metrics.port)
        if "otlp" in metrics.words:
            self._endpoint = self._otlp_endpoint()
            if self._endpoint:
                in_background(self._send_always)

    def last(self) -> list[Instrument]:
        """Return the figures at the job's end for `send`; none where none are sent."""
        return self._figures.instruments(kept_s=0.0) if self._endpoint else []

    def send(self, instruments: Sequence[Instrument]) -> None:
        """Send figures to the OTLP endpoint."""
        if not instruments or self._endpoint is None:
            return
        resource = {"service.name": self._environ.get("OTEL_SERVICE_NAME") or "gramwatt"}
        resource |= _pairs(self._environ.get("OTEL_RESOURCE_ATTRIBUTES"))
        resource["gramwatt.job_id"] = self._figures.job_id
        content = otlp_request(instruments, resource, self._start_ns, time.time_ns())
        try:
            headers = _pairs(self._environ.get("OTEL_EXPORTER_OTLP_HEADERS"))
            with new_session(repeats=False) as session:
                answer = exchange(
                    session, "POST", self._endpoint, SEND_TIMEOUT_S, json=content, headers=headers
                )
            problem = "" if answer.ok else f"HTTP {answer.status_code}"
        except OSError as error:  # those of requests are
            problem = type(error).__name__
        if problem:
            self._failed("figures did not reach OTEL_EXPORTER_OTLP_ENDPOINT", problem)

    def _listen(self, host: str, port: int) -> None:
        figures = self._figures

        class Handler(BaseHTTPRequestHandler):
            timeout = REQUEST_TIMEOUT_S

            def do_GET(self) -> None:
                try:
                    text = prometheus_text(figures.instruments(), figures.job_id)
                except Exception as error:
                    self.send_error(503, type(error).__name__)
                    return
                body = text.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Log nothing: the meter has no output."""

        class Server(HTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

            def handle_error(self, *_: Any) -> None:
                """Say nothing of a client that has gone."""

        try:
            server = Server((host, port), Handler)
        except OSError as error:
            why = f"{error.strerror}; set GRAMWATT_METRICS to another port"
            self._failed(f"no figures are served at {host}:{port}", why)
            return
        in_background(server.serve_forever)

    def _otlp_endpoint(self) -> str | None:
        own = self._environ.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
        base = self._environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
        protocol = self._environ.get("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL") or self._environ.get(
            "OTEL_EXPORTER_OTLP_PROTOCOL"
        )
        if protocol == "grpc":
            self._failed("figures go by HTTP only", "OTEL_EXPORTER_OTLP_PROTOCOL is grpc")
        elif own or base:
            return own or f"{str(base).rstrip('/')}/v1/metrics"
        else:
            self._failed("no figures are sent", "OTEL_EXPORTER_OTLP_ENDPOINT is not set")
        return None

    def _send_always(self) -> None:
        try:
            every_s = int(self._environ["OTEL_METRIC_EXPORT_INTERVAL"]) / 1000
        except (KeyError, ValueError):
            every_s = SEND_EVERY_MS / 1000
        while True:
            time.sleep(max(every_s, 1.0))
            try:
                self.send(self._figures.instruments())
            except Exception as error:
                self._failed("figures could not be made", repr(error)[:100])

    def _failed(self, what: str, why: str) -> None:
        self._notify("integration-failed", f"{what}: {why}.")


def start_exporter(
    folder: SpoolFolder, config: Config, notify: Callable[[str, str], None]
) -> Exporter | None:
    """Start what the setting asks for; None where it asks for nothing."""
    if config.metrics is None:
        return None
    figures = JobFigures(folder, config, names="names" in config.metrics.words)
    return Exporter(figures, config.metrics, os.environ, notify)


def _pairs(text: str | None) -> dict[str, str]:
    """Return the values of `key=value,...`, percent-encoded as in OpenTelemetry's variables."""
    parts = [part.partition("=") for part in (text or "").split(",")]
    return {key.strip(): unquote(value.strip()) for key, equals, value in parts if equals}
