"""Jobs of one home on one device: who sees whom."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gramwatt.collectors.devices.shared_board import DeviceLocks
from gramwatt.collectors.spool import spool

BOARD = "GPU-1"


def test_jobs_of_one_home_see_each_other_and_no_other_home(tmp_path: Path) -> None:
    mine, other, stranger = (
        DeviceLocks(tmp_path / home, job) for home, job in (("a", "1"), ("a", "2"), ("b", "3"))
    )
    for locks in (mine, other, stranger):
        locks.acquire(BOARD)
    assert (len(mine.living(BOARD)), len(other.living(BOARD)), len(stranger.living(BOARD))) == (
        1,
        1,
        0,
    )
    assert len(mine.living("GPU-2")) == 0
    other.release()
    assert len(mine.living(BOARD)) == 0
    mine.release()
    assert [path for path in (tmp_path / "a").rglob("*") if path.is_file()] == []


def test_files_of_dead_jobs_are_removed(tmp_path: Path) -> None:
    left = tmp_path / "boards" / BOARD / "dead-job"
    left.parent.mkdir(parents=True)
    left.touch()
    locks = DeviceLocks(tmp_path, "mine")
    locks.acquire(BOARD)
    assert len(locks.living(BOARD)) == 0
    assert not left.exists()


@pytest.mark.parametrize("device", ["GPU-1", "../outside"])
def test_a_device_is_a_folder_inside_the_home_whatever_its_name(
    tmp_path: Path, device: str
) -> None:
    locks = DeviceLocks(tmp_path / "home", "mine")
    locks.acquire(device)
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert path.parent.parent == tmp_path / "home" / "boards"


def test_locks_are_no_other_users_to_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The home takes none, and somebody else has made the temporary folder."""
    (tmp_path / "home").write_text("a file")
    monkeypatch.setattr(spool, "temporary_home", lambda: tmp_path / "temporary")
    locks = DeviceLocks(tmp_path / "home", "mine")
    locks.acquire(BOARD)
    assert locks.failure == ""
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    locks.acquire("GPU-2")
    assert "no file can be locked" in locks.failure
    assert not (tmp_path / "temporary" / "boards" / "GPU-2" / "mine").exists()


def test_a_home_that_cannot_be_written_shows_nobody(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    locks = DeviceLocks(tmp_path / "home", "mine")
    locks.acquire(BOARD)
    assert len(locks.living(BOARD)) == 0
    locks.release()


LOOK = """
import sys
from pathlib import Path
from gramwatt.collectors.devices.shared_board import DeviceLocks
from gramwatt.collectors.spool import spool
locks = DeviceLocks(Path(sys.argv[1]), "looks")
print("up", flush=True)
while True:
    len(locks.living("GPU-1"))
"""


def test_a_job_that_starts_while_another_looks_is_seen(tmp_path: Path) -> None:
    """The one that looks deletes files that nobody has locked: also one about to be locked."""
    command = [sys.executable, "-c", LOOK, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as looking:
        assert looking.stdout is not None
        looking.stdout.readline()
        watcher = DeviceLocks(tmp_path, "watches")
        unseen = 0
        for number in range(300):
            locks = DeviceLocks(tmp_path, f"job-{number}")
            locks.acquire(BOARD)
            unseen += len(watcher.living(BOARD)) == 0
            locks.release()
        looking.kill()
    assert unseen == 0


def test_a_lock_of_a_file_that_is_deleted_meanwhile_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks, other = DeviceLocks(tmp_path, "mine"), DeviceLocks(tmp_path, "other")
    flock, calls = fcntl.flock, []

    def slow_flock(descriptor: int, how: int) -> None:
        calls.append(how)
        if len(calls) == 1:  # another job has looked in between, and deletes what nobody has locked
            len(other.living(BOARD))
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", slow_flock)
    locks.acquire(BOARD)
    monkeypatch.undo()
    assert len(other.living(BOARD)) == 1
