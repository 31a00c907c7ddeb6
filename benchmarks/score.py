"""How fast the engine scores: many short jobs, one job of 1 000 000 intervals, 1 024 devices.

    python benchmarks/score.py [--jobs 10000] [--intervals 100] [--json] [--profile]

Three cases, all with hourly intensity and the telemetry that a meter journals:

- fleet: `--jobs` jobs of two accelerators, with `--intervals` intervals each;
- job: one job of 1 024 accelerators on 128 nodes, with as many intervals in all as the fleet;
- devices: one job of 1 024 accelerators over an hour.

Rows are intervals. Timed apart, in processor time of one core: decoding the journal's lines,
merging the records, joining energy with intensity (the sum E x I with its ranges), and scoring,
which is the whole document with the join in it. "Merge and score" starts at decoded records and
ends at the finished document. Rates stand beside that of the join alone, and the join's beside its
limit, one numpy dot product of as many rows. Exit code 1 where a rate is below its floor.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, count, islice
from typing import Any

from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.grid.intensity import IntensityPoint, IntensityTrack
from gramwatt.sci.records.merge import MergedJob, merge
from gramwatt.sci.records.records import (
    AnyRecord,
    CountRecord,
    DeviceRecord,
    EndRecord,
    IntervalRecord,
    JobRecord,
    decode,
    encode,
)
from gramwatt.sci.score.operational import join_sites
from gramwatt.sci.score.score import ScoreContext, score

T0 = datetime(2026, 5, 1, tzinfo=UTC)
STEP = timedelta(seconds=300)
HOUR = timedelta(hours=1)
PUE = Quantity.exact(1.2, "1", "declared", "benchmark")
DEVICES = 1_024
DEVICES_PER_NODE = 8
DECODED_AT_MOST = 50_000
JOBS_AT_ONCE = 500
FLEET_FLOOR_ROWS_PER_S = 20_000.0
"""A fleet of 10 000 GPUs writes 33 rows a second."""
JOB_FLOOR_ROWS_PER_S = 100_000.0
DEVICES_LIMIT_S = 1.0


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
        first, last = (start - T0) // HOUR, -((T0 - end) // HOUR) + 1
        return self._points[first:last]


def node_records(job: int, node: int, devices: int, intervals: int) -> Iterator[AnyRecord]:
    """One node's journal: every device read over `intervals` steps of 5 minutes."""
    who: dict[str, Any] = {"job_id": f"job-{job}", "node": f"n-{node}", "writer": "w-1"}
    seq = count(1)
    yield JobRecord(**who, seq=next(seq), started_at=T0, zone="DE", pue=1.2, units=("token",))
    names = [f"GPU-{node}-{n}" for n in range(devices)]
    for name in names:
        yield DeviceRecord(
            **who,
            seq=next(seq),
            device_id=name,
            device_class="gpu",
            name="NVIDIA H100 80GB HBM3",
            meter="nvml",
            kind="measured",
        )
    for n in range(intervals):
        for name in names:
            yield IntervalRecord(
                **who,
                seq=next(seq),
                device_id=name,
                start=T0 + n * STEP,
                end=T0 + (n + 1) * STEP,
                energy_j=150_000.0 + n + job,
                kind="measured",
                utilisation_mean=0.9,
                utilisation_max=1.0,
                memory_peak_b=60e9,
                power_max_w=690.0,
                profile={"memory_busy": 0.4, "power_capped": 0.1, "temperature_c": 61.0},
            )
    end = T0 + intervals * STEP
    yield CountRecord(**who, seq=next(seq), at=end, unit="token", amount=1e6)
    yield EndRecord(**who, seq=next(seq), ended_at=end, state="completed", exit_code=0)


