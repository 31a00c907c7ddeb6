"""JobProcesses the processor's energy is: parallel jobs and neighbours as real processes.

The truth is that of the kernel over the same time, by the same model, so no load of the machine and
no stopwatch enters a comparison.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from gramwatt.collectors.host import model, share
from gramwatt.collectors.host.machine import Machine
from gramwatt.collectors.host.model import Load
from gramwatt.collectors.host.rapl import find_counters
from gramwatt.collectors.host.share import JobProcesses, Process, ProcessReader
from gramwatt.collectors.settings.clock import NS_PER_S
from tests.collectors.host.bench import HostBench
from tests.collectors.host.test_rapl import Powercap

IDLE_W, DYNAMIC_W = 0.63, 3.35 - 0.63
"""The model of docs/measuring.md, for a thread."""
LOOP = [sys.executable, "-S", "-c", "while True: pass"]
WORKS = """
import sys, time
until, path = time.monotonic() + float(sys.argv[1]), sys.argv[2]
while time.monotonic() < until: pass
open(path, "w").write(str(time.process_time()))
"""


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Busy processes that no job knows of."""
    loops = [subprocess.Popen(LOOP) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def jobs_of(home: Path, *commands: list[str]) -> list[dict[str, Any]]:
    """The documents of commands that run at the same time."""
    settings = {"GRAMWATT_HOME": str(home), "GRAMWATT_HOST_SOURCE": "model", "GRAMWATT_QUIET": "1"}
    paths = [home / f"{number}.json" for number in range(len(commands))]
    run = [sys.executable, "-m", "gramwatt", "run", "--zone", "FR", "--json-summary"]
    jobs = [
        subprocess.Popen([*run, str(path), "--", *command], env={**os.environ, **settings})
        for path, command in zip(paths, commands, strict=True)
    ]
    assert [job.wait(300) for job in jobs] == [0] * len(jobs)
    return [json.loads(path.read_text()) for path in paths]


def cpu_j(document: dict[str, Any]) -> float:
    [cpu] = [row for row in document["devices"] if row["class"] == "cpu"]
    return float(cpu["energy_j"]["value"])


def span(document: dict[str, Any]) -> tuple[float, float]:
    moments = (document["started_at"], document["ended_at"])
    start, end = (datetime.fromisoformat(text).timestamp() for text in moments)
    return start, end


@pytest.mark.long
@pytest.mark.parametrize(("length_s", "beside"), [(5, 0), (5, 2), (15, 2)])
def test_jobs_at_once_bear_their_own_time_and_divide_what_is_idle(tmp_path, length_s, beside):
    with neighbours(beside):
        commands = [
            [sys.executable, "-S", "-c", WORKS, str(length_s), str(tmp_path / f"{number}.s")]
            for number in range(4)
        ]
        documents = jobs_of(tmp_path, *commands)
    used_s = [float((tmp_path / f"{number}.s").read_text()) for number in range(4)]
    spans = [span(document) for document in documents]
    booked_j = [cpu_j(document) for document in documents]
    print(booked_j, used_s)
    for used, booked, (start, end) in zip(used_s, booked_j, spans, strict=True):
        idle_j = (os.cpu_count() or 1) * IDLE_W * (end - start)
        # At least a quarter of the idle energy while all four run, and never all of it.
        assert idle_j / 5 <= booked - DYNAMIC_W * used <= idle_j + DYNAMIC_W * 1.0


@pytest.mark.long
def test_a_sleep_costs_the_same_beside_busy_strangers(tmp_path):
    watts = []
    for beside in (0, 2):
        with neighbours(beside):
            [document] = jobs_of(tmp_path, ["sleep", "8"])
        watts.append(cpu_j(document) / document["duration_s"])
    idle_w = (os.cpu_count() or 1) * IDLE_W
    # Idle power and what gramwatt itself uses, at most a second of processor time in eight.
    assert all(idle_w <= one <= idle_w + DYNAMIC_W / 8 for one in watts)


def test_a_counter_is_divided_by_the_same_rule(tmp_path, monkeypatch):
    """Two jobs of 2 and 1 threads and strangers of 1 on 8 threads, which draw 100 W together."""
    benches = {"a": HostBench(), "b": HostBench()}
    clock = benches["b"].clock = benches["a"].clock
    benches["b"].timeline = benches["a"].timeline
    cap, origin_ns = Powercap(tmp_path / "powercap", clock), clock.now_ns()
    cap.add("intel-rapl:0", "package-0", 100.0)

    def age_s() -> float:
        return (clock.now_ns() - origin_ns) / NS_PER_S

    ticks = os.sysconf("SC_CLK_TCK")
    monkeypatch.setattr(model, "read_load", lambda: Load(4 * age_s() * ticks, 8 * age_s() * ticks))
    pids = {"a": 1001, "b": 1002}

    def processes(_: object) -> dict[int, Process]:
        # Both began before their jobs, and had used 7 s by then.
        used_s = {"a": 7.0 + 2 * age_s(), "b": 7.0 + age_s()}
        return {pids[name]: Process(1, 0.0, used_s[name]) for name in used_s}

    hosts = {
        name: benches[name].begin(
            find_counters(cap.root),
            home=tmp_path,
            own=JobProcesses(name, {pids[name]}, {}),
            processes=processes,
        )
        for name in benches
    }
    hosts["a"].settle()  # it sees the other one
    for _ in range(10):
        clock.sleep(10.0)
        cap.update()
        for host in hosts.values():
            host.tick()
            host.settle()
    for name, host in hosts.items():
        host.stop(benches[name].timeline.now_ns())
    idle, dynamic = 8 * IDLE_W, DYNAMIC_W
    whole = idle + 4 * dynamic
    for name, threads in (("a", 2), ("b", 1)):
        part = (idle / 2 + threads * dynamic) / whole
        assert benches[name].total_j("cpu") == pytest.approx(100 * 100 * part, rel=0.001)
    assert benches["a"].devices[-2]["share"] == pytest.approx(0.5)


@pytest.mark.long
def test_memory_is_billed_by_use(tmp_path):
    """A job that holds 200 MB is billed those, and what its interpreters have, not the host's."""
    hold = "import time; held = bytearray(200_000_000); time.sleep(6)"
    [document] = jobs_of(tmp_path, [sys.executable, "-S", "-c", hold])
    [memory] = [row for row in document["devices"] if row["class"] == "ram"]
    watts = memory["energy_j"]["value"] / document["duration_s"]
    gib = 2**30
    assert 0.19 * 0.2e9 / gib * 0.7 < watts < 0.19 * 0.5e9 / gib


def test_a_process_is_read_again_only_when_another_one_has_its_number():
    pid, read = os.getpid(), ProcessReader()
    inode = read({})[pid].inode
    assert pid not in read({str(pid): inode})
    assert pid in read({str(pid): inode + 1})


def test_processes_are_listed_again_when_one_has_begun(tmp_path, monkeypatch):
    def begin(number: int, newest: str) -> None:
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "stat").write_text(f"{number} (x) S 1" + " 0" * 20)
        (tmp_path / "loadavg").write_text(f"0.00 0.00 0.00 1/9 {newest}\n")

    begin(7, "7")
    now_s = 100.0
    monkeypatch.setattr(share.time, "monotonic", lambda: now_s)
    read = ProcessReader(tmp_path)
    assert read({}).keys() == {7}
    begin(8, "8")
    assert read({}).keys() == {7, 8}
    begin(9, "8")  # a container's file that is made up
    assert read({}).keys() == {7, 8}
    now_s += 61
    assert read({}).keys() == {7, 8, 9}
    begin(10, "0")  # gVisor's says nothing
    assert read({}).keys() == {7, 8, 9, 10}
    begin(11, "0")
    assert read({}).keys() == {7, 8, 9, 10, 11}


