"""How fast the engine scores: 1 000 000 intervals over 10 000 jobs, beside a numpy dot product.

    python benchmarks/score.py [--jobs 10000] [--intervals 100] [--json] [--profile]

Each job has two accelerators and hourly intensity, and lasts several hours. Timed apart: merging
the records, the join of energy with intensity (the sum E x I with its ranges), and the whole
document. The limit is one numpy dot product of the same number of rows: what the arithmetic alone
would cost if nothing were identified, ranged, sourced or explained. Exit code 1 below the floor.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.grid.intensity import IntensityPoint, IntensityTrack
from gramwatt.sci.journal.merge import MergedJob, merge
from gramwatt.sci.journal.records import (
    AnyRecord,
    CountRecord,
    DeviceRecord,
    EndRecord,
    IntervalRecord,
    JobRecord,
)
from gramwatt.sci.score.operational import EnergyCells
from gramwatt.sci.score.score import ScoreContext, score

T0 = datetime(2026, 5, 1, tzinfo=UTC)
STEP = timedelta(seconds=300)
HOUR = timedelta(hours=1)
PUE = Quantity.exact(1.2, "1", "declared", "benchmark")
FLOOR_ROWS_PER_S = 50_000.0
"""Rows a second of the whole score on one core: a fleet of 10 000 GPUs makes 33 rows a second."""


class Hourly:
    """Intensity by the hour, made once."""

    def __init__(self, hours: int) -> None:
        self._points = [
            IntensityPoint(
                "DE",
                T0 + n * HOUR,
                T0 + (n + 1) * HOUR,
                Quantity.around(100.0 + (n * 37) % 400, 0.05, "gCO2e/kWh", "measured", "benchmark"),
                "hourly",
            )
            for n in range(hours)
        ]

    def points(self, zone: str | None, start: datetime, end: datetime) -> list[IntensityPoint]:
        """The points that meet [start, end)."""
        first, last = int((start - T0) / HOUR), -int((T0 - end) / HOUR) + 1
        return self._points[first:last]


def records(number: int, intervals: int) -> list[AnyRecord]:
    """One job's journal: two accelerators that take turns in steps of 5 minutes."""
    who: dict[str, Any] = {"job_id": f"job-{number}", "node": "n-1", "writer": "w-1"}
    found: list[AnyRecord] = [
        JobRecord(**who, seq=1, started_at=T0, zone="DE", pue=1.2, units=("token",))
    ]
    devices = ("GPU-0", "GPU-1")
    found += [
        DeviceRecord(
            **who,
            seq=2 + n,
            device_id=device,
            device_class="gpu",
            name="NVIDIA H100 80GB HBM3",
            meter="nvml",
            kind="measured",
        )
        for n, device in enumerate(devices)
    ]
    for n in range(intervals):
        start = T0 + (n // 2) * STEP
        found.append(
            IntervalRecord(
                **who,
                seq=4 + n,
                device_id=devices[n % 2],
                start=start,
                end=start + STEP,
                energy_j=150_000.0 + n + number,
                kind="measured",
                utilisation_mean=0.9,
            )
        )
    end = T0 + -(-intervals // 2) * STEP
    found.append(CountRecord(**who, seq=intervals + 4, at=end, unit="token", amount=1e6))
    found.append(EndRecord(**who, seq=intervals + 5, ended_at=end, state="completed", exit_code=0))
    return found


def journals(jobs: int, intervals: int, at_once: int = 500) -> Iterator[list[list[AnyRecord]]]:
    """Journals in portions, so that memory shows the engine and not the input."""
    for first in range(0, jobs, at_once):
        portion = range(first, min(jobs, first + at_once))
        yield [records(number, intervals) for number in portion]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of CPU that `work` took, and what it returned."""
    before = time.process_time()
    result = work()
    return time.process_time() - before, result


def run(jobs: int, intervals: int) -> dict[str, float]:
    """Seconds of each part over all jobs, and the total energy for the check at the end."""
    grid = Hourly(intervals * 300 // 2 // 3600 + 3)
    context = ScoreContext(load_catalog(), grid)
    spent = {"merge_s": 0.0, "join_s": 0.0, "document_s": 0.0, "operational_g": 0.0}
    for portion in journals(jobs, intervals):
        seconds, merged = timed(lambda portion=portion: [merge(lines) for lines in portion])
        spent["merge_s"] += seconds
        seconds, _ = timed(lambda merged=merged: [join(job, grid) for job in merged])
        spent["join_s"] += seconds
        seconds, grams = timed(
            lambda merged=merged: [
                document["operational_g"]["value"]
                for document in (score(job, context) for job in merged)
                if document["operational_g"]
            ]
        )
        spent["document_s"] += seconds
        spent["operational_g"] += sum(grams)
    return spent


def join(job: MergedJob, grid: Hourly) -> Quantity | None:
    """The operational sum of one job alone."""
    track = IntensityTrack(grid.points("DE", job.started_at, job.ended_at or job.last_seen))
    return EnergyCells.of(job.devices, track).operational_g(PUE)


def limit_s(rows: int) -> tuple[float, float]:
    """Seconds and grams of one dot product of `rows` energies and intensities in numpy."""
    import numpy as np

    energy = np.arange(rows, dtype=np.float64) + 150_000.0
    intensity = 100.0 + (np.arange(rows) * 37) % 400
    best = min(timed(lambda: float(energy @ intensity))[0] for _ in range(20))
    wall = []
    for _ in range(20):
        before = time.perf_counter()
        grams = float(energy @ intensity)
        wall.append(time.perf_counter() - before)
    return max(best, min(wall)), grams / 3.6e6


def peak_mb() -> float:
    """The process's own peak memory [MB]."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> int:
    """Run, print, and compare with the floor."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--intervals", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    given = parser.parse_args()
    rows = given.jobs * given.intervals
    with cProfile.Profile() if given.profile else _Nothing() as profile:
        spent = run(given.jobs, given.intervals)
    memory = peak_mb()
    result = {
        "rows": rows,
        "jobs": given.jobs,
        **{
            f"{part}_rows_per_s": rows / spent[f"{part}_s"]
            for part in ("merge", "join", "document")
        },
        "whole_rows_per_s": rows / (spent["merge_s"] + spent["document_s"]),
        "limit_rows_per_s": rows / limit_s(rows)[0],
        "peak_mb": memory,
    }
    print(json.dumps(result) if given.json else table(result))
    if given.profile:
        profile.print_stats("tottime")
    return 0 if result["whole_rows_per_s"] >= FLOOR_ROWS_PER_S else 1


class _Nothing:
    """Stands in for the profiler."""

    def __enter__(self) -> Any:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def table(result: dict[str, float]) -> str:
    """The result for people."""
    lines = [f"{result['rows']:,.0f} intervals over {result['jobs']:,.0f} jobs, one core"]
    names = {
        "merge_rows_per_s": "merge",
        "join_rows_per_s": "join with intensity, ranges included",
        "document_rows_per_s": "whole document from merged records",
        "whole_rows_per_s": "merge and document",
        "limit_rows_per_s": "limit: numpy dot product",
    }
    limit = result["limit_rows_per_s"]
    lines += [
        f"  {label:<38} {result[name]:>16,.0f} rows/s   1/{limit / result[name]:,.0f} of the limit"
        for name, label in names.items()
    ]
    return "\n".join([*lines, f"  {'peak memory':<38} {result['peak_mb']:>16,.0f} MB"])


if __name__ == "__main__":
    sys.exit(main())
