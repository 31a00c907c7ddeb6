"""Time and memory of a month's evidence bundle, made and verified by the commands.

    python -m benchmarks.evidence [--jobs 20000] [--store FOLDER]

Stores `--jobs` jobs of one GPU in a month (in a temporary folder, or in FOLDER, which is kept and
used again), and exports and verifies a tenth of them, in a project of its own, and all. Each is a
process of its own; memory is the largest resident set that the kernel saw of it. A bundle is
streamed, so ten times the jobs take little more memory: exit code 1 where it is above the limit.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gramwatt.sci.records.records import (
    AnyRecord,
    CountRecord,
    DeviceRecord,
    EndRecord,
    IntervalRecord,
    JobRecord,
    encode,
)
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.jobs.intake.local_spool import open_store

MONTH = "2026-06"
START = datetime(2026, 6, 1, tzinfo=UTC)
SMALL = "small"
"""The project of every tenth job."""
MEMORY_MOST_MB = 600.0
STEP = timedelta(minutes=5)


def records(number: int) -> Iterator[AnyRecord]:
    """A job of half an hour on one GPU."""
    start = START + timedelta(minutes=2 * (number % 20_000))
    who = {"job_id": f"job-{number:06d}", "node": "n-1", "writer": "w-1"}
    project = SMALL if number % 10 == 0 else "large"
    about = {"project": project, "zone": "DE", "pue": 1.2, "units": ("image",), "kind": "training"}
    yield JobRecord(**who, seq=1, started_at=start, role="command", **about)  # type: ignore[arg-type]
    device = {"device_id": "GPU-1", "kind": "measured"}
    hardware = {"device_class": "gpu", "name": "NVIDIA H100 80GB HBM3", "meter": "nvml-counter"}
    yield DeviceRecord(**who, seq=2, **device, **hardware)  # type: ignore[arg-type]
    for n in range(6):
        span = {"start": start + n * STEP, "end": start + (n + 1) * STEP}
        joules = 300.0 * (300 + number % 400)
        yield IntervalRecord(**who, seq=3 + n, **device, **span, energy_j=joules)  # type: ignore[arg-type]
    yield CountRecord(**who, seq=9, at=start + 6 * STEP, unit="image", amount=1000.0)
    yield EndRecord(**who, seq=10, ended_at=start + 6 * STEP, state="completed")


def fill(home: Path, jobs: int) -> None:
    """Store so many scored jobs, unless the store has some."""
    if (home / "gramwatt.db").exists():
        return
    service = open_store(home)
    for number in range(jobs):
        made = list(records(number))
        ingest(service, made[0].job_id, [encode(record).encode() for record in made])
    service.store.close()


def measured(home: Path, *arguments: str) -> tuple[float, float, float]:
    """Wall and processor time [s] and memory [MB] of a command."""
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    code = "import sys, resource; from gramwatt.__main__ import main\ntry: main()\nfinally: print("
    code += "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "GRAMWATT_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - wall
    if done.returncode:
        raise RuntimeError(done.stderr)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, int(done.stderr.split()[-1]) / 1000


def main() -> int:
    """Print the figures; 1 where the memory is above the limit."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--store", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        home = arguments.store or Path(temporary)
        fill(home, arguments.jobs)
        most = 0.0
        print(f"{'jobs':>8} {'command':<8} {'wall':>8} {'processor':>10} {'memory':>9} {'file':>8}")
        for only in (["--project", SMALL], []):
            jobs, file = arguments.jobs // (10 if only else 1), home / "bundle.zip"
            commands = {"export": (MONTH, *only, "-o", str(file)), "verify": (str(file),)}
            for name, given in commands.items():
                wall, cpu, memory = measured(home, "evidence", name, *given)
                most = max(most, memory)
                size = file.stat().st_size / 1e6
                print(
                    f"{jobs:>8} {name:<8} {wall:>6.1f} s {cpu:>8.1f} s {memory:>6.0f} MB "
                    f"{size:>5.1f} MB"
                )
    print(f"most {most:.0f} MB, limit {MEMORY_MOST_MB:.0f} MB, ratio {most / MEMORY_MOST_MB:.2f}")
    return int(most > MEMORY_MOST_MB)


if __name__ == "__main__":
    sys.exit(main())
