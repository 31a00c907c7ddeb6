"""A wrapper killed alone, and GPUs that never answer: nothing is lost, nothing is taken for 0."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gramwatt.collectors.spool import folders
from gramwatt.sci.annual import AnnualIntensity
from gramwatt.sci.catalog import load_catalog
from gramwatt.sci.merge import merge
from gramwatt.sci.records import decode
from gramwatt.sci.score import ScoreContext, score
from tests.collectors.rig import energy_j

POWER_W = 300.0


def environ(home: Path, spec: dict[str, object]) -> dict[str, str]:
    """A home of its own and this synthetic NVML."""
    file = home.with_suffix(".json")
    file.write_text(json.dumps(spec))
    return {
        **os.environ,
        "GRAMWATT_HOME": str(home),
        "GRAMWATT_NVML": f"synthetic:{file}",
        "GRAMWATT_HOST_SOURCE": "model",
        "GRAMWATT_QUIET": "1",
    }


def only_job(home: Path):
    """The one spooled job, once its meter has closed it."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = folders(home)
        if found and not found[0].is_live():
            return merge(decode(line) for line in found[0].lines())
        time.sleep(0.1)
    raise AssertionError("the meter did not close the job")


def test_a_command_whose_wrapper_was_killed_is_measured_to_its_end(tmp_path: Path) -> None:
    spec = {"gpus": [{"waveform": {"type": "constant", "power_w": POWER_W}}]}
    home = tmp_path / "home"
    started, ended = tmp_path / "started", tmp_path / "ended"
    script = f"touch {started}; sleep 4; touch {ended}"
    command = [sys.executable, "-m", "gramwatt", "run", "--", "sh", "-c", script]
    wrapper = subprocess.Popen(command, env=environ(home, spec), stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while not started.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1)  # the meter hears of the command right after its start
    os.kill(wrapper.pid, signal.SIGKILL)
    wrapper.wait()
    job = only_job(home)
    assert ended.exists()
    assert job.state == "killed"
    booked_j = sum(energy_j(d.intervals) for d in job.devices if d.record.device_class == "gpu")
    assert booked_j == pytest.approx(POWER_W * job.duration_s, rel=0.05)
    assert job.duration_s >= 4


def test_gpus_that_never_answer_make_the_energy_unknown(tmp_path: Path) -> None:
    gpu = {"waveform": {"type": "constant", "power_w": POWER_W}}
    spec = {"gpus": [gpu], "faults": [{"type": "failing"}]}
    home = tmp_path / "home"
    script = "from gramwatt import track\nwith track(zone='DE', project='x'): pass"
    subprocess.run([sys.executable, "-c", script], env=environ(home, spec), check=True)
    catalog = load_catalog()
    document = score(only_job(home), ScoreContext(catalog, AnnualIntensity(catalog)))
    [row] = [row for row in document["devices"] if row["class"] == "gpu"]
    assert row["energy_j"] is None
    assert document["energy_kwh"] is None
    assert document["conformance"] == "not-sci"
