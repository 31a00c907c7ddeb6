"""Jobs of one home on one device: who sees whom."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gramwatt.collectors.devices.shared_board import DeviceLocks
from gramwatt.collectors.settings import files

BOARD = "GPU-1"


def test_jobs_of_one_home_see_each_other_and_no_other_home(tmp_path):
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


@pytest.mark.parametrize("device", ["GPU-1", "../outside"])
def test_a_device_is_a_folder_inside_the_home_whatever_its_name(tmp_path, device):
    locks = DeviceLocks(tmp_path / "home", "mine")
    locks.acquire(device)
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert path.parent.parent == tmp_path / "home" / "boards"


def test_locks_are_no_other_users_to_make(tmp_path, monkeypatch):
    """The home takes none, and somebody else has made the temporary folder."""
    (tmp_path / "home").write_text("a file")
    monkeypatch.setattr(files, "temporary_folder", lambda: tmp_path / "temporary")
    locks = DeviceLocks(tmp_path / "home", "mine")
    locks.acquire(BOARD)
    assert locks.failure == ""
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    locks.acquire("GPU-2")
    assert "no file can be locked" in locks.failure
    assert not (tmp_path / "temporary" / "boards" / "GPU-2" / "mine").exists()


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


def test_a_job_that_starts_while_another_looks_is_seen(tmp_path):
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
