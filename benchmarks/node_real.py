"""`gramwatt node` on a machine with one NVIDIA GPU: jobs and rest against the board's own counter.

    python benchmarks/node_real.py [SECONDS]

Needs torch and nvidia-ml-py only, and takes less than two minutes (SECONDS, 12 by default, is the
length of each phase). Two torch processes work on the board, one after the other and then together,
each as a Slurm job of its own (by its environment: no cgroup is made here). Prints a JSON object;
exit code 1 where jobs and rest differ from the counter by more than 0.5 %.

NVML names processes by the numbers of the machine. In a container that does not share these, the
agent cannot see whose they are: `seen` is false, and all is the rest, which must be the counter
all the same.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PHASE_S = 12.0
TOLERANCE = 0.005
WORK = """
import sys, time, torch
size = int(sys.argv[2])
a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
torch.cuda.synchronize()
print("begins", flush=True)
until = time.monotonic() + float(sys.argv[1])
while time.monotonic() < until:
    for _ in range(20):
        a @ a
    torch.cuda.synchronize()
"""
AGENT = """
import sys
from pathlib import Path
from gramwatt.collectors.common.config import resolve
from gramwatt.collectors.node.run import Places, run_node
places = Places(None, Path("/var/log/pods"), Path("/sys/fs/cgroup"), None)
sys.exit(run_node(resolve(), Path(sys.argv[1]), places))
"""
"""`gramwatt node` without the command, whose packages such a machine may lack."""


def task(number: int, size: int, for_s: float) -> subprocess.Popen[bytes]:
    """Start a torch process as Slurm job `number` and wait until it works."""
    environ = {**os.environ, "SLURM_JOB_ID": str(number), "SLURM_JOB_NAME": f"matrix of {size}"}
    line = [sys.executable, "-c", WORK, str(for_s), str(size)]
    process = subprocess.Popen(line, env=environ, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def agent(home: str) -> subprocess.Popen[str]:
    environ = {**os.environ, "GRAMWATT_HOME": home, "PYTHONPATH": str(ROOT / "src")}
    line = [sys.executable, "-c", AGENT, home]
    found = subprocess.Popen(line, env=environ, stderr=subprocess.PIPE, text=True)
    assert found.stderr is not None
    while "the journal is in" not in (text := found.stderr.readline()):
        print(text, end="", file=sys.stderr)
        if not text:
            raise SystemExit("the agent did not begin")
    return found


def journaled(home: Path, board: str) -> dict[str, dict[str, Any]]:
    """Energy of the board by job [J], with its kinds and span."""
    spans: dict[tuple[str, str], dict[str, Any]] = {}
    for path in home.glob("spool/*/*/*"):
        if path.suffix not in (".jsonl", ".open"):
            continue
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if record.get("type") != "interval" or record["device_id"] != board:
                continue
            key = record["job_id"], record["start"]
            if key not in spans or spans[key]["end"] < record["end"]:
                spans[key] = record
    found: dict[str, dict[str, Any]] = defaultdict(lambda: {"energy_j": 0.0, "kinds": []})
    for (job, start), record in sorted(spans.items()):
        one = found[job]
        one["energy_j"] = round(one["energy_j"] + record["energy_j"], 3)
        one["kinds"] = sorted({*one["kinds"], record["kind"]})
        one["from"], one["to"] = one.get("from", start), record["end"]
    return dict(found)


def main() -> int:
    import pynvml

    phase_s = float(sys.argv[1]) if len(sys.argv) > 1 else PHASE_S
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    counted: list[tuple[float, int]] = []

    def count() -> None:
        """Read the counter at one of its ticks."""
        first_mj = now_mj = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
        while now_mj == first_mj:
            time.sleep(0.001)
            now_mj = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
        counted.append((time.time(), now_mj))

    def pids() -> list[int]:
        return [one.pid for one in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)]

    phases: dict[str, float] = {}
    listed: dict[str, Any] = {}

    def phase(name: str, *tasks: subprocess.Popen[bytes]) -> None:
        began_mj = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
        time.sleep(phase_s / 2)
        listed[name] = {"nvml": pids(), "started": [one.pid for one in tasks]}
        for one in tasks:
            one.wait()
        if not tasks:
            time.sleep(phase_s / 2)
        ended_mj = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
        phases[name] = round((ended_mj - began_mj) / 1000, 3)

    with tempfile.TemporaryDirectory() as home:
        process = agent(home)
        count()
        phase("idle")
        phase("first", task(1, 8192, phase_s))
        phase("second", task(2, 2048, phase_s))
        both = [task(3, 8192, phase_s + 6), task(4, 2048, phase_s)]
        phase("together", *both)
        count()
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
        print(said, end="", file=sys.stderr)
        found = journaled(Path(home), str(pynvml.nvmlDeviceGetUUID(handle)))
        spool_b = sum(path.stat().st_size for path in Path(home).rglob("*") if path.is_file())
    # The agent begins before the first count and ends after the last: its edges, a second at most,
    # are taken out at the idle power.
    (first_s, first_mj), (last_s, last_mj) = counted
    counter_j, sum_j = (last_mj - first_mj) / 1000, sum(one["energy_j"] for one in found.values())
    edges_s = -(last_s - first_s) + _length_s(found)
    idle_w = phases["idle"] / phase_s
    error = (sum_j - edges_s * idle_w) / counter_j - 1
    mine = {pid for one in listed.values() for pid in one["started"]}
    document = {
        "board": str(pynvml.nvmlDeviceGetName(handle)),
        "driver": str(pynvml.nvmlSystemGetDriverVersion()),
        "counter_j": counter_j,
        "jobs_and_rest_j": round(sum_j, 3),
        "edges_s": round(edges_s, 3),
        "idle_w": round(idle_w, 1),
        "relative_error": round(error, 6),
        "seen": any(mine & set(one["nvml"]) for one in listed.values()),
        "processes": listed,
        "phases_j": phases,
        "jobs": found,
        "home_b": spool_b,
    }
    print(json.dumps(document, indent=2))
    return 0 if abs(error) <= TOLERANCE else 1


def _length_s(found: dict[str, dict[str, Any]]) -> float:
    """Return the time from the first interval's start to the last one's end [s]."""
    from datetime import datetime

    first = min(datetime.fromisoformat(one["from"]) for one in found.values())
    last = max(datetime.fromisoformat(one["to"]) for one in found.values())
    return (last - first).total_seconds()


if __name__ == "__main__":
    sys.exit(main())
