"""What measuring costs, beside codecarbon's tracker in the same run.

    python benchmarks/meter_cost.py [--seconds 30]

Prints a table: processor time, memory and wake-ups of the meter for 1 and 8 synthetic GPUs at one
reading a second (without its codecarbon process), the client's import, start and mark, and the same
of codecarbon's OfflineEmissionsTracker measuring every second. Limits are those of the design; the
figures are this machine's, and nothing is asserted. Linux only: it reads /proc.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

SETTLE_S = 8.0
"""codecarbon starts within 2 to 7 s; both are left alone that long before they are watched."""
IMPORT_RUNS = 7

CODECARBON = """
import resource, sys, time
began = time.perf_counter()
from codecarbon import OfflineEmissionsTracker
imported = time.perf_counter()
tracker = OfflineEmissionsTracker(
    country_iso_code="FRA", measure_power_secs=1, api_call_interval=1, output_methods=[],
    allow_multiple_runs=True, log_level="critical", tracking_mode="machine")
tracker.start()
started = time.perf_counter()
print(imported - began, started - imported, flush=True)
for _ in range(2):  # its ticks are threads that end, so only the process itself can add them up
    sys.stdin.readline()
    print(time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw, flush=True)
sys.stdin.readline()
began = time.perf_counter()
tracker.stop()
print(time.perf_counter() - began, flush=True)
"""

GRAMWATT = """
import os, sys, time
began = time.perf_counter()
from gramwatt import track
imported = time.perf_counter()
before_kb = int([l for l in open("/proc/self/status") if l.startswith("VmRSS")][0].split()[1])
with track(project="benchmark", unit="image") as job:
    started = time.perf_counter()
    time.sleep(1.0)
    marks = []
    for _ in range(500):
        mark = time.perf_counter()
        job.count(1)
        marks.append(time.perf_counter() - mark)
    marks.sort()
    ending = time.perf_counter()
ended = time.perf_counter()
print(imported - began, started - imported, marks[250], marks[495], ended - ending, flush=True)
"""


class Watched(NamedTuple):
    """A process over a while: share of a core [%], resident memory [MB], wake-ups [1/s]."""

    cpu_percent: float
    rss_mb: float
    wakeups_per_s: float


class Line(NamedTuple):
    """One row of the table; `limit` and `peer` are None where there is none."""

    what: str
    unit: str
    ours: float
    limit: float | None = None
    peer: float | None = None


def watch(pid: int, duration_s: float, counters: Callable[[], tuple[float, float]]) -> Watched:
    """Watch a process for `duration_s` [s] through its processor time [s] and context switches."""
    before, began = counters(), time.monotonic()
    time.sleep(duration_s)
    after, span_s = counters(), time.monotonic() - began
    status = Path(f"/proc/{pid}/status").read_text()
    rss_kb = int(status.partition("VmRSS:")[2].split()[0])
    cpu_percent = 100 * (after[0] - before[0]) / span_s
    return Watched(cpu_percent, rss_kb / 1000, (after[1] - before[1]) / span_s)


def _counters(pid: int) -> tuple[float, float]:
    """Processor time [s] and voluntary context switches of a process with one thread."""
    cpu_ns = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    status = Path(f"/proc/{pid}/status").read_text()
    return cpu_ns / 1e9, float(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


def environment(folder: Path, gpus: int) -> dict[str, str]:
    """An environment with a home of its own and `gpus` synthetic GPUs."""
    wave = {"type": "square", "low_w": 100, "high_w": 700, "period_s": 2.0}
    spec = folder / f"gpus-{gpus}.json"
    spec.write_text(json.dumps({"gpus": [{"waveform": wave}] * gpus}))
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GRAMWATT_", "CODECARBON_"))}
    return kept | {
        "GRAMWATT_HOME": str(folder / "home"),
        "GRAMWATT_NVML": f"synthetic:{spec}",
        "GRAMWATT_HOST_SOURCE": "model",
    }


def meter(folder: Path, gpus: int, duration_s: float) -> tuple[Watched, float, float]:
    """The meter measuring `gpus` GPUs: what it costs, ready after [s], closed after [s]."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "gramwatt.collectors.meter"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(folder, gpus),
        text=True,
        bufsize=1,
    )
    assert process.stdin
    assert process.stdout
    marks = {"mono_ns": time.monotonic_ns(), "wall_ns": time.time_ns()}
    start = {"cmd": "start", "job_id": f"cost-{gpus}", "role": "command", **marks}
    process.stdin.write(json.dumps({**start, "parent_pid": os.getpid(), "args": {}}) + "\n")
    process.stdout.readline()
    ready_s = time.monotonic() - began
    time.sleep(SETTLE_S)
    watched = watch(process.pid, duration_s, lambda: _counters(process.pid))
    began = time.monotonic()
    stop = {"cmd": "stop", "state": "completed", "mono_ns": time.monotonic_ns()}
    process.stdin.write(json.dumps(stop) + "\n")
    process.stdout.readline()
    closed_s = time.monotonic() - began
    process.wait()
    return watched, ready_s, closed_s


