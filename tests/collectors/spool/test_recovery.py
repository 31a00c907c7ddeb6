"""Kills, take-overs and resumption: nothing lost but the last 10 s, nothing counted twice."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gramwatt.collectors.settings.clock import NS_PER_S
from gramwatt.collectors.spool.recovery import close_dead
from gramwatt.collectors.spool.writer import Journal
from gramwatt.collectors.track.counts import name_of
from gramwatt.sci.records.records import EndRecord, JobRecord
from tests.collectors.memory import file_of
from tests.collectors.rig import Rig, by_type, energy_j, gpu
from tests.collectors.spool.test_writer import full_disk

POWER_W = 250.0
STARTED = datetime(2026, 5, 1, 12, tzinfo=UTC)


def test_a_meter_brought_back_spans_the_gap_and_answers_for_the_dead(tmp_path):
    for gap_s, lived_s in ((1, 12.3), (45, 33.0), (700, 290.0), (1, 30.0)):
        rig = Rig(tmp_path / f"{gap_s}-{lived_s}", gpu())
        first = rig.start()
        rig.run(lived_s, first)
        rig.kill(first)
        rig.clock.sleep(gap_s)
        rig.job(60, restart=1)
        job = rig.merged()
        assert energy_j(rig.gpu_intervals()) == pytest.approx(POWER_W * (lived_s + gap_s + 60))
        assert {i.kind for i in rig.gpu_intervals()} == {"measured"}
        assert {line.writer.removesuffix("-open") for line in rig.records()} == {
            first.journal.base["writer"]
        }
        numbers = [line.seq for line in rig.records() if not line.writer.endswith("-open")]
        assert sorted(numbers) == list(range(1, len(numbers) + 1))
        assert job.state == "completed"
        assert [notice.code for notice in job.notices].count("meter-replaced") == 1
        assert not any(notice.code == "overlap-removed" for notice in job.notices)
        assert close_dead(rig.folder())
        assert rig.merged().state == "completed"


@pytest.mark.parametrize(
    ("ends", "state"),
    [
        (["completed", "completed"], ("completed", 0)),
        (["completed", "failed"], ("failed", 3)),
        (["failed", "completed"], ("failed", 3)),
        ([None, "completed"], ("killed", None)),
    ],
)
def test_a_job_ends_with_its_last_rank_and_as_the_first_bad_one(tmp_path, ends, state):
    rig = Rig(tmp_path, gpu())
    meter = rig.start(pid=100, role="track")
    rig.enter(101, "track")
    rig.enter(102, "worker")
    rig.run(10, meter)
    for pid, end in zip((100, 101), ends, strict=True):
        assert not meter.closed
        if end:
            rig.stop(meter, end, pid=pid, exit_code=3 if end == "failed" else 0)
        else:
            rig.die(pid)
            rig.run(2, meter)
    assert meter.closed, "a worker that is still there does not hold it up"
    merged = rig.merged()
    assert (merged.state, merged.exit_code) == state
    assert len(by_type(rig.records(), EndRecord)) == 1


def test_who_enters_while_the_job_is_closed_keeps_it_open(tmp_path, monkeypatch):
    rig = Rig(tmp_path, gpu())
    meter = rig.start(pid=100, role="track")
    rig.run(5, meter)

    def enter() -> None:
        monkeypatch.undo()
        rig.enter(101, "track")
        meter.memory.close()

    monkeypatch.setattr(meter.memory, "close", enter)
    rig.stop(meter)
    assert not meter.closed
    assert not meter.memory.closed
    rig.run(5, meter)
    rig.stop(meter, pid=101)
    assert meter.closed
    assert energy_j(rig.gpu_intervals()) == pytest.approx(POWER_W * 10, rel=1e-3)


def test_what_was_counted_outlives_a_meter_that_was_killed_while_it_closed_the_job(tmp_path):
    rig = Rig(tmp_path, gpu())
    meter = rig.start()
    rig.run(12, meter)
    rig.count(7)
    file_of(meter.memory, f"{name_of(os.getpid())}-9", {"role": "worker"})
    meter.memory.close()
    rig.kill(meter)
    assert not close_dead(rig.folder()), "a living process of the job starts another one"
    assert not meter.memory.finished
    meter.memory.forget(f"{name_of(os.getpid())}-9")
    assert close_dead(rig.folder())
    assert [count.amount for count in rig.merged().counts] == [7]
    assert meter.memory.finished, "nobody needs it any more"


def test_after_a_reboot_nothing_is_resumed(tmp_path):
    rig = Rig(tmp_path, gpu())
    first = rig.start()
    rig.run(20, first)
    rig.kill(first)
    rig.boot = "boot-2"
    rig.job(5, restart=1)
    assert energy_j(rig.gpu_intervals()) == pytest.approx(POWER_W * 25, abs=POWER_W * 10)


def test_a_driver_reloaded_during_the_gap_is_an_estimate_not_a_measurement(tmp_path):
    rig = Rig(tmp_path, gpu(faults=[{"type": "reset", "at_s": 60.0}]))
    first = rig.start()
    rig.run(50.5, first)
    rig.kill(first)
    rig.clock.sleep(49.5)
    rig.job(20, restart=1)
    intervals = rig.gpu_intervals()
    assert energy_j(intervals) == pytest.approx(POWER_W * 120, rel=0.01)
    assert energy_j(intervals, "estimated") == pytest.approx(POWER_W * 50, rel=0.05)


def test_the_state_of_a_torn_open_file_is_not_trusted(tmp_path):
    rig = Rig(tmp_path, gpu())
    first = rig.start()
    rig.run(20, first)
    rig.kill(first)
    path = first.journal.path.with_suffix(".open")
    path.write_bytes(path.read_bytes()[:50])
    second = rig.job(20, restart=1)
    assert second.devices is not None
    assert energy_j(rig.gpu_intervals()) == pytest.approx(POWER_W * 40, abs=1)


def test_a_clock_set_back_between_two_lives_of_a_job_hides_none_of_them(tmp_path):
    rig = Rig(tmp_path, gpu())
    first = rig.start(pid=100)
    rig.run(300, first)
    rig.stop(first, "failed")
    rig.die()
    rig.clock.jump_wall(-200)
    rig.clock.sleep(5)
    rig.now()
    rig.job(100, pid=101)
    assert energy_j(rig.gpu_intervals()) == pytest.approx(POWER_W * 400, rel=1e-4)
    assert not any(notice.code == "overlap-removed" for notice in rig.merged().notices)


def files_on_disk(monkeypatch: pytest.MonkeyPatch) -> dict[Path, bytes]:
    """By path, what was in a journal's files when they were synced last."""
    contents: dict[Path, bytes] = {}

    def noted(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        name = path.with_suffix(".open") if path.suffix == ".tmp" else path
        contents[name] = path.read_bytes()

    monkeypatch.setattr(os, "fdatasync", noted)
    return contents


def test_a_power_cut_takes_nothing_that_was_saved_before_the_disk_was_full(tmp_path, monkeypatch):
    on_disk = files_on_disk(monkeypatch)
    rig = Rig(tmp_path, gpu())
    monkeypatch.setattr("time.monotonic", lambda: rig.clock.now_ns() / NS_PER_S)
    meter = rig.start()
    rig.run(16, meter)
    meter.save_soon()  # 6 s after the last save, so that this one is not synced
    rig.run(1, meter)
    with monkeypatch.context() as patch:
        full_disk(patch, 0)
        rig.run(12, meter)
        rig.kill(meter)
    for path, content in on_disk.items():
        path.write_bytes(content)
    rig.boot = "boot-2"
    assert close_dead(rig.folder())
    assert energy_j(rig.gpu_intervals()) == pytest.approx(POWER_W * 16, abs=POWER_W * 0.2)


def test_lines_that_were_not_synced_are_when_nothing_new_comes_along(tmp_path, monkeypatch):
    on_disk = files_on_disk(monkeypatch)
    clock_s = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock_s[0])
    journal = Journal(tmp_path, {"job_id": "j", "node": "n", "writer": "w"}, lambda _text: None)
    for second in (0.0, 9.0, 19.0, 29.0):
        clock_s[0] = 100.0 + second
        if second < 10:
            journal.put(JobRecord, started_at=STARTED, role="command")
        journal.write_open({}, [])
        journal.flush()
        assert len(on_disk[journal.path].splitlines()) == (1 if second < 10 else 2)
    journal.close()
