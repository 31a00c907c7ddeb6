"""Jobs that run on a host at the same time, none of them limited: together they pay it once."""

from __future__ import annotations

import pytest

from gramwatt.collectors.host.machine import this_machine
from gramwatt.collectors.meter.job_meter import JobMeter
from gramwatt.collectors.settings import identity
from gramwatt.collectors.spool.spool import SpoolFolder
from gramwatt.sci.records.merge import MergedDevice, MergedJob, merge
from gramwatt.sci.records.records import IntervalRecord, decode
from tests.collectors.rig import Rig, energy_j, gpu
from tests.collectors.vendor_fakes import write

RAM_W = 0.19 * 64
"""The model of docs/measuring.md for the rig's 64 GiB: constant, so that sums can be told."""


def memory(rig: Rig, job_id: str) -> MergedDevice:
    folder = SpoolFolder(next((rig.home / "spool" / job_id).iterdir()))
    job = merge(decode(line) for line in folder.lines())
    [found] = [d for d in job.devices if d.record.device_class == "ram"]
    return found


def started(rig: Rig, job_id: str, pid: int) -> JobMeter:
    return rig.start(job_id=job_id, pid=pid, mark=(rig.clock.mono_ns(), rig.clock.wall_ns()))


def test_a_job_alone_is_billed_the_whole_host(tmp_path):
    rig = Rig(tmp_path, gpu())
    meter = started(rig, "a", 1)
    rig.run(100, meter)
    rig.stop(meter)
    found = memory(rig, "a")
    assert energy_j(found.intervals) == pytest.approx(RAM_W * 100, rel=0.01)
    assert found.record.share == 1
    assert not any(text.startswith("host-shared: ") for text in meter.notices)


def test_jobs_at_the_same_time_add_up_to_the_host(tmp_path):
    rig = Rig(tmp_path, gpu())
    first = started(rig, "a", 1)
    rig.run(100, first)
    others = [started(rig, name, pid) for name, pid in (("b", 2), ("c", 3))]
    rig.run(200, first, *others)
    for meter in others:
        rig.stop(meter)
    rig.run(100, first)
    rig.stop(first)
    booked_j = {name: energy_j(memory(rig, name).intervals) for name in "abc"}
    # Each looks every 10 s, so that each change is seen up to 10 s late.
    assert booked_j["a"] == pytest.approx(RAM_W * (100 + 200 / 3 + 100), abs=RAM_W * 15)
    assert booked_j["b"] == pytest.approx(RAM_W * 200 / 3, abs=RAM_W * 10)
    assert sum(booked_j.values()) == pytest.approx(RAM_W * 400, abs=RAM_W * 15)
    assert memory(rig, "a").record.share == pytest.approx((200 + 200 / 3) / 400, abs=0.04)
    assert any(text.startswith("host-shared: ") for text in first.notices)


def test_nodes_that_share_a_home_are_different_hosts(tmp_path, monkeypatch):
    rig = Rig(tmp_path, gpu())
    meters = []
    for number, name in enumerate("ab"):
        monkeypatch.setattr(identity, "node_id", lambda *_, name=name: f"n-{name}")
        monkeypatch.setattr(identity, "kernel_id", lambda name=name: f"k-{name}")
        meters.append(started(rig, name, number + 1))
    rig.run(100, *meters)
    for meter in meters:
        rig.stop(meter)
    assert energy_j(memory(rig, "b").intervals) == pytest.approx(RAM_W * 100, rel=0.01)


def test_two_containers_of_one_host_and_job_are_billed_the_host_once(tmp_path, monkeypatch):
    rig = Rig(tmp_path, gpu())
    meters = []
    for number, name in enumerate("ab"):
        monkeypatch.setattr(identity, "node_id", lambda *_, name=name: f"n-{name}")
        meters.append(started(rig, "job", number + 1))
    rig.run(100, *meters)
    for meter in meters:
        rig.stop(meter)
    folders = [SpoolFolder(path) for path in (rig.home / "spool" / "job").iterdir()]
    job = merge(decode(line) for folder in folders for line in folder.lines())
    memories = [d for d in job.devices if d.record.device_class == "ram"]
    assert [d.record.device_id for d in memories] == ["n-a-ram", "n-b-ram"]
    booked_j = sum(energy_j(d.intervals) for d in memories)
    # Each looks every 10 s, so that the change at the start is seen up to 10 s late.
    assert booked_j == pytest.approx(RAM_W * 100, abs=RAM_W * 10.5)
    assert energy_j(rig_board(job)) == pytest.approx(250 * 100, abs=250 * 0.2)


def rig_board(job: MergedJob) -> tuple[IntervalRecord, ...]:
    [found] = [d for d in job.devices if d.record.device_class == "gpu"]
    return found.intervals


def test_a_stranger_with_the_number_of_a_trial_that_has_ended_is_not_the_jobs(tmp_path):
    """In a long job of many trials every number comes again."""
    rig = Rig(tmp_path, gpu())
    rig.enter(100)
    rig.enter(200, "caller")
    meter = started(rig, "job", 100)
    assert meter.devices is not None
    rig.run(20, meter)
    assert meter.devices.pids == {100, 200}
    rig.clients[200] += 10**12
    rig.run(20, meter)
    assert meter.devices.pids == {100}


def test_a_processor_is_named_however_its_architecture_does(tmp_path):
    names = {
        "x86": ("vendor_id\t: GenuineIntel\nmodel\t\t: 85\nmodel name\t: Xeon\n", "Xeon"),
        "power": (
            "processor\t: 0\ncpu\t\t: POWER9, altivec supported\n",
            "POWER9, altivec supported",
        ),
        "loongarch": (
            "system type\t: generic\nModel Name\t\t: Loongson-3A6000\n",
            "Loongson-3A6000",
        ),
        "raspberry": ("CPU part\t: 0xd0b\nModel\t\t: Raspberry Pi 5\n", "Raspberry Pi 5"),
    }
    for root, (text, name) in names.items():
        write(tmp_path / root, proc__cpuinfo=text)
        assert this_machine(tmp_path / root).cpu_name == name