def codecarbon(folder: Path, duration_s: float) -> tuple[Watched, float, float] | None:
    """codecarbon's tracker at 1 Hz: what it costs, start() [s], stop() [s]; None without it."""
    process = subprocess.Popen(
        [sys.executable, "-c", CODECARBON],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        text=True,
    )
    assert process.stdin
    assert process.stdout
    times = process.stdout.readline().split()
    if len(times) != 2:
        process.wait()
        return None
    time.sleep(SETTLE_S)
    watched = watch(process.pid, duration_s, lambda: _told(process))
    process.stdin.write("\n")
    process.stdin.flush()
    stop_s = float(process.stdout.readline())
    process.wait()
    return watched, float(times[1]), stop_s


def _told(process: subprocess.Popen[str]) -> tuple[float, float]:
    assert process.stdin
    assert process.stdout
    process.stdin.write("\n")
    process.stdin.flush()
    cpu_s, switches = process.stdout.readline().split()
    return float(cpu_s), float(switches)


def client(folder: Path) -> list[float]:
    """Import, start, mark (median and 99th percentile) and stop in a training process [s]."""
    environ = environment(folder, 1)
    runs = [_floats([sys.executable, "-c", GRAMWATT], environ) for _ in range(3)]
    return [statistics.median(values) for values in zip(*runs, strict=True)]


def import_s(statement: str) -> float:
    """Time [s] of an import in a fresh interpreter, the median of several."""
    code = f"import time; t = time.perf_counter()\n{statement}\nprint(time.perf_counter() - t)"
    command = [sys.executable, "-c", code]
    return statistics.median(_floats(command, dict(os.environ))[0] for _ in range(IMPORT_RUNS))


def _floats(command: list[str], environ: dict[str, str]) -> list[float]:
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    return [float(part) for part in done.stdout.split()]


def measure(duration_s: float, say: Callable[[str], None]) -> list[Line]:
    """Every row of the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        say("meter with 1 GPU")
        one, _, _ = meter(folder, 1, duration_s)
        say("meter with 8 GPUs")
        eight, ready_s, closed_s = meter(folder, 8, duration_s)
        say("codecarbon")
        peer = codecarbon(folder, duration_s)
        say("client")
        _, start_s, mark_s, slow_mark_s, stop_s = client(folder)
        theirs, their_start_s, their_stop_s = peer or (None, None, None)
        peer_import_ms = 1e3 * import_s("import codecarbon") if peer else None
        ours_ms = 1e3 * import_s("from gramwatt import track")
    cpu = theirs.cpu_percent if theirs else None
    rss = theirs.rss_mb if theirs else None
    wakeups = theirs.wakeups_per_s if theirs else None
    return [
        Line("meter, 1 GPU: processor", "% of a core", one.cpu_percent, None, cpu),
        Line("meter, 8 GPUs: processor", "% of a core", eight.cpu_percent, 0.1, cpu),
        Line("meter, 1 GPU: memory", "MB resident", one.rss_mb, None, rss),
        Line("meter, 8 GPUs: memory", "MB resident", eight.rss_mb, 30.0, rss),
        Line("meter, 1 GPU: wake-ups", "1/s", one.wakeups_per_s, None, wakeups),
        Line("meter, 8 GPUs: wake-ups", "1/s", eight.wakeups_per_s, None, wakeups),
        Line("meter, 8 GPUs: launch to ready", "ms", 1e3 * ready_s, 300.0),
        Line("meter, 8 GPUs: stop to closed", "ms", 1e3 * closed_s),
        Line("import in the training process", "ms", ours_ms, 50.0, peer_import_ms),
        Line("start returns", "ms", 1e3 * start_s, 5.0, _ms(their_start_s)),
        Line("one mark, median", "ms", 1e3 * mark_s, 0.2),
        Line("one mark, 99th percentile", "ms", 1e3 * slow_mark_s, 0.2),
        Line("stop, final reading included", "ms", 1e3 * stop_s, None, _ms(their_stop_s)),
    ]


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds


def table(lines: list[Line]) -> str:
    """The rows as text."""
    rows: list[tuple[str, ...]] = [("", "", "gramwatt", "limit", "codecarbon", "ratio")]
    for line in lines:
        ratio = f"{line.peer / line.ours:.1f}x" if line.peer and line.ours else ""
        shown = ("" if value is None else f"{value:.3g}" for value in (line.limit, line.peer))
        rows.append((line.what, line.unit, f"{line.ours:.3g}", *shown, ratio))
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What measuring costs, beside codecarbon.")
    parser.add_argument("--seconds", type=float, default=30.0, help="watched time of each process")
    given = parser.parse_args()
    lines = measure(given.seconds, lambda text: print(f"measuring: {text}", file=sys.stderr))
    print(table(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
