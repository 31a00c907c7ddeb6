from __future__ import annotations

import errno
import json
import os
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from msgspec.json import encode

from gramwatt.collectors.meter import job_meter
from gramwatt.collectors.meter.device_manager import DeviceManager
from gramwatt.collectors.settings.clock import NS_PER_S
from gramwatt.collectors.spool.intervals import Interval, Ledger, Schedule
from gramwatt.collectors.spool.writer import Journal
from gramwatt.sci.records.records import IntervalRecord, decode
from tests.collectors.rig import Rig, energy_j, gpu

NOON_NS = int(datetime(2026, 5, 1, 12, tzinfo=UTC).timestamp()) * NS_PER_S
S = NS_PER_S


def fields(start_s: float, end_s: float, energy: float, **more: Any) -> dict[str, Any]:
    interval = Interval(NOON_NS + int(start_s * S), more.pop("kind", "measured"))
    interval.end_ns, interval.energy_j = NOON_NS + int(end_s * S), energy
    return {**interval.fields("GPU-1"), **more}


@pytest.fixture
def journal(tmp_path):
    base = {"job_id": "j", "node": "n", "writer": "w"}
    return Journal(tmp_path / "folder", base, lambda _text: None)


def test_an_interval_survives_its_own_state():
    interval = Interval(NOON_NS, "measured")
    ledger = Ledger("d", Schedule(NOON_NS), lambda _d, _i: None)
    ledger.open = interval
    ledger.add(NOON_NS, NOON_NS + S, 5.0, "measured", 300.0)
    ledger.observe(0.5, 1e9)
    ledger.observe(1.0, 5e8)
    again = Interval.restored(json.loads(encode(interval)))
    assert again is not None
    assert again.fields("d") == interval.fields("d")
    assert again.fields("d")["utilisation_mean"] == 0.75


def test_the_open_file_holds_what_is_about_to_be_appended(journal):
    journal.put(IntervalRecord, **fields(0, 10, 5))
    assert journal.write_open({"boot": "b"}, [(IntervalRecord, fields(10, 12, 1))])
    state, *lines = journal.path.with_suffix(".open").read_bytes().splitlines()
    assert json.loads(state) == {"state": {"boot": "b", "open_seq": 2}}
    records = [decode(line) for line in lines]
    assert [(r.writer, r.seq) for r in records] == [("w-open", 1), ("w-open", 2)]
    journal.flush()
    journal.write_open({}, [(IntervalRecord, fields(10, 13, 2))])
    again = [decode(ln) for ln in journal.path.with_suffix(".open").read_bytes().splitlines()[1:]]
    assert [r.seq for r in again] == [3]


def full_disk(monkeypatch: pytest.MonkeyPatch, taken: int) -> None:
    """The disk takes `taken` bytes of each write, or nothing with an error."""
    real = os.write

    def write(descriptor: int, data: bytes) -> int:
        if descriptor <= 2:
            return real(descriptor, data)
        if taken:
            return real(descriptor, data[:taken])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", write)


@pytest.mark.parametrize("taken", [0, 20])
def test_a_full_disk_leaves_no_torn_line_and_nothing_out_later(journal, monkeypatch, taken):
    journal.put(IntervalRecord, **fields(0, 10, 5))
    journal.flush()
    with monkeypatch.context() as patch:
        full_disk(patch, taken)
        journal.put(IntervalRecord, **fields(10, 20, 6))
        assert not journal.flush()
        assert not journal.write_open({}, [])
        assert journal.path.read_bytes().count(b"\n") == 1
    journal.put(IntervalRecord, **fields(20, 30, 7))
    assert journal.flush()
    records = [decode(line) for line in journal.path.read_bytes().splitlines()]
    assert [(r.seq, r.energy_j) for r in records] == [(1, 5), (2, 6), (3, 7)]  # type: ignore[union-attr]


@pytest.mark.long
def test_a_disk_full_for_long_costs_resolution_and_no_energy(tmp_path, monkeypatch):
    monkeypatch.setattr(job_meter, "PENDING_MAX", 48)
    rig = Rig(tmp_path, gpu())
    meter = rig.start()
    rig.run(20, meter)
    with monkeypatch.context() as patch:
        full_disk(patch, 0)
        rig.run(2_400, meter)
        devices = cast(DeviceManager, meter.devices)
        assert devices.schedule.coarse
        assert len(meter.journal.pending) < 3 * (30 + 5 + 2_400 / 300 + 3)
    rig.run(20, meter)
    rig.stop(meter)
    assert energy_j(rig.gpu_intervals()) == pytest.approx(250 * (2_400 + 40), rel=1e-9)
    assert any(text.startswith("spool-resolution: ") for text in meter.notices)


def test_a_home_that_cannot_be_written_costs_the_journal_not_the_job(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setattr("tempfile.tempdir", str(blocked))
    rig = Rig(blocked / "home", gpu())
    meter = rig.job(20)
    assert any("nothing can be journaled" in text for text in meter.notices)


def test_a_slow_disk_is_synced_one_hundredth_of_the_time(journal, monkeypatch):
    clock = [100.0]
    synced = []

    def slow(_descriptor: int) -> None:
        synced.append(clock[0])
        clock[0] += 2.0

    monkeypatch.setattr("os.fdatasync", slow)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    for _ in range(60):
        journal.write_open({}, [])
        clock[0] += 10.0
    gaps = [after - before for before, after in zip(synced, synced[1:], strict=False)]
    assert synced[0] == 100.0
    assert min(gaps) >= 190  # 2 s each: one in 200 s
