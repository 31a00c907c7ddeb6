"""What measuring costs the training process: import, start, mark, stop, memory; beside codecarbon.

    python -m benchmarks.client_cost [--runs 15] [--training-s 30] [--json]

Every figure is the median over fresh interpreters, so that nothing is warm but the disk cache.
Exit code 1 when a limit is missed. codecarbon's tracker runs in the same way where it is
installed; it has no mark. Memory is the rise of the process's own peak (VmHWM) over a bare
interpreter; the meter is a process of its own and benchmarks/meter_cost has its figures.

Counting is measured over a million counts in a tracked process and in children of it, in processor
time, so that other work on the machine adds little, and so is what the callback of any framework
does at a step. A training with four workers that count each sample runs beside the same training
without gramwatt, in processor time and by the clock. The meter's own processor time is not in it
(benchmarks/meter_cost).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from gramwatt import track
from gramwatt.collectors.integrations.pytorch import count_batches
from gramwatt.collectors.integrations.tracked_run import TrackedRun, batch_size

LIMITS = {"import_ms": 25.0, "start_ms": 5.0, "mark_ms": 0.003, "memory_mb": 4.0}
"""What the client may cost (docs/python-api.md); stop has none, as it waits for a last reading."""
UNITS = {"import_ms": "ms", "start_ms": "ms", "mark_ms": "ms", "stop_ms": "ms", "memory_mb": "MB"}
COUNTS, BLOCKS = 1_000_000, 20_000
COUNT_LIMIT_US, BLOCK_LIMIT_US = 3.0, 50.0
"""What `job.count(1)` may take, and `with track() as job: job.count(1)` in a child [us]."""
STEP_LIMIT_US = 50.0
"""What a callback may take for a step: a thousandth of a step of 50 ms [us]."""
TRAINING_LIMIT = 1.01
"""How many times as long a training with counting workers may take."""
WORKERS, SAMPLE_S = 4, 0.005
"""Workers of a training, and what a sample takes each [s]: to decode a picture, say."""

PRELUDE = """
import time
def peak_mb():
    with open("/proc/self/status") as stream:
        return next(int(line.split()[1]) for line in stream if line.startswith("VmHWM")) / 1024
def clock(call):
    before = time.perf_counter()
    result = call()
    return (time.perf_counter() - before) * 1e3, result
bare_mb = peak_mb()
"""
OURS = """
def load():
    from gramwatt import track
    return track
import_ms, track = clock(load)
tracker = track(unit="image")
start_ms, job = clock(tracker.start)
marks = sorted(clock(lambda: job.count(64))[0] for _ in range(1000))
time.sleep(1.5)
mark_ms = marks[500]
worst_ms = marks[-1]
stop_ms, _ = clock(tracker.stop)
"""
THEIRS = """
def load():
    from codecarbon import OfflineEmissionsTracker
    return OfflineEmissionsTracker
import_ms, Tracker = clock(load)
tracker = Tracker(country_iso_code="FRA", save_to_file=False, log_level="critical",
                  measure_power_secs=1, allow_multiple_runs=True)
start_ms, _ = clock(tracker.start)
mark_ms = worst_ms = None
time.sleep(1.5)
stop_ms, _ = clock(tracker.stop)
"""
REPORT = """
import json
print(json.dumps({"import_ms": import_ms, "start_ms": start_ms, "mark_ms": mark_ms,
                  "worst_ms": worst_ms, "stop_ms": stop_ms, "memory_mb": peak_mb() - bare_mb}))