def journal(job: int, devices: int, intervals: int) -> list[AnyRecord]:
    """The records of one job, of all its nodes."""
    nodes = -(-devices // DEVICES_PER_NODE)
    on_each = min(devices, DEVICES_PER_NODE)
    return [r for node in range(nodes) for r in node_records(job, node, on_each, intervals)]


@dataclass
class Case:
    """Seconds of each part over the rows of a case."""

    rows: int = 0
    decode_rows: int = 0
    decode_s: float = 0.0
    merge_s: float = 0.0
    join_s: float = 0.0
    score_s: float = 0.0

    def add(self, journals: list[list[AnyRecord]], context: ScoreContext) -> None:
        """Decode some lines; merge, join and score all of the journals."""
        if not self.decode_rows:
            records = chain.from_iterable(journals)
            lines = [encode(record) for record in islice(records, DECODED_AT_MOST)]
            self.decode_rows = len(lines)
            self.decode_s = timed(lambda: [decode(line) for line in lines])[0]
        merge_s, merged = timed(lambda: [merge(records) for records in journals])
        self.rows += sum(len(d.intervals) for job in merged for d in job.devices)
        self.merge_s += merge_s
        self.join_s += timed(lambda: [joined(job, context) for job in merged])[0]
        self.score_s += timed(lambda: [score(job, context) for job in merged])[0]

    def rates(self) -> dict[str, float]:
        """Rows a second by part."""
        return {
            "rows": self.rows,
            "decode_rows_per_s": self.decode_rows / self.decode_s,
            "merge_rows_per_s": self.rows / self.merge_s,
            "join_rows_per_s": self.rows / self.join_s,
            "score_rows_per_s": self.rows / self.score_s,
            "whole_rows_per_s": self.rows / (self.merge_s + self.score_s),
            "score_s": self.score_s,
        }


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of CPU that `work` took, and what it returned."""
    before = time.process_time()
    result = work()
    return time.process_time() - before, result


def joined(job: MergedJob, context: ScoreContext) -> Quantity | None:
    """The operational sum of one job alone [gCO2e]."""
    points = context.intensity.points("DE", job.started_at, job.ended_at or job.last_seen)
    return join_sites(job.devices, (IntensityTrack.of(points), PUE)).operational_g()


def measured(jobs: int, devices: int, intervals: int) -> Case:
    """Jobs of that many devices and intervals a device, in portions to spare memory."""
    context = ScoreContext(load_catalog(), Hourly(intervals * STEP // HOUR + 3))
    case = Case()
    for first in range(0, jobs, JOBS_AT_ONCE):
        portion = range(first, min(jobs, first + JOBS_AT_ONCE))
        case.add([journal(number, devices, intervals) for number in portion], context)
    return case


def limit_s(rows: int) -> float:
    """Seconds of one dot product of `rows` energies and intensities in numpy."""
    import numpy as np

    energy = np.arange(rows, dtype=np.float64) + 150_000.0
    intensity = 100.0 + (np.arange(rows) * 37) % 400
    wall = []
    for _ in range(20):
        before = time.perf_counter()
        float(energy @ intensity)
        wall.append(time.perf_counter() - before)
    return min(wall)


def table(name: str, rates: dict[str, float], limit_rows_per_s: float) -> str:
    """One case for people."""
    join_rows_per_s = rates["join_rows_per_s"]
    lines = [
        f"{name}, {rates['rows']:,.0f} intervals, scored in {rates['score_s']:.2f} s",
        f"  {'join with intensity':<32} {join_rows_per_s:>12,.0f} rows/s"
        f"   1/{limit_rows_per_s / join_rows_per_s:,.0f} of a dot product",
    ]
    for key, label in (
        ("decode_rows_per_s", "decode lines (apart)"),
        ("merge_rows_per_s", "merge records"),
        ("score_rows_per_s", "score, join and document"),
        ("whole_rows_per_s", "merge and score"),
    ):
        ratio = rates[key] / join_rows_per_s
        lines.append(f"  {label:<32} {rates[key]:>12,.0f} rows/s   {ratio:.2f} of the join")
    return "\n".join(lines)


def main() -> int:
    """Run, print, and compare with the floors."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--intervals", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    given = parser.parse_args()
    rows = given.jobs * given.intervals
    profile = cProfile.Profile() if given.profile else None
    with profile or nullcontext():
        cases = {
            "fleet": measured(given.jobs, 2, given.intervals // 2).rates(),
            "devices": measured(1, DEVICES, HOUR // STEP).rates(),
            "job": measured(1, DEVICES, -(-rows // DEVICES)).rates(),
        }
    limit_rows_per_s = rows / limit_s(rows)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if given.json:
        print(json.dumps(cases | {"limit_rows_per_s": limit_rows_per_s, "peak_mb": peak_mb}))
    else:
        print(*(table(name, rates, limit_rows_per_s) for name, rates in cases.items()), sep="\n")
        print(f"peak memory {peak_mb:,.0f} MB")
    if profile:
        profile.print_stats("tottime")
    fast = cases["fleet"]["whole_rows_per_s"] >= FLEET_FLOOR_ROWS_PER_S
    fast = fast and cases["job"]["whole_rows_per_s"] >= JOB_FLOOR_ROWS_PER_S
    return 0 if fast and cases["devices"]["score_s"] <= DEVICES_LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main())
