"""`gramwatt import prometheus` from Debian's Prometheus, which scrapes scripted exporters."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.answering import answering, send
from tests.service.cli.command import gramwatt

BINARY = Path(os.environ.get("GRAMWATT_CLUSTERS", "")) / "prometheus/usr/bin/prometheus"
BOARD = "GPU-6c2a6bd0-5d1f-4f7e-9d27-b8b6a6c6a001"
WATTS = 300.0
DCGM = """\
# HELP DCGM_FI_DEV_POWER_USAGE Power draw (in W).
# TYPE DCGM_FI_DEV_POWER_USAGE gauge
DCGM_FI_DEV_POWER_USAGE{{{labels}}} 300.000000
# HELP DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION Total energy consumption since boot (in mJ).
# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{labels}}} {energy}
"""
LABELS = (
    f'gpu="0",UUID="{BOARD}",pci_bus_id="00000000:18:00.0",device="nvidia0",'
    'modelName="NVIDIA H100 80GB HBM3",Hostname="node-1",DCGM_FI_DRIVER_VERSION="570.86.15"'
)
POD = ',container="main",namespace="team-a",pod="train-0"'
KEPLER = """\
# TYPE kepler_pod_cpu_joules_total counter
kepler_pod_cpu_joules_total{{pod_id="0f8f5a52",pod_name="train-0",pod_namespace="team-a",\
node_name="node-1",zone="package",state="running"}} {pod}
kepler_pod_cpu_joules_total{{pod_id="0f8f5a52",pod_name="train-0",pod_namespace="team-a",\
node_name="node-1",zone="psys",state="running"}} {pod}
# TYPE kepler_node_cpu_joules_total counter
kepler_node_cpu_joules_total{{node_name="node-1",zone="package",path="/sys"}} {node}
"""


class Exporters:
    """What dcgm-exporter and Kepler write, with counters that run; a pod comes and goes."""

    def __init__(self) -> None:
        self.pod = False

    def text(self, path: str) -> str:
        now_s = time.time() % 1e6
        if path == "/dcgm":
            labels = LABELS + (POD if self.pod else "")
            return DCGM.format(labels=labels, energy=round(now_s * WATTS * 1000))
        return KEPLER.format(pod=now_s * 10, node=now_s * 40) if self.pod else ""


@pytest.fixture
def exporters():
    found = Exporters()

    def act(handler):
        send(handler, found.text(handler.path).encode(), **{"Content-Type": "text/plain"})

    with answering(act) as address:
        yield found, int(address.rpartition(":")[2])


@pytest.fixture
def prometheus(tmp_path, exporters):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    jobs = [
        {
            "job_name": name,
            "metrics_path": f"/{name}",
            "static_configs": [{"targets": [f"127.0.0.1:{exporters[1]}"]}],
        }
        for name in ("dcgm", "kepler")
    ]
    config = {"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))
    line = [BINARY, f"--config.file={tmp_path / 'prometheus.yml'}"]
    line += [f"--storage.tsdb.path={tmp_path / 'data'}", f"--web.listen-address=127.0.0.1:{port}"]
    with (tmp_path / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(line, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"{url}/api/v1/query?query=up==1", timeout=1) as answer:
                if len(json.load(answer)["data"]["result"]) == len(jobs):
                    break
        except OSError:
            pass
        time.sleep(0.2)
    yield url
    process.terminate()
    process.wait(20)


def test_jobs_come_out_of_a_real_prometheus(prometheus, exporters, tmp_path, monkeypatch):
    monkeypatch.setenv("GRAMWATT_HOME", str(tmp_path / "home"))
    (tmp_path / "map.toml").write_text(
        'zone = "FR"\n[[job]]\nby = ["namespace", "pod"]\nname = "{pod}"\n'
    )
    time.sleep(5)
    began = time.time()
    exporters[0].pod = True
    time.sleep(20)
    exporters[0].pod = False
    lasted_s = time.time() - began
    time.sleep(5)
    span = [datetime.fromtimestamp(at, UTC).isoformat() for at in (began - 60, time.time())]
    line = ["import", "prometheus", "--url", prometheus, "--map", str(tmp_path / "map.toml")]
    code, out, said = gramwatt(*line, "--from", span[0], "--to", span[1], "--json")
    assert code == 0, said
    answer = json.loads(out)
    assert answer["boards"] == 1
    assert WATTS * 8 < answer["nobody_j"] < WATTS * 30  # 5 s before and after it
    (job_id,) = answer["imported"]
    _, text, _ = gramwatt("job", job_id, "--json")
    document = json.loads(text)
    board_j, pod_j = WATTS * lasted_s, 10 * lasted_s
    assert document["energy_kwh"]["value"] * 3.6e6 == pytest.approx(board_j + pod_j, rel=0.08)
    most = {
        d["class"]: max(d["kinds"], key=d["kinds"].get) for d in document["devices"] if d["kinds"]
    }
    assert most == {"gpu": "measured", "cpu": "attributed"}