"""


def main() -> int:
    """Measure, print, and say whether every limit is kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=15, help="fresh interpreters for each tool")
    parser.add_argument(
        "--training-s", type=float, default=30.0, help="length of a training with workers [s]"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    ours = medians(OURS, options.runs)
    theirs = medians(THEIRS, max(3, options.runs // 5)) if has_codecarbon() else {}
    missed = [name for name, limit in LIMITS.items() if ours[name] > limit]
    counting, training = counting_us(), training_ratio(options.training_s)
    missed += [name for name, (us, limit) in counting.items() if us > limit]
    missed += ["training"] if training[1] > TRAINING_LIMIT else []
    if options.json:
        found: dict[str, Any] = {"gramwatt": ours, "codecarbon": theirs, "limits": LIMITS}
        processor, clock = training
        found["training"] = {"processor": processor, "clock": clock, "limit": TRAINING_LIMIT}
        print(json.dumps({**found, "counting_us": counting}, indent=2))
    else:
        print_table(ours, theirs)
        print_counting(counting, training, options.training_s)
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
        print("limits kept" if not missed else f"limits missed: {', '.join(missed)}")
    return 1 if missed else 0


def medians(body: str, runs: int) -> dict[str, Any]:
    """Each figure's median over `runs` fresh interpreters; the worst mark is the worst of all."""
    rows = [fresh(body) for _ in range(runs + 1)][1:]  # the first one fills the disk cache
    figures: dict[str, Any] = {}
    for name in UNITS:
        values = [row[name] for row in rows if row[name] is not None]
        figures[name] = statistics.median(values) if values else None
    figures["worst_ms"] = max((row["worst_ms"] for row in rows if row["worst_ms"]), default=None)
    return figures


def fresh(body: str) -> dict[str, Any]:
    """One run in an interpreter and a home of its own, into which its meter may still write."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        environ = {k: v for k, v in os.environ.items() if not k.startswith("GRAMWATT_")}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages are compiled
        done = subprocess.run(
            [sys.executable, "-c", PRELUDE + body + REPORT],
            capture_output=True,
            text=True,
            env={**environ, "GRAMWATT_HOME": home},
            check=True,
        )
        figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return figures


def counting_us() -> dict[str, tuple[float, float]]:
    """Time of a count and of a block with one, in a tracked process and in children, with limits.

    Each is in microseconds. Raises AssertionError if a count is lost.
    """
    found: dict[str, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"GRAMWATT_HOME": home, "GRAMWATT_QUIET": "1"}
        with track(unit="sample") as job:
            found["parent"] = each_us(lambda: job.count(1), COUNTS), COUNT_LIMIT_US
            with job.window("epoch"):
                found["in a window"] = each_us(lambda: job.count(1), COUNTS), COUNT_LIMIT_US
            found |= callbacks_us()
            for way in ("fork", "spawn", "forkserver"):
                context = multiprocessing.get_context(way)
                answers = context.Queue()
                child = context.Process(target=count_in_child, args=(job, answers))
                child.start()
                count_us, block_us = answers.get()
                child.join()
                found[way] = count_us, COUNT_LIMIT_US
                found[f"{way}, block"] = block_us, BLOCK_LIMIT_US
        counted = job.metrics().get("gramwatt/count_sample")
        assert counted == 5 * COUNTS + 3 * (BLOCKS + 1), counted
    return found


def callbacks_us() -> dict[str, tuple[float, float]]:
    """Time of what all callbacks do at a step, and of a batch of a counted loader [us]."""
    run, batch = TrackedRun(), {"x": list(range(8)), "y": list(range(8))}
    run.begin()  # a part of the job that runs
    step_us = each_us(lambda: run.count(step=1, image=batch_size(batch), token=512), BLOCKS)
    loader = count_batches([batch] * BLOCKS, unit="image")
    loader_us = each_us(lambda: sum(1 for _ in loader), 1) / BLOCKS
    run.end()
    return {"callback, step": (step_us, STEP_LIMIT_US), "loader, batch": (loader_us, STEP_LIMIT_US)}


def count_in_child(job: Any, answers: Any) -> None:
    """Time counts into the job of the process that has started this one."""
    block()
    answers.put((each_us(lambda: job.count(1), COUNTS), each_us(block, BLOCKS)))


def block() -> None:
    """Count one sample as code does that was not given the job."""
    with track() as job:
        job.count(1)


def each_us(call: Callable[[], object], number: int) -> float:
    """Processor time of one of `number` calls [us]."""
    before = time.process_time()
    for _ in range(number):
        call()
    return (time.process_time() - before) / number * 1e6


def training_ratio(length_s: float) -> tuple[float, float]:
    """Return how many times as long WORKERS processes take for samples that they count: in
    processor time, and by the clock, which decides: it is what somebody waits for.

    For `length_s` [s] of processor time each makes them in pairs, one that it counts beside one
    that it does not. Each figure is the median over all pairs, so that what else runs on the
    machine slows both, and a pause that meets one of them is left out.
    """
    loops = int(SAMPLE_S * 1e6 / each_us(lambda: work(1000), 100) * 1000)
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"GRAMWATT_HOME": home, "GRAMWATT_QUIET": "1"}
        context = multiprocessing.get_context("fork")
        answers = context.Queue()
        with track(unit="sample"):
            args = (loops, length_s, answers)
            workers = [context.Process(target=make, args=args) for _ in range(WORKERS)]
            for worker in workers:
                worker.start()
            pairs = [pair for _ in workers for pair in answers.get()]
    processor, clock = zip(*pairs, strict=True)
    return statistics.median(processor), statistics.median(clock)


def make(loops: int, length_s: float, answers: Any) -> None:
    """Make samples as a loader's worker does, and answer how much longer each one that it counted
    took than the one beside it, in processor time and by the clock.
    """
    pairs: list[tuple[float, float]] = []
    while time.process_time() < length_s:
        counts = [True, False] if len(pairs) % 2 else [False, True]  # neither is always the first
        taken = {is_counted: sample(loops, is_counted) for is_counted in counts}
        pairs.append((taken[True][0] / taken[False][0], taken[True][1] / taken[False][1]))
    answers.put(pairs)


def sample(loops: int, is_counted: bool) -> tuple[float, float]:
    """Processor time and time by the clock of a sample [s]."""
    processor_s, clock_s = time.process_time(), time.perf_counter()
    work(loops)
    if is_counted:
        block()
    return time.process_time() - processor_s, time.perf_counter() - clock_s


def work(loops: int) -> int:
    """Keep the processor busy."""
    return sum(number * number for number in range(loops))


def print_counting(
    counting: dict[str, tuple[float, float]], training: tuple[float, float], length_s: float
) -> None:
    """One row for each kind of process: a count, its limit, and their ratio."""
    print(f"\n{'a count':<20} {'gramwatt':>10} {'limit':>10} {'ratio':>8}")
    for name, (us, limit_us) in counting.items():
        print(f"{name:<20} {us:>7.2f} us {limit_us:>7.0f} us {us / limit_us:>8.2f}")
    text = f"{training[1]:.4f} times as long (limit {TRAINING_LIMIT}), "
    text += f"{training[0]:.4f} times the processor time"
    print(f"{length_s:.0f} s of training, {WORKERS} workers that count: {text}")


def has_codecarbon() -> bool:
    """Return whether the peer can be measured in this environment."""
    command = [sys.executable, "-c", "import codecarbon"]
    return subprocess.run(command, capture_output=True).returncode == 0


def print_table(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """One row for each figure: ours, the limit, codecarbon's, and how many times ours theirs is."""
    print(f"{'':<10} {'gramwatt':>12} {'limit':>10} {'codecarbon':>12} {'ratio':>8}")
    for name, unit in UNITS.items():
        label = name.rpartition("_")[0]
        limit, other = LIMITS.get(name), theirs.get(name)
        ratio = f"{other / ours[name]:.0f}x" if other is not None and ours[name] else "-"
        cells = [cell(ours[name], unit), cell(limit, unit), cell(other, unit), ratio]
        print(f"{label:<10} {cells[0]:>12} {cells[1]:>10} {cells[2]:>12} {cells[3]:>8}")
    print(f"worst of all marks: {cell(ours['worst_ms'], 'ms')}")


def cell(value: float | None, unit: str) -> str:
    """A figure with three digits and its unit; a dash for none."""
    return "-" if value is None else f"{value:.3g} {unit}"


if __name__ == "__main__":
    sys.exit(main())
