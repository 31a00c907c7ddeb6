"""One tool around one sleeping job; run by each tool's own interpreter, standard library only.

    python drivers.py TOOL SECONDS

Prints one JSON line: `start_s` and `stop_s`, the job's own span by CLOCK_BOOTTIME, and what the
tool says of the GPU [J].
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

J_PER_KWH = 3.6e6


def boot_s() -> float:
    """Time since boot [s]."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def job(seconds: float) -> dict[str, float]:
    """Sleep; the wave goes on by itself."""
    start_s = boot_s()
    time.sleep(seconds)
    return {"start_s": start_s, "stop_s": boot_s()}


def gramwatt(seconds: float) -> dict[str, object]:
    """Our own track, with its meter process reading the library through nvidia-ml-py."""
    os.environ["GRAMWATT_JOB_ID"] = "accuracy"
    from gramwatt import track

    with track(project="accuracy"):
        wait_for("*.open")
        span = job(seconds)
    journal = []
    for path in files("*.jsonl"):
        with open(path, "rb") as stream:
            journal += [json.loads(line) for line in stream]
    return {**span, "journal": journal}


def files(pattern: str) -> list[str]:
    """Files of our job's journal."""
    home = os.environ["GRAMWATT_HOME"]
    # Its id ends in a checksum of the project.
    return glob.glob(os.path.join(home, "spool", "accuracy*", "*", pattern))


def wait_for(pattern: str) -> None:
    """Wait until our meter has taken its first reading."""
    deadline = time.monotonic() + 20
    while not files(pattern) and time.monotonic() < deadline:
        time.sleep(0.005)


def codecarbon(seconds: float) -> dict[str, float]:
    """The offline tracker, every second, as its documentation suggests for short jobs."""
    from codecarbon import OfflineEmissionsTracker

    tracker = OfflineEmissionsTracker(
        country_iso_code="FRA", measure_power_secs=1, save_to_file=False, log_level="critical"
    )
    tracker.start()
    span = job(seconds)
    tracker.stop()
    return {**span, "energy_j": tracker.final_emissions_data.gpu_energy * J_PER_KWH}


def zeus(seconds: float) -> dict[str, float]:
    """ZeusMonitor: a window between two counter readings."""
    from zeus.monitor import ZeusMonitor

    monitor = ZeusMonitor(gpu_indices=[0])
    monitor.begin_window("job", sync_execution=False)  # there is no framework to wait for
    span = job(seconds)
    window = monitor.end_window("job", sync_execution=False)
    return {**span, "energy_j": sum(window.gpu_energy.values())}


def zeus_power(seconds: float) -> dict[str, float]:
    """Zeus's PowerMonitor: sampled power."""
    from zeus.monitor import PowerMonitor

    monitor = PowerMonitor(gpu_indices=[0])
    deadline = time.monotonic() + 30  # its sampling processes import everything once more
    while not monitor.get_power() and time.monotonic() < deadline:
        time.sleep(0.2)
    start = time.time()
    span = job(seconds)
    energy_j = monitor.get_energy(start, time.time())[0]
    monitor.stop()
    return {**span, "energy_j": energy_j}


def carbontracker(seconds: float) -> dict[str, float]:
    """One epoch, read every second; its own figures before they are multiplied by a PUE."""
    from carbontracker.tracker import CarbonTracker

    tracker = CarbonTracker(  # of two epochs, because it lets go of its figures after the last
        epochs=2, monitor_epochs=2, update_interval=1, components="gpu", verbose=0
    )
    inner = tracker.tracker
    tracker.epoch_start()
    span = job(seconds)
    tracker.epoch_end()
    kwh = sum(sum(part.energy_usage(inner.epoch_times)) for part in inner.components)
    tracker.stop()
    return {**span, "energy_j": float(kwh) * J_PER_KWH}


def eco2ai(seconds: float) -> dict[str, float]:
    """The tracker as it comes, every 10 s; the GPU's part of its figure."""
    from eco2ai import Tracker

    tracker = Tracker(project_name="p", experiment_description="e", alpha_2_code="FR")
    tracker.start()
    gpu = tracker._gpu
    span = job(seconds)
    tracker.stop()
    return {**span, "energy_j": gpu.get_consumption() * J_PER_KWH}


def perun(seconds: float) -> dict[str, float]:
    """`perun monitor` around a script."""
    script = "import sys; sys.argv = ['', 'job', '{}']\nexec(open({!r}).read())\n"
    with open("job.py", "w") as stream:
        stream.write(script.format(seconds, os.path.abspath(__file__)))
    line = [os.path.join(os.path.dirname(sys.executable), "perun"), "-l", "ERROR", "monitor"]
    line += ["-f", "json", "--data-out", "out", "job.py"]
    done = subprocess.run(line, check=True, capture_output=True, text=True)
    span = json.loads(next(ln for ln in done.stdout.splitlines() if ln.startswith('{"start_s"')))
    with open(glob.glob("out/*.json")[0]) as stream:
        return {**span, "energy_j": gpu_energy_j(json.load(stream))}


def gpu_energy_j(node: object) -> float | None:
    """The first GPU energy in perun's tree of results [J]."""
    if isinstance(node, dict):
        metric = node.get("gpu_energy")
        if isinstance(metric, dict) and "value" in metric:
            return float(metric["value"])
        found = (gpu_energy_j(child) for child in node.values())
        return next((value for value in found if value is not None), None)
    if isinstance(node, list):
        found = (gpu_energy_j(child) for child in node)
        return next((value for value in found if value is not None), None)
    return None


TOOLS: dict[str, Callable[[float], dict[str, float]]] = {
    tool.__name__: tool
    for tool in (gramwatt, codecarbon, zeus, zeus_power, carbontracker, eco2ai, perun, job)
}

if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        answer = TOOLS[sys.argv[1]](float(sys.argv[2]))
    print(json.dumps(answer), flush=True)
