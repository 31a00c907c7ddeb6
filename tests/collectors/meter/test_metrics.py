"""The figures of a running job as others poll and receive them, out of real meters."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gramwatt.collectors.common.config import resolve
from gramwatt.collectors.common.metrics_setting import WANDB
from gramwatt.collectors.journal.spool import SpoolFolder
from gramwatt.collectors.meter.metrics import JobFigures
from tests.journals import START, Writer, journal, lines

RECEIVED: list[tuple[str, Mapping[str, str], Any]] = []
SCRIPT = """
import os, sys, time, urllib.request
from gramwatt import track
with track(unit="image", name="a secret") as job:
    job.count(64)
    time.sleep(1.5)
    job.metrics(so_far=True)  # has the meter write its journal
    with open(sys.argv[1], "wb") as kept:
        kept.write(urllib.request.urlopen(sys.argv[2], timeout=10).read())
with open(sys.argv[1] + ".wandb", "w") as kept:
    kept.write(os.environ["WANDB_X_STATS_OPEN_METRICS_ENDPOINTS"])
"""


@pytest.fixture
def receiver() -> Iterator[str]:
    """An OTLP receiver; its address."""

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            RECEIVED.append((self.path, dict(self.headers), json.loads(body)))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: Any) -> None:
            pass

    RECEIVED.clear()
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A machine with one GPU of 300 W."""
    spec = tmp_path / "gpu.json"
    spec.write_text(json.dumps({"gpus": [{"waveform": {"type": "constant", "power_w": 300.0}}]}))
    own = {"GRAMWATT_HOME": str(tmp_path / "home"), "GRAMWATT_HOST_SOURCE": "model"}
    return {**os.environ, **own, "GRAMWATT_NVML": f"synthetic:{spec}", "GRAMWATT_ZONE": "FR"}


def run(environ: Mapping[str, str], metrics: str, *command: str) -> tuple[dict[str, Any], str]:
    """Run a command with `--metrics`; the job's document, and what gramwatt printed."""
    summary = Path(environ["GRAMWATT_HOME"]).parent / "job.json"
    options = ["--metrics", metrics, "--json-summary", str(summary)]
    line = [sys.executable, "-m", "gramwatt", "run", *options, "--", sys.executable, *command]
    done = subprocess.run(line, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(summary.read_text()), done.stderr


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def test_a_running_job_is_polled_by_prometheus_and_wandb_and_sent_by_otlp(
    environ, receiver, tmp_path
):
    environ |= {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver, WANDB: '{"mine": "http://a/metrics"}'}
    environ["OTEL_EXPORTER_OTLP_HEADERS"] = "x-key=a%20b"
    address = f"127.0.0.1:{free_port()}"
    kept = tmp_path / "polled"
    document, _ = run(
        environ, f"{address},otlp,wandb", "-c", SCRIPT, str(kept), f"http://{address}/metrics"
    )
    families = {one.name: one for one in text_string_to_metric_families(kept.read_text())}
    energy, power = families["hw_energy_joules"], families["hw_power_watts"]
    assert (energy.type, power.type) == ("counter", "gauge")
    (gpu_j,) = [one.value for one in energy.samples if one.labels["hw_type"] == "gpu"]
    (gpu_w,) = [one.value for one in power.samples if one.labels["hw_type"] == "gpu"]
    assert gpu_w == pytest.approx(300, rel=0.05)
    assert gpu_j > 300  # of more than a second
    (work,) = families["gramwatt_work"].samples
    assert (work.value, work.labels["unit"]) == (64, "image")
    low, value, high = [
        families[f"gramwatt_co2e{end}_grams_per_hour"].samples[0].value
        for end in ("_low", "", "_high")
    ]
    assert 0 < low < value < high
    everything = [sample for family in families.values() for sample in family.samples]
    assert {sample.labels["job_id"] for sample in everything} == {document["job_id"]}
    assert "secret" not in kept.read_text()
    polled = json.loads(Path(f"{kept}.wandb").read_text())
    assert polled == {"mine": "http://a/metrics", "gramwatt": f"http://{address}/metrics"}

    path, headers, content = RECEIVED[-1]
    assert (path, headers["x-key"]) == ("/v1/metrics", "a b")
    (told,) = content["resourceMetrics"]
    about = {one["key"]: one["value"]["stringValue"] for one in told["resource"]["attributes"]}
    assert about == {"service.name": "gramwatt", "gramwatt.job_id": document["job_id"]}
    sent = {one["name"]: one for one in told["scopeMetrics"][0]["metrics"]}
    assert (sent["hw.energy"]["unit"], sent["hw.power"]["unit"]) == ("J", "W")
    assert sent["hw.energy"]["sum"]["isMonotonic"] is True
    points = sent["hw.energy"]["sum"]["dataPoints"]
    whole_j = sum(point["asDouble"] for point in points)  # the last figures are those of the end
    assert whole_j / 3.6e6 == pytest.approx(document["energy_kwh"]["value"], rel=0.01)


def test_a_taken_port_and_a_receiver_that_is_down_are_a_notice_each(environ):
    environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:9"
    environ["OTEL_METRIC_EXPORT_INTERVAL"] = "1000"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        document, printed = run(environ, f"{address},otlp", "-c", "import time; time.sleep(4)")
    found = [one["message"] for one in document["notices"] if one["code"] == "integration-failed"]
    assert len(found) == 2, found
    assert "ConnectionError" in min(found, key=lambda text: address in text)
    assert [address in text for text in found].count(True) == printed.count(address) == 1


@pytest.mark.parametrize("value", ["0.0.0.0:9464", "9464", "127.0.0.1:99999", "wandb", "a:1,b:2"])
def test_figures_are_served_to_this_machine_alone(value):
    found = resolve({"metrics": value})
    assert found.metrics is None
    assert "metrics is ignored" in found.notices[0].message


def test_a_counter_never_falls_though_a_reading_is_corrected(tmp_path):
    folder = tmp_path / "spool" / "job-1" / "n1"
    folder.mkdir(parents=True)
    path = folder / "w1.jsonl"
    figures = JobFigures(SpoolFolder(folder), resolve(), names=False)
    meter = Writer("w2", "n1", "job-1", t0=START)
    seen = []
    with path.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for energy_j in (1000.0, 900.0, 1100.0):
            device = meter.device("n1-cpu", device_class="cpu", name="Test CPU", units=8.0)
            more = [device, meter.interval(0, 180, energy_j, "n1-cpu")]
            records = [*journal("job-1", node="n1", end_state=None), *more]
            path.write_bytes(b"\n".join(lines(records)) + b"\n")
            energy = next(one for one in figures.instruments(0.0) if one.name == "hw.energy")
            seen += [
                joules for labels, joules in energy.values.items() if ("hw.type", "cpu") in labels
            ]
    assert seen == [1000.0, 1000.0, 1100.0]
