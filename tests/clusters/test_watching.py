"""Debian's Prometheus scrapes a server: deletions, no scheduler ever, the dashboard."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from gramwatt.collectors.settings.keys import ensure_home_key
from tests.collectors.meter.test_metrics import free_port
from tests.journals import body, journal
from tests.packages import ROOT
from tests.service.processes import DIRECT, KEYS, eventually, get, running, send

BINARY = Path(os.environ.get("GRAMWATT_CLUSTERS", "")) / "prometheus/usr/bin/prometheus"
DEPLOY = ROOT / "deploy"
ENERGY = "max(gramwatt_project_energy_joules)"


@pytest.fixture
def address(tmp_path):
    """A server of gunicorn, beside which no scheduler runs."""
    command = ("gunicorn", "--config", str(DEPLOY / "gunicorn.conf.py"))
    with running(tmp_path, *command, GRAMWATT_BIND="127.0.0.1:0") as process:
        address = process.says(r"Listening at: (\S+) ")[1]
        key = ensure_home_key(tmp_path / "home")
        KEYS[address] = {"Authorization": f"Bearer {key}"}
        eventually(lambda: process.text.count("Booting worker") == 2, 60)
        yield address


@pytest.fixture
def prometheus(tmp_path, address):
    """A Prometheus with the alert rules, which scrapes the server once a second."""
    port, key = free_port(), KEYS[address]["Authorization"].removeprefix("Bearer ")
    job = {"job_name": "gramwatt", "authorization": {"credentials": key}}
    job |= {"static_configs": [{"targets": [address.removeprefix("http://")]}]}
    every = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    rules = [str(DEPLOY / "prometheus-alerts.yaml")]
    config = {"global": every, "scrape_configs": [job], "rule_files": rules}
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))
    line = [BINARY, f"--config.file={tmp_path / 'prometheus.yml'}"]
    line += [f"--storage.tsdb.path={tmp_path / 'data'}", f"--web.listen-address=127.0.0.1:{port}"]
    with (tmp_path / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(line, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    eventually(lambda: _values(url, "up == 1"), 60)
    yield url
    process.terminate()
    process.wait(20)


def _values(url: str, query: str) -> list[float]:
    address = f"{url}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    try:
        with DIRECT.open(address, timeout=10) as answer:
            document: Any = json.load(answer)
    except OSError:
        return []
    assert document["status"] == "success", document
    return [float(row["value"][1]) for row in document["data"]["result"]]


def test_what_is_deleted_is_gone_and_nobody_who_leads_is_an_alert(prometheus, address, tmp_path):
    for name in ("job-1", "job-2"):
        send(address, name, body(journal(name)))
        get(f"{address}/v1/jobs/{name}")
    (both,) = eventually(lambda: _values(prometheus, f"{ENERGY} > 0"), 60)
    eventually(lambda: _values(prometheus, ENERGY) == [both], 30)
    gone = urllib.request.Request(
        f"{address}/v1/jobs/job-2", headers=KEYS[address], method="DELETE"
    )
    DIRECT.open(gone, timeout=60).close()
    eventually(lambda: _values(prometheus, ENERGY) == [pytest.approx(both / 2)], 60)
    # Prometheus takes a counter that falls for one that began anew, and would add the rest.
    metadata = get_metadata(prometheus, "gramwatt_project_energy_joules")
    assert metadata["type"] == "gauge"
    nobody = 'ALERTS{alertname="GramwattNobodyLeads"}'
    eventually(lambda: _values(prometheus, nobody), 60)
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            _values(prometheus, target["expr"])
    with running(tmp_path, "gramwatt", "serve", "--only-tasks"):
        eventually(lambda: not _values(prometheus, nobody), 90)


def get_metadata(url: str, metric: str) -> Any:
    with DIRECT.open(f"{url}/api/v1/metadata?metric={metric}", timeout=10) as answer:
        return json.load(answer)["data"][metric][0]
