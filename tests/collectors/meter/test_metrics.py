"""The figures of a running job as others poll them, out of real meters."""

from __future__ import annotations

import fcntl
import json
import math
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gramwatt.collectors.cli.run import WANDB
from gramwatt.collectors.meter import metrics
from gramwatt.collectors.meter.metrics import JobFigures
from gramwatt.collectors.settings.config import resolve
from gramwatt.collectors.spool.spool import SpoolFolder
from tests.collectors.doubles.processes import with_gpus
from tests.journals import START, Writer, journal, lines

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
def environ(tmp_path):
    """A machine with one GPU of 300 W, whose counter is as good as continuous."""
    own = {"GRAMWATT_HOME": str(tmp_path / "home"), "GRAMWATT_HOST_SOURCE": "model"}
    wave = {"type": "constant", "power_w": 300.0}
    gpu = with_gpus(tmp_path / "gpu.json", os.environ, {"waveform": wave, "update_period_s": 0.001})
    return {**os.environ, **own, **gpu, "GRAMWATT_ZONE": "FR"}


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


def test_a_running_job_is_polled_by_prometheus_and_wandb(environ, tmp_path):
    environ |= {WANDB: '{"mine": "http://a/metrics"}'}
    address = f"127.0.0.1:{free_port()}"
    kept = tmp_path / "polled"
    polls = ("-c", SCRIPT, str(kept), f"http://{address}/metrics")
    document, _ = run(environ, f"{address},wandb", *polls)
    families = {one.name: one for one in text_string_to_metric_families(kept.read_text())}
    energy, power = families["hw_energy_joules"], families["hw_power_watts"]
    assert (energy.type, power.type) == ("counter", "gauge")
    (gpu_j,) = [one.value for one in energy.samples if one.labels["hw_type"] == "gpu"]
    (gpu_w,) = [one.value for one in power.samples if one.labels["hw_type"] == "gpu"]
    # On a busy machine a reading may be 0.2 s off, of the 1.5 s.
    assert gpu_w == pytest.approx(300, rel=0.15)
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


@pytest.mark.parametrize("value", ["0.0.0.0:9464", "9464", "127.0.0.1:99999", "wandb", "a:1,b:2"])
def test_figures_are_served_to_this_machine_alone(value):
    found = resolve({"metrics": value})
    assert found.metrics is None
    assert "metrics is ignored" in found.notices[0].message


def test_a_counter_never_falls_though_a_reading_is_corrected(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics, "KEPT_S", 0.0)
    folder = tmp_path / "spool" / "job-1" / "n1"
    folder.mkdir(parents=True)
    path = folder / "w1.jsonl"
    figures = JobFigures(SpoolFolder(folder), resolve(), names=False)
    meter = Writer("w2", "n1", "job-1", t0=START)
    seen = []
    with path.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for energy_j in (1000.0, 900.0, 1100.0):
            device = meter.device("n1-cpu", device_class="cpu", name="Test Xeon", units=8.0)
            unknown = meter.device("n1-gpu", device_class="gpu", name="Unreadable")
            more = [device, unknown, meter.interval(0, 180, energy_j, "n1-cpu")]
            records = [*journal("job-1", node="n1", end_state=None), *more]
            path.write_bytes(b"\n".join(lines(records)) + b"\n")
            (shown, *_) = text_string_to_metric_families(figures.text())
            seen.append({one.labels["hw_id"]: one.value for one in shown.samples})
    assert [row["n1-cpu"] for row in seen] == [1000.0, 1000.0, 1100.0]
    assert all(math.isnan(row["n1-gpu"]) for row in seen)  # unknown is not 0
