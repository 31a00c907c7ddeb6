"""The host: codecarbon behind a pipe, the model without it, and what the cgroup allows."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from gramwatt.collectors.host import model, share
from gramwatt.collectors.host.codecarbon import GIVE_UP_NS, START_AFTER_NS, PipedProcess
from gramwatt.collectors.host.devices import HostDevices
from gramwatt.collectors.host.machine import Machine, this_machine
from gramwatt.collectors.host.share import JobProcesses, Process
from gramwatt.collectors.settings.clock import NS_PER_S
from tests.collectors.host.bench import HostBench
from tests.collectors.host.codecarbon_bench import Bench

RAM_W = 64 * 0.19


def test_codecarbon_is_not_started_for_a_job_under_five_seconds():
    bench = Bench()
    bench.to_age(4.9)
    bench.stop(4.95)
    assert bench.started == 0
    assert bench.total_j("ram", "estimated") == pytest.approx(RAM_W * 4.95)


@pytest.fixture
def _half_load(monkeypatch):
    monkeypatch.setattr(model, "mean_load", lambda *_: 0.5)


MODEL_W = 8 * (0.63 + 0.5 * (3.35 - 0.63))
"""The model's power of the bench's processor at half load [W]."""


@pytest.mark.usefixtures("_half_load")
def test_a_counter_is_used_from_its_first_reading_on_and_the_model_before():
    bench = Bench()
    bench.to_age(5.0)
    for second in range(12, 32, 2):
        bench.reading(second, second + 2, 100.0)
    bench.stop(33.0)
    # 0 to 12 s by the model, 12 to 32 s counted, 32 to 33 s its last power
    assert bench.total_j("cpu", "measured") == pytest.approx(100 * 20)
    assert bench.total_j("cpu", "estimated") == pytest.approx(MODEL_W * 12 + 100)
    assert bench.total_j("ram", "estimated") == pytest.approx(RAM_W * 33)  # it counts no memory
    assert bench.span_s("cpu") == pytest.approx(33)
    assert bench.process.killed
    assert bench.sources() == [
        ("codecarbon-rapl+gramwatt-cpu-model", "measured"),
        ("gramwatt-ram-model", "estimated"),
    ]


@pytest.mark.usefixtures("_half_load")
def test_a_counter_of_both_parts_is_used_for_both():
    bench = Bench()
    bench.to_age(5.0)
    bench.reading(8, 10, 3.0, 1.0)
    bench.reading(10, 12, 5.0, 1.5)
    bench.stop(12.0)
    assert bench.total_j("cpu", "integrated") == pytest.approx(2 * 3 + 2 * 5)
    assert bench.total_j("ram", "integrated") == pytest.approx(2 * 1 + 2 * 1.5)
    assert bench.total_j("cpu", "estimated") == pytest.approx(MODEL_W * 8)
    assert bench.sources() == [
        ("codecarbon-pmic+gramwatt-cpu-model", "integrated"),
        ("codecarbon-pmic+gramwatt-ram-model", "integrated"),
    ]


@pytest.mark.usefixtures("_half_load")
@pytest.mark.parametrize(("late_s", "counted_s"), [(10.0, 2 + 1), (10.5, 2 + 0.5), (11.5, 2)])
def test_a_reading_is_billed_up_to_the_stop(late_s, counted_s):
    """The stop is at 11 s; the last reading lasts 2 s from `late_s` on, at 300 W."""
    bench = Bench()
    bench.to_age(5.0)
    bench.reading(8, 10, 100.0)
    bench.say(late_s, late_s + 2, 300.0)
    bench.meter.stop(bench.start_ns + 11 * NS_PER_S)
    assert bench.span_s("cpu") == pytest.approx(11)
    assert bench.total_j("cpu", "measured") == pytest.approx(200 + 300 * (counted_s - 2))
    # 0 to 8 s by the model; between the readings the last power of the first
    between_j = 100 * (3 - counted_s)
    assert bench.total_j("cpu", "estimated") == pytest.approx(MODEL_W * 8 + between_j)


@pytest.mark.parametrize("how", ["dies", "absent", "silent"])
def test_a_codecarbon_that_fails_is_said_and_replaced_by_the_model(how):
    bench = Bench()
    bench.to_age(5.0)
    if how == "absent":
        bench.process.say(absent="codecarbon cannot be used: ImportError: x")
    if how == "dies":
        bench.process.end()
    if how != "silent":
        bench.meter.settle()
    bench.to_age((START_AFTER_NS + GIVE_UP_NS) / NS_PER_S + 1)
    bench.stop(100.0)
    assert len(bench.notices) == 1
    assert bench.notices[0].startswith("meter-source-absent: ")
    assert bench.total_j("ram", "estimated") == pytest.approx(RAM_W * 100)


def test_a_share_of_the_host_is_attributed():
    machine = Machine("Test Xeon", 8.0, 2.0, 64.0 * 2**30, 16.0 * 2**30)
    bench = Bench(machine)
    bench.to_age(5.0)
    for second in range(0, 20, 2):
        bench.reading(second, second + 2, 100.0)
    bench.stop(20.0)
    assert bench.total_j("cpu", "attributed") == pytest.approx(100 * 20 / 4)
    assert bench.total_j("ram", "estimated") == pytest.approx(RAM_W * 20 / 4)


@pytest.mark.parametrize(("load", "power_w"), [(0.0, 0.63), (0.5, 1.99), (1.0, 3.35)])
def test_the_model_is_linear_between_its_two_published_ends(monkeypatch, load, power_w):
    monkeypatch.setattr(model, "mean_load", lambda *_: load)
    machine = Machine("Test Xeon", 8.0, 8.0, 10.0 * 2**30, 10.0 * 2**30)
    assert model.CpuModel(machine).power_w() == pytest.approx(8 * power_w)
    assert model.RamModel(machine).power_w() == pytest.approx(1.9)


def cgroup(tmp_path: Path, where: str, **files: str) -> None:
    folder = tmp_path / "sys/fs/cgroup" / where
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")


@pytest.fixture
def proc(tmp_path):
    path = tmp_path / "proc"
    (path / "self").mkdir(parents=True)
    (path / "cpuinfo").write_text("processor : 0\nmodel name\t: AMD EPYC 7763 64-Core Processor\n")
    (path / "meminfo").write_text("MemTotal:  1056000000 kB\nMemAvailable: 5 kB\n")
    (path / "self" / "cgroup").write_text("0::/kubepods/pod1/main\n")
    return path


@pytest.fixture(autouse=True)
def _sixteen_threads(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 16)


def test_a_containers_limits_are_what_the_job_may_use(tmp_path, proc):
    cgroup(tmp_path, "kubepods/pod1", memory__max=str(64 * 2**30), cpu__max="400000 100000")
    cgroup(tmp_path, "kubepods/pod1/main", memory__max="max", cpu__max="max 100000")
    machine = this_machine(tmp_path)
    assert machine.cpu_name == "AMD EPYC 7763 64-Core Processor"
    assert (machine.threads, machine.threads_total, machine.cpu_share) == (4, 16, 0.25)
    assert machine.memory_b == 64 * 2**30
    assert machine.memory_share == pytest.approx(64 * 2**30 / (1_056_000_000 * 1024))


V1_LIMIT = {"cpu__cfs_quota_us": "300000", "cpu__cfs_period_us": "100000"}
POD = "kubepods/pod1/main"
LIMITS: dict[str, tuple[str, dict[str, dict[str, str]], float | None, int | None]] = {
    "a set of processors": (
        f"0::/{POD}",
        {POD: {"cpuset__cpus__effective": "0-1,8-9,12", "cpu__max": "max 1"}},
        5,
        None,
    ),
    "the narrowest": (
        f"0::/{POD}",
        {POD: {"cpuset__cpus__effective": "0-1,8-9,12", "cpu__max": "150000 100000"}},
        1.5,
        None,
    ),
    "version 1": (
        "4:memory:/slurm/j\n3:cpu,cpuacct:/slurm/j",
        {"memory/slurm/j": {"memory__limit_in_bytes": str(2**33)}, "cpu/slurm/j": V1_LIMIT},
        3,
        2**33,
    ),
    "its own folder as the root": (
        "0::/",
        {"": {"memory__max": str(2**33), "cpu__max": "250000 100000"}},
        2.5,
        2**33,
    ),
    "two controllers mounted together": (
        "5:cpu,cpuacct:/docker/ab12\n4:memory:/docker/ab12\n0::/docker/ab12",
        {
            "cpu,cpuacct/docker/ab12": V1_LIMIT,
            "memory": {"memory__stat": f"cache 1\nhierarchical_memory_limit {2**34}"},
        },
        3,
        2**34,
    ),
    "version 2 beside version 1": (
        "3:memory:/user\n0::/user/job",
        {
            "unified/user/job": {"cpu__max": "200000 100000"},
            "memory/user": {"memory__limit_in_bytes": str(2**33)},
        },
        2,
        2**33,
    ),
}


@pytest.mark.parametrize("kind", LIMITS)
def test_limits_of_every_kind_of_cgroup(tmp_path, proc, kind):
    membership, files, threads, memory_b = LIMITS[kind]
    (proc / "self" / "cgroup").write_text(membership + "\n")
    for where, texts in files.items():
        cgroup(tmp_path, where, **texts)
    machine = this_machine(tmp_path)
    assert machine.threads == threads
    assert machine.memory_b == (memory_b or 1_056_000_000 * 1024)


def test_a_limited_jobs_power_follows_its_own_processor_time(tmp_path, proc, monkeypatch):
    """Its 4 of 16 threads are half busy, whatever the rest of the host does."""
    usage = {"cpu.stat": "usage_usec 5000000\nuser_usec 1\n", "cpu.max": "400000 100000"}
    cgroup(tmp_path, "kubepods/pod1", **{k.replace(".", "__"): v for k, v in usage.items()})
    machine = this_machine(tmp_path)
    assert machine.usage == tmp_path / "sys/fs/cgroup" / "kubepods" / "pod1"
    bench = Bench(machine, installed=False)
    start_s = bench.clock.now_ns() / NS_PER_S
    monkeypatch.setattr(time, "monotonic", lambda: bench.clock.now_ns() / NS_PER_S - start_s)
    bench = Bench(machine, installed=False)
    bench.to_age(30.0)
    cgroup(tmp_path, "kubepods/pod1", cpu__stat="usage_usec 65000000")
    bench.stop(30.0)
    # 60 s of processor time in 4 x 30 s: load 0.5, the most that 16 of 128 threads of 280 W draw
    assert bench.total_j("cpu") == pytest.approx(4 / 128 * 280 / 1.3 * 30)


def test_version_1_counts_time_beside_the_folder_of_the_cpu_set(tmp_path, proc):
    (proc / "self" / "cgroup").write_text("2:cpuset:/job\n3:cpu,cpuacct:/job\n")
    cgroup(tmp_path, "cpuset/job", cpuset__cpus="0-3")
    cgroup(tmp_path, "cpu,cpuacct/job", cpuacct__usage="7000000000")
    machine = this_machine(tmp_path)
    assert (machine.threads, machine.usage) == (
        4,
        tmp_path / "sys/fs/cgroup" / "cpu,cpuacct" / "job",
    )
    assert model.cgroup_load(machine.usage, 4.0).busy == 7.0
    assert model.cgroup_load(tmp_path, 4.0) is None


def measure_together(benches: list[HostBench], hosts: list[HostDevices]) -> None:
    """Measure hosts on one clock for 100 s, with a save each 5 s, up to their end."""
    for _ in range(20):
        for host in hosts:
            host.settle()
        benches[0].clock.sleep(5.0)
    for bench, host in zip(benches, hosts, strict=True):
        host.stop(bench.timeline.now_ns())


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_cpu_set_of_version_1_whose_time_nobody_counts_has_that_of_its_jobs(
    tmp_path, proc, monkeypatch, jobs
):
    """As Slurm makes them without accounting: cpuacct's folder has the whole busy node."""
    monkeypatch.setattr(model, "mean_load", lambda *_: 1.0)
    (proc / "self" / "cgroup").write_text("2:cpuset:/slurm/job_7\n3:cpu,cpuacct:/\n0::/\n")
    cgroup(tmp_path, "cpuset/slurm/job_7", cpuset__cpus="0-3")
    cgroup(tmp_path, "cpu,cpuacct", cpuacct__usage="7000000000")
    cgroup(tmp_path, "unified", cpu__stat="usage_usec 7000000")
    machine = this_machine(tmp_path)
    assert (machine.threads, machine.usage) == (4, None)
    assert machine.pool != ""
    power = model.power_of(machine)
    assert power is not None
    benches = [HostBench(machine) for _ in range(jobs)]
    for bench in benches:
        bench.clock, bench.timeline = benches[0].clock, benches[0].timeline
    began_s = benches[0].clock.mono_ns() / NS_PER_S

    def processes(_: object) -> dict[int, Process]:
        """Each job has half a thread."""
        used_s = (benches[0].clock.mono_ns() / NS_PER_S - began_s) / 2
        return {pid: Process(0, 0.0, 1.0 + used_s) for pid in range(1, 1 + jobs)}

    hosts = [
        bench.begin(
            home=tmp_path, own=JobProcesses(str(pid), {pid}, {pid: 1.0}), processes=processes
        )
        for pid, bench in enumerate(benches, 1)
    ]
    measure_together(benches, hosts)
    whole_j = machine.cpu_share * power.at(jobs * 0.5 / 4) * 100
    assert sum(bench.total_j("cpu") for bench in benches) == pytest.approx(whole_j, rel=0.04)
    uses = [interval.utilisation.mean for name, interval in benches[0].recorded if name == "cpu"]
    assert uses == [None] * len(uses)  # not that of the node


