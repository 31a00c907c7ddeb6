"""The life of a journal: long jobs, many jobs, storage without locks, names that stay private."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from typing import Any

import pytest

from gramwatt.collectors.settings import identity, proc
from gramwatt.collectors.settings.clock import NS_PER_S
from gramwatt.collectors.spool import spool
from gramwatt.collectors.spool.recovery import close_dead
from gramwatt.sci.records.records import JobRecord
from tests.collectors.rig import Rig, by_type, energy_j, gpu, states

DAY_S = 86_400


def lives(rig: Rig, meter: Any, duration_s: int, step_s: int) -> None:
    """Let time pass with a reading every `step_s` only, which stands in for one a second."""
    for _ in range(duration_s // step_s):
        rig.clock.sleep(step_s)
        meter.tick()


@pytest.mark.long
def test_a_job_of_90_days_keeps_a_small_journal_and_every_joule(tmp_path):
    rig = Rig(tmp_path, gpu())
    meter = rig.start()
    rig.run(4_000, meter)
    lives(rig, meter, 90 * DAY_S - 4_000, 7_200)
    small = (rig.folder().path / f"{meter.journal.base['writer']}.open").stat().st_size
    span_s = rig.clock.now_ns() / NS_PER_S - 1_000.0  # the virtual machine is 1 000 s old
    rig.stop(meter)
    device_days = 90 * 3  # the GPU, the CPU, the memory
    assert rig.folder().size_b() / device_days == pytest.approx(75_000, rel=0.05)  # bytes a day
    assert small < 25_000  # two hours of lines, as only such readings are taken here
    assert (rig.folder().path / "meter.log").stat().st_size < 1_000_000
    assert energy_j(rig.gpu_intervals()) == pytest.approx(250 * span_s, rel=1e-9)


def test_five_thousand_waiting_folders_are_listed_at_once_and_one_job_alone(tmp_path, monkeypatch):
    looked_at: list[str] = []
    scandir = os.scandir

    def looked(path: str) -> Any:
        looked_at.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", looked)
    for number in range(5_000):
        folder = tmp_path / "spool" / f"job-{number}" / "n-1"
        folder.mkdir(parents=True)
        (folder / "a.jsonl").write_bytes(b"0123456789")
        (folder / "a.open").write_bytes(b"01234")
    assert len(spool.folders(tmp_path)) == 5_000
    assert spool.size_b(tmp_path) == 5_000 * 15
    assert len(looked_at) == 4 * 5_000 + 2  # every job, its node and the node's files, once each
    looked_at.clear()
    assert [f.job_id for f in spool.folders(tmp_path, "job-77")] == ["job-77"]
    assert len(looked_at) == 2


@pytest.fixture
def no_locks(monkeypatch):
    """Storage that knows no flock, as some network file systems."""

    def refuse(*_args: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)


@pytest.mark.usefixtures("no_locks")
def test_without_locks_a_folder_is_dead_after_a_quarter_of_an_hour_of_silence(tmp_path):
    rig = Rig(tmp_path, gpu())
    meter = rig.start()
    rig.run(30, meter)
    rig.count(5)
    meter.save_soon()
    rig.run(1, meter)
    rig.kill(meter)
    folder = rig.folder()
    assert folder.is_live()
    assert not close_dead(folder)
    long_ago = time.time() - spool.FOREIGN_QUIET_S - 1
    for path in folder.path.iterdir():
        os.utime(path, (long_ago, long_ago))
    assert not folder.is_live()
    assert close_dead(folder)
    before = sorted(path.name for path in folder.path.iterdir())
    recovery = next(path for path in folder.path.glob("r-*.jsonl"))
    said = recovery.read_bytes()
    recovery.unlink()  # as another process sees it that closes the same folder at the same time
    for path in folder.path.iterdir():
        os.utime(path, (long_ago, long_ago))
    assert close_dead(folder)
    assert sorted(path.name for path in folder.path.iterdir()) == before
    assert recovery.read_bytes() == said
    assert sum(c.amount for c in rig.merged().counts) == 5
    assert rig.merged().state == "lost"


@pytest.mark.usefixtures("no_locks")
def test_a_home_without_locks_is_reported_at_once_and_its_ended_jobs_are_closed(
    tmp_path, monkeypatch
):
    rig = Rig(tmp_path, gpu(name="GH200 480GB"))  # whose counter is the host's too
    rig.clients[os.getpid()] = 5
    meter = rig.start()
    assert any("no file can be locked" in text for _, text in meter.advice)
    rig.run(3, meter)
    monkeypatch.setattr(proc, "boot_id", lambda: rig.boot)
    monkeypatch.setattr(proc, "process_start_ns", lambda _pid: 5)
    assert rig.folder().is_live()
    monkeypatch.setattr(proc, "process_start_ns", lambda _pid: None)
    assert not rig.folder().is_live(), "the meter is known by its process"


def test_neither_host_nor_user_is_named_in_any_file_unless_allowed(tmp_path, monkeypatch):
    secrets = {
        "USER": "trillian-user",
        "LOGNAME": "trillian-user",
        "HOME": "/home/trillian-user",
        "HOSTNAME": "heart-of-gold",
        "SLURMD_NODENAME": "heart-of-gold",
        "SLURM_JOB_USER": "trillian-user",
        "SLURM_JOB_ID": "7",
        "SLURM_NODELIST": "heart-of-gold",
        "CUDA_VISIBLE_DEVICES": "0",
    }
    monkeypatch.setattr(identity, "host_name", lambda: "heart-of-gold")
    for allowed in (False, True):
        home = tmp_path / str(allowed)
        rig = Rig(home, gpu())
        rig.job(25, environ=secrets, config={"allow_host_names": allowed})
        files = [path for path in home.rglob("*") if path.is_file()]
        texts = b"".join(path.read_bytes() for path in files)
        names = " ".join(str(path.relative_to(home)) for path in home.rglob("*")).encode()
        assert b"trillian" not in texts + names
        assert (b"heart-of-gold" in texts + names) is allowed
        assert len(files) >= 3


def test_a_long_sleep_and_a_set_clock_in_one_job_cost_no_joule(tmp_path):
    rig = Rig(tmp_path, gpu())
    meter = rig.start()
    rig.run(400, meter)
    rig.clock.jump_wall(-3 * DAY_S)
    rig.clock.suspend(2 * DAY_S)
    rig.run(400, meter)
    rig.clock.jump_wall(9 * DAY_S)
    rig.run(400, meter)
    rig.stop(meter)
    merged = rig.merged()
    assert energy_j(rig.gpu_intervals()) == pytest.approx(250 * (1_200 + 2 * DAY_S), rel=1e-9)
    assert merged.duration_s == pytest.approx(1_200 + 2 * DAY_S, abs=1e-3)
    assert merged.state == "completed"


def test_the_state_of_a_living_job_says_whose_it_is_and_ends_with_it(tmp_path):
    rig = Rig(tmp_path, gpu())
    meter = rig.start(pid=4242)
    rig.run(15, meter)
    (state,) = states(rig.folder()).values()
    assert (state["memory"], state["boot"]) == (meter.memory.path, "boot-1")
    rig.stop(meter)
    assert len(by_type(rig.records(), JobRecord)) == 1
    assert not rig.folder().is_live()
    assert rig.folder().unclosed() == []
