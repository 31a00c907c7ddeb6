"""Prometheus' own checker reads what a running job serves, and the alert rules."""

import os
import subprocess
import sys

from tests.collectors.doubles.processes import with_gpus
from tests.collectors.meter.test_metrics import free_port

POLL = """
import sys, time, urllib.request
from gramwatt import track
with track(unit="image") as job:
    job.count(64)
    text = ""
    while "gramwatt_co2e_grams_per_hour" not in text:
        time.sleep(0.5)
        text = urllib.request.urlopen(f"http://{sys.argv[1]}/metrics", timeout=10).read().decode()
print(text)
"""


PROMTOOL = f"{os.environ['GRAMWATT_CLUSTERS']}/prometheus/usr/bin/promtool"


def test_the_text_of_a_running_job_has_no_fault(tmp_path):
    wave = {"type": "constant", "power_w": 300.0}
    environ = {**os.environ, "GRAMWATT_HOME": str(tmp_path / "home"), "GRAMWATT_ZONE": "FR"}
    environ |= with_gpus(tmp_path / "gpu.json", os.environ, {"waveform": wave})
    environ["GRAMWATT_HOST_SOURCE"] = "model"
    address = f"127.0.0.1:{free_port()}"
    run = [sys.executable, "-m", "gramwatt", "run", "--metrics", f"{address},names", "--"]
    line = [*run, sys.executable, "-c", POLL, address]
    polled = subprocess.run(
        line, env=environ, capture_output=True, text=True, check=True, timeout=120
    )
    assert {"hw_power_watts", "gramwatt_job_info"} <= {
        text.split()[2] for text in polled.stdout.splitlines() if text.startswith("# TYPE ")
    }
    checked = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=polled.stdout, capture_output=True, text=True
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_the_alert_rules_can_be_loaded(root):
    rules = root / "deploy" / "prometheus-alerts.yaml"
    subprocess.run([PROMTOOL, "check", "rules", str(rules)], check=True, capture_output=True)