@pytest.mark.parametrize("busy", [4, 0])
def test_a_counter_is_divided_by_the_time_within_a_limit_too(tmp_path, monkeypatch, busy):
    """A job limited to 4 of 64 threads, busy or asleep, beside strangers of 32: 100 W together."""
    limit = tmp_path / "cgroup"
    limit.mkdir()
    machine = Machine("Test Xeon", 64.0, 4.0, 64 * 2.0**30, 64 * 2.0**30, limit, limit)
    bench = HostBench(machine)
    clock, origin_ns = bench.clock, bench.clock.now_ns()
    cap = Powercap(tmp_path / "powercap", clock)
    cap.add("intel-rapl:0", "package-0", 100.0)

    def age_s() -> float:
        return (clock.now_ns() - origin_ns) / NS_PER_S

    monkeypatch.setattr(model, "read_load", lambda: Load((32 + busy) * age_s(), 64 * age_s()))
    monkeypatch.setattr(model, "cgroup_load", lambda *_: Load(busy * age_s(), 4 * age_s()))
    host = bench.begin(
        find_counters(cap.root),
        own=JobProcesses("a", {1001}, {1001: 0.0}),
        processes=lambda _: {1001: Process(1, 0.0, busy * age_s())},
    )
    for _ in range(10):
        clock.sleep(10.0)
        cap.update()
        host.tick()
        host.settle()
    host.stop(bench.timeline.now_ns())
    idle, dynamic = 64 * IDLE_W, (32 + busy) * DYNAMIC_W
    part = (idle * 4 / 64 + busy * DYNAMIC_W) / (idle + dynamic)
    assert bench.total_j("cpu") == pytest.approx(100 * 100 * part, rel=0.001)
