"""The same work has the same power however long the job is, and whatever codecarbon says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.collectors.host import model
from gramwatt.collectors.host.machine import this_machine
from gramwatt.collectors.host.rapl import find_counters
from gramwatt.collectors.journal import spool
from gramwatt.sci.journal.merge import MergedJob, merge
from gramwatt.sci.journal.records import decode
from tests.collectors.host.codecarbon_bench import Bench

BUSY = """
import os, sys, time
until = time.monotonic() + float(sys.argv[1])
for _ in range(os.cpu_count() - 1):
    if os.fork() == 0:
        break
while time.monotonic() < until:
    pass
"""
SECONDS = (4.0, 8.0, 14.0)
FULL_W = 3.35 * (this_machine().threads or 1)
"""The model's power of the threads that this machine, or its container, lets a job use."""


def run(tmp_path: Path, seconds: float, **environ: str) -> subprocess.Popen[bytes]:
    """`gramwatt run` of a job that keeps every thread busy, on this machine without GPUs."""
    home = tmp_path / f"{seconds:g}"
    home.mkdir()
    ours = ("GRAMWATT_", "SLURM_", "CUDA_", "NVIDIA_")
    around = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
    around |= {
        "GRAMWATT_HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "CUDA_VISIBLE_DEVICES": "",
        "GRAMWATT_JOB_ID": "job-1",
        # Nothing listens here: the journal stays in the spool, where the test reads it.
        "GRAMWATT_SERVER": "http://127.0.0.1:9",
    }
    line = [*(sys.executable, "-m", "gramwatt", "run", "--"), sys.executable, "-c", BUSY]
    return subprocess.Popen(
        [*line, str(seconds)],
        env=around | environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def journaled(tmp_path: Path, seconds: float) -> MergedJob:
    (folder,) = spool.folders(tmp_path / f"{seconds:g}")
    deadline = time.monotonic() + 60
    while folder.is_live():  # a busy machine may close the journal after the command's end
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return merge([decode(line) for line in folder.lines()])


def mean_w(job: MergedJob, device_class: str) -> float:
    """The job's power of the host's component."""
    (device,) = (d for d in job.devices if d.record.device_class == device_class)
    span_s = sum((i.end - i.start).total_seconds() for i in device.intervals)
    assert span_s == pytest.approx(job.duration_s, abs=0.02)  # no second is missing
    assert {interval.kind for interval in device.intervals} == {"estimated"}
    return sum(interval.energy_j for interval in device.intervals) / span_s


@pytest.mark.long
@pytest.mark.skipif(find_counters().usable, reason="this machine's counters can be read")
def test_three_lengths_of_one_work_have_one_power(tmp_path: Path) -> None:
    jobs = {seconds: run(tmp_path, seconds) for seconds in SECONDS}
    assert [jobs[seconds].wait(90) for seconds in SECONDS] == [0, 0, 0]
    powers: dict[str, list[float]] = defaultdict(list)
    for seconds in SECONDS:
        job = journaled(tmp_path, seconds)
        meters = {d.record.device_class: d.record.meter for d in job.devices}
        assert meters == {"cpu": "gramwatt-cpu-model", "ram": "gramwatt-ram-model"}
        for part in meters:
            powers[part].append(mean_w(job, part))
    # Every thread is busy but while the programs start: some tenths of a second, more where they
    # are read from a cold disk.
    assert max(powers["cpu"]) == pytest.approx(FULL_W, rel=0.05)
    assert min(powers["cpu"]) > 0.8 * max(powers["cpu"])
    assert max(powers["ram"]) < 1.5 * min(powers["ram"])


@pytest.mark.parametrize("seconds", [3.0, 8.0, 12.0, 60.0, 600.0])
def test_no_length_changes_the_power(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """8 threads at 40 % and 64 GiB, beside a codecarbon that reads no counter."""
    bench = Bench()

    def load() -> model.Load:
        total = 8 * bench.clock.now_ns() / NS_PER_S
        return model.Load(0.4 * total, total)

    monkeypatch.setattr(model, "read_load", load)
    bench = Bench()
    for age_s in range(1, round(seconds)):
        bench.to_age(age_s)
        if age_s == 5:
            bench.process.say(started=True, counters={}, version="3.3.2")
        if age_s % 10 == 0:
            bench.meter.settle()
    bench.stop(seconds)
    # 8 x (0.63 + 0.4 x (3.35 - 0.63)) W; 64 GiB x 0.19 W
    assert bench.total_j("cpu", "estimated") / seconds == pytest.approx(13.744)
    assert bench.total_j("ram", "estimated") / seconds == pytest.approx(12.16)
    assert (bench.span_s("cpu"), bench.span_s("ram")) == (seconds, seconds)
    assert [meter for meter, _ in bench.sources()] == [
        "gramwatt-cpu-model",
        "gramwatt-ram-model",
    ]


GARBAGE = [b"7", b"null", b'"text"', b"[1, 2]", b"true", b"nan", b"\xff\xfe", b"{", b"[" * 5_000]


def test_a_codecarbon_that_prints_anything_leaves_the_meter_alone() -> None:
    bench = Bench()
    bench.to_age(5.0)
    os.write(bench.process.writer, b"\n".join(GARBAGE) + b"\n")
    bench.to_age(6.0)
    bench.meter.settle()
    bench.process.say(started=True, counters={"cpu": ["codecarbon-rapl", "measured"]})
    bench.reading(8, 10, 100.0, 20.0)
    bench.stop(10.0)
    assert bench.notices == []
    assert bench.total_j("cpu", "measured") == pytest.approx(200)
    assert bench.total_j("ram") == pytest.approx(64 * 0.19 * 10)


def _messages() -> list[dict[str, Any]]:
    whole = {"from_ns": 0, "to_ns": 10**9, "cpu_j": 1.0, "ram_j": 1.0}
    wrong: list[Any] = [None, "x", [], {}, -1, float("nan"), float("inf"), 10**400]
    return [{**whole, name: value} for name in whole for value in wrong]


STARTS: list[Any] = [3, None, "x", {"cpu": "measured"}, {"cpu": ["x", "y"]}, {"cpu": [[], {}]}]


@pytest.mark.parametrize(
    "message", [*_messages(), *({"started": 1, "counters": c} for c in STARTS)]
)
def test_a_reading_with_a_wrong_field_bills_nothing_of_it(message: dict[str, Any]) -> None:
    bench = Bench()
    bench.to_age(5.0)
    bench.process.say(started=True, counters={"cpu": ["codecarbon-rapl", "measured"]}, version="1")
    os.write(bench.process.writer, json.dumps(message).encode() + b"\n")
    bench.to_age(20.0)
    bench.meter.settle()
    bench.stop(21.0)
    assert bench.span_s("ram") == pytest.approx(21.0)
    assert bench.total_j("ram") == pytest.approx(64 * 0.19 * 21)
    assert bench.span_s("cpu") <= 21.0 + 1e-6
    assert all(0 <= interval.energy_j < 1e5 for _, interval in bench.recorded)
