"""The figures of a running job for monitoring: Prometheus on a loopback port.

Only where the setting `metrics` asks. Threads that read the job's journal on this node, which the
meter's loop writes every 10 s; the loop shares nothing with them. Names and units are those of
OpenTelemetry's conventions for hardware (semconv 1.44, hw.energy and hw.power) as Prometheus has
them.
"""

from __future__ import annotations

import math
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Lock
from typing import Any

from gramwatt.collectors.settings.background import SWITCH_S, in_background
from gramwatt.collectors.settings.config import Config
from gramwatt.collectors.spool.spool import SpoolFolder

KEPT_S = 5.0
"""How long figures are given again [s]; the journal has new ones every 10 s."""
REQUEST_TIMEOUT_S = 5.0
TYPES = {"ram": "memory"}
"""`hw_type` of a class of devices whose name is another."""

Labels = tuple[tuple[str, str], ...]


class JobFigures:
    """The figures of the devices, and of the work counted, in the folder of a job on this node."""

    def __init__(self, folder: SpoolFolder, config: Config, *, names: bool) -> None:
        self._folder = folder
        self._config = config
        self._names = names
        self._lock = Lock()
        self._made_at = 0.0
        self._made = ""
        self._highest: dict[tuple[str, Labels], float] = {}

    def text(self) -> str:
        """Return all figures in Prometheus' text format 0.0.4, each with the job's id, made at most
        KEPT_S ago; empty before the first line.
        """
        with self._lock:
            if time.monotonic() - self._made_at > KEPT_S:
                self._made, self._made_at = "".join(self._families()), time.monotonic()
            return self._made

    def _families(self) -> Iterable[str]:
        from gramwatt.collectors.spool.live import carbon_now, device_watts, power_now
        from gramwatt.collectors.spool.score import scored_here

        scored = scored_here([self._folder], self._config)
        if scored is None:
            return
        job, document = scored
        devices: dict[str, Labels] = {}
        energy_j: dict[Labels, float] = {}
        for device in job.devices:
            name, kind = device.record.device_id, device.record.device_class
            labels = devices[name] = ("hw_id", name), ("hw_type", TYPES.get(kind, kind))
            joules = [interval.energy_j for interval in device.intervals]
            energy_j[labels] = sum(joules) if joules else math.nan
        power_w = {devices[name]: watts for (_, name), watts in device_watts(job).items()}
        work: dict[Labels, float] = {}
        for count in job.counts:
            unit = (("unit", count.unit),)
            work[unit] = work.get(unit, 0.0) + count.amount
        text = "Energy of the device since the job began, NaN where it is not known"
        yield self._counter("hw_energy_joules_total", text, energy_j)
        yield self._family(
            "hw_power_watts", "gauge", "Mean power of the newest 5 s or more", power_w
        )
        yield self._counter("gramwatt_work_total", "Functional units R counted", work)
        rate = carbon_now(document, power_now(document, sum(power_w.values())))
        if rate is not None:
            text = "gCO2e per hour at this power, with embodied carbon"
            ends = ("", "", rate.value), ("_low", ", low end", rate.low)
            for end, words, value in (*ends, ("_high", ", high end", rate.high)):
                name = f"gramwatt_co2e{end}_grams_per_hour"
                yield self._family(name, "gauge", text + words, {(): value})
        if self._names:
            names = (("project", document.project), ("name", document.name))
            yield self._family("gramwatt_job_info", "gauge", "The job's names", {names: 1.0})

    def _counter(self, name: str, text: str, values: Mapping[Labels, float]) -> str:
        # A reading that is known better later may be less, which would be read as a new begin.
        for labels, value in values.items():
            key = name, labels
            self._highest[key] = max(value, self._highest.get(key, 0.0))
        highest = {labels: self._highest[name, labels] for labels in values}
        return self._family(name, "counter", text, highest)

    def _family(self, name: str, kind: str, text: str, values: Mapping[Labels, float]) -> str:
        lines = [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
        for labels, value in values.items():
            pairs = (("job_id", self._folder.job_id), *labels)
            shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in pairs)
            lines.append(f"{name}{{{shown}}} {'NaN' if math.isnan(value) else repr(value)}")
        return "".join(f"{line}\n" for line in lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def serve_figures(folder: SpoolFolder, config: Config, notify: Callable[[str, str], None]) -> None:
    """Serve the figures where the setting asks for it, until the process ends.

    A port that cannot be had is a notice.
    """
    metrics = config.metrics
    if metrics is None:
        return
    figures = JobFigures(folder, config, names="names" in metrics.words)
    host, port = metrics.host, metrics.port
    sys.setswitchinterval(SWITCH_S)

    class Handler(BaseHTTPRequestHandler):
        timeout = REQUEST_TIMEOUT_S

        def do_GET(self) -> None:
            try:
                text = figures.text()
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
        notify("integration-failed", f"no figures are served at {host}:{port}: {why}.")
        return
    in_background(server.serve_forever)
