"""Jobs of one home on one device: who sees whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from gramwatt.collectors.sharing.locks import DeviceLocks

BOARD = "GPU-1"


def test_jobs_of_one_home_see_each_other_and_no_other_home(tmp_path: Path) -> None:
    mine, other, stranger = (
        DeviceLocks(tmp_path / home, job) for home, job in (("a", "1"), ("a", "2"), ("b", "3"))
    )
    for locks in (mine, other, stranger):
        locks.acquire(BOARD)
    assert (mine.others(BOARD), other.others(BOARD), stranger.others(BOARD)) == (1, 1, 0)
    assert mine.others("GPU-2") == 0
    other.release()
    assert mine.others(BOARD) == 0
    mine.release()
    assert [path for path in (tmp_path / "a").rglob("*") if path.is_file()] == []


def test_files_of_dead_jobs_are_removed(tmp_path: Path) -> None:
    left = tmp_path / "boards" / BOARD / "dead-job"
    left.parent.mkdir(parents=True)
    left.touch()
    locks = DeviceLocks(tmp_path, "mine")
    locks.acquire(BOARD)
    assert locks.others(BOARD) == 0
    assert not left.exists()


@pytest.mark.parametrize("device", ["GPU-1", "../outside"])
def test_a_device_is_a_folder_inside_the_home_whatever_its_name(
    tmp_path: Path, device: str
) -> None:
    locks = DeviceLocks(tmp_path / "home", "mine")
    locks.acquire(device)
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert path.parent.parent == tmp_path / "home" / "boards"


def test_a_home_that_cannot_be_written_shows_nobody(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    locks = DeviceLocks(tmp_path / "home", "mine")
    locks.acquire(BOARD)
    assert locks.others(BOARD) == 0
    locks.release()