def test_two_jobs_within_a_limit_of_memory_alone_have_what_they_use(tmp_path, proc, monkeypatch):
    """As of a pod with a limit of memory and none of processors: not the whole limit each."""
    cgroup(tmp_path, "kubepods/pod1", memory__max=str(64 * 2**30))
    monkeypatch.setattr(share, "used_b", lambda _: 16 * 2.0**30)
    machine = this_machine(tmp_path)
    benches = [HostBench(machine) for _ in range(2)]
    benches[1].clock, benches[1].timeline = benches[0].clock, benches[0].timeline
    hosts = [
        bench.begin(home=tmp_path, own=JobProcesses(name, set(), {}))
        for bench, name in zip(benches, "ab", strict=True)
    ]
    measure_together(benches, hosts)
    for bench in benches:
        assert bench.total_j("ram") == pytest.approx(16 * 0.19 * 100, rel=0.01)
        peaks = {i.memory_peak_b for name, i in bench.recorded if name == "ram"}
        assert peaks - {None} == {16 * 2.0**30}  # not what the host uses


def test_no_limit_is_the_whole_host_in_either_version(tmp_path, proc):
    cgroup(tmp_path, "kubepods/pod1/main", memory__max="max", cpu__max="max 100000")
    cgroup(tmp_path, "memory", memory__limit_in_bytes="9223372036854771712")
    cgroup(tmp_path, "cpu", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
    machine = this_machine(tmp_path)
    assert (machine.cpu_share, machine.memory_share, machine.usage) == (1.0, 1.0, None)
    assert machine.threads == 16
    (proc / "meminfo").unlink()
    total_b = this_machine(tmp_path).memory_total_b
    assert total_b == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_codecarbon_gets_no_setting_of_the_user_and_nothing_of_slurm(tmp_path):
    environ = {"CODECARBON_PUE": "2", "codecarbon_pue": "2", "SLURM_JOB_ID": "1", "PATH": "/bin"}
    code = "import os; os.write(1, repr(sorted(os.environ)).encode())"
    process = PipedProcess([sys.executable, "-c", code], environ, str(tmp_path))
    os.set_blocking(process.fd, True)
    found = os.read(process.fd, 1000).decode()
    process.kill()
    assert "PATH" in found
    assert not any(name in found for name in ("CODECARBON", "codecarbon", "SLURM"))


ITS_MODEL = """
from gramwatt.collectors.host import codecarbon as ours
ours._counters = lambda cpu: {"ram": ("its model", "integrated")}
ours.main(0.5)
"""
"""Our process with the real package, as if its model of memory were a counter."""


def ram_model_w() -> float:
    """What codecarbon's own RAM model says of this machine [W]."""
    from codecarbon.external.ram import RAM

    return float(RAM(tracking_mode="machine").total_power().W)


@pytest.mark.long
def test_codecarbon_itself_gives_energy_and_writes_no_file(tmp_path):
    """The contract with the real package: a run of a few seconds, PUE and settings ignored."""
    environ = {**os.environ, "CODECARBON_PUE": "3"}
    (tmp_path / ".codecarbon.config").write_text("[codecarbon]\npue = 3\nsave_to_file = true\n")
    process = PipedProcess([sys.executable, "-c", ITS_MODEL], environ, str(tmp_path))
    os.set_blocking(process.fd, True)
    readings: list[dict[str, Any]] = []
    with os.fdopen(os.dup(process.fd)) as stream:
        for text in stream:
            readings.append(json.loads(text))
            if len(readings) == 6:
                break
    process.kill()
    assert [r["to_ns"] for r in readings[:-1]] == [r["from_ns"] for r in readings[1:]]
    # Its RAM model is a constant of the machine; a PUE that got through would triple it. It reads
    # its clock before ours: a busy machine delays some intervals' ends, but not most of them.
    power_w = median(
        r["counters"]["ram"][2] * NS_PER_S / (r["to_ns"] - r["from_ns"]) for r in readings
    )
    assert power_w == pytest.approx(ram_model_w(), rel=0.3)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".codecarbon.config"]
