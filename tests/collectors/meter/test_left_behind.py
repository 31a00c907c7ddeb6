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

from gramwatt.collectors.spool.spool import folders
from gramwatt.collectors.track.counts import JobFolder, clock_ns
from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.grid.zones import AnnualIntensity
from gramwatt.sci.records.merge import merge
from gramwatt.sci.records.records import decode
from gramwatt.sci.score.score import ScoreContext, score
from tests.collectors.doubles.processes import with_gpus
from tests.collectors.memory import file_of
from tests.collectors.rig import energy_j

POWER_W = 300.0
SPEC = {"gpus": [{"waveform": {"type": "constant", "power_w": POWER_W}}]}


def environ(home: Path, spec: dict[str, object]) -> dict[str, str]:
    """A home of its own and this synthetic NVML."""
    file = home.with_suffix(".json")
    file.write_text(json.dumps(spec))
    return {
        **os.environ,
        "GRAMWATT_HOME": str(home),
        **with_gpus(file, os.environ),
        "GRAMWATT_HOST_SOURCE": "model",
        # Nobody is there: else the store of this home takes the journal that the test reads.
        "GRAMWATT_SERVER": "http://127.0.0.1:9",
        "GRAMWATT_QUIET": "1",
    }


def only_job(home: Path):
    """The one spooled job, once its meter has closed it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = folders(home)
        if found and not found[0].is_live():
            return merge(decode(line) for line in found[0].lines())
        time.sleep(0.1)
    raise AssertionError("the meter did not close the job")


def until(path: Path) -> None:
    """Wait for a file that another process makes."""
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.02)


def meter_of(home: Path) -> int:
    """Process id of the meter that journals in `home`."""
    mine = f"GRAMWATT_HOME={home}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            environment = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"gramwatt.collectors.meter.main" in words and mine in environment:
            return int(folder.name)
    raise AssertionError("no meter runs here")


def assert_measured_to_its_end(home: Path, ended: Path, least_s: float) -> None:
    job = only_job(home)
    assert ended.exists()
    assert job.state == "killed"
    booked_j = sum(energy_j(d.intervals) for d in job.devices if d.record.device_class == "gpu")
    assert booked_j == pytest.approx(POWER_W * job.duration_s, rel=0.05)
    assert job.duration_s >= least_s


@pytest.mark.parametrize("meter", ["awake", "late"])
def test_a_command_whose_wrapper_was_killed_is_measured_to_its_end(tmp_path, meter):
    home = tmp_path / "home"
    started, ended = tmp_path / "started", tmp_path / "ended"
    go = tmp_path / "go"
    script = f"touch {started}; while [ ! -e {go} ]; do sleep 0.1; done; sleep 2; touch {ended}"
    command = [sys.executable, "-m", "gramwatt", "run", "--", "sh", "-c", script]
    wrapper = subprocess.Popen(command, env=environ(home, SPEC), stderr=subprocess.DEVNULL)
    until(started)
    time.sleep(0.5)  # the meter hears of the command right after its start
    reader = meter_of(home)
    if meter == "late":  # it finds the end of the channel and of the process in one look
        os.kill(reader, signal.SIGSTOP)
    os.kill(wrapper.pid, signal.SIGKILL)
    wrapper.wait()
    os.kill(reader, signal.SIGCONT)
    go.touch()
    assert_measured_to_its_end(home, ended, 2.5)


def test_a_meter_that_starts_after_its_wrapper_is_gone_measures_the_command(tmp_path):
    home, ended, go = (tmp_path / name for name in ("home", "ended", "go"))
    script = f"while [ ! -e {go} ]; do sleep 0.1; done; touch {ended}"
    child = subprocess.Popen(["/bin/sh", "-c", script])
    gone = subprocess.Popen(["true"])
    gone.wait()
    folder = JobFolder(str(tmp_path / "memory"))
    os.mkdir(folder.path)
    now = {"at_ns": clock_ns(), "wall_ns": time.time_ns()}
    first = {"job_id": "early", "role": "command", "pid": gone.pid, "began_ns": 1, **now}
    totals = file_of(folder, f"{gone.pid}-1-1", first)
    totals.append({"cmd": "begin", "pid": child.pid, "at_ns": clock_ns()})
    lock = folder.lock()
    assert lock is not None
    line = [sys.executable, "-m", "gramwatt.collectors.meter.main", folder.path]
    meter = subprocess.Popen(line, stdin=lock, env=environ(home, SPEC))
    os.close(lock)
    deadline = time.monotonic() + 60
    while not folders(home):
        assert time.monotonic() < deadline, "no journal was begun"
        time.sleep(0.02)
    time.sleep(2)
    go.touch()
    child.wait()
    assert meter.wait(timeout=60) == 0
    assert_measured_to_its_end(home, ended, 2)


def test_gpus_that_never_answer_make_the_energy_unknown(tmp_path):
    gpu = {"waveform": {"type": "constant", "power_w": POWER_W}}
    spec = {"gpus": [gpu], "faults": [{"type": "failing"}]}
    home = tmp_path / "home"
    script = "from gramwatt import track\nwith track(zone='DE', project='x'): pass"
    subprocess.run([sys.executable, "-c", script], env=environ(home, spec), check=True)
    catalog = load_catalog()
    document = score(only_job(home), ScoreContext(catalog, AnnualIntensity(catalog)))
    [row] = [row for row in document.devices if row.device_class == "gpu"]
    assert row.energy_j is None
    assert document.energy_kwh is None
    assert document.conformance == "not-sci"
