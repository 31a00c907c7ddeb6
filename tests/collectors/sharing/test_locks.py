"""Two users on one board: what each sees of the other, and what nobody can make them believe."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from gramwatt.collectors.sharing.locks import NAME, PREFIX, NodeLocks, folder, owner
from gramwatt.collectors.sharing.tenancy import BoardLocks

ME, SHE = 1000, 1001
BOARD = "GPU-5"


def named(descriptor: int) -> int | None:
    """The user a file is named after: as if each had made its own."""
    if owner(descriptor) != os.getuid():
        return None
    found = NAME.fullmatch(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
    assert found is not None
    return int(found[2])


def locks(where: Path, job: str, uid: int = ME) -> NodeLocks:
    return NodeLocks(where, job, uid, named)


def test_jobs_of_two_users_and_of_two_homes_see_each_other(tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    mine, hers = (locks(tmp_path / "node", job, uid) for job, uid in (("a", ME), ("b", SHE)))
    own = BoardLocks(tmp_path / "my-home", "a", mine)
    other = BoardLocks(tmp_path / "her-home", "b", hers)
    own.take(BOARD)
    assert own.others(BOARD) == 0
    other.take(BOARD)
    assert (own.others(BOARD), other.others(BOARD), own.others("GPU-6")) == (1, 1, 0)
    other.release()
    assert own.others(BOARD) == 0
    own.release()
    assert list((tmp_path / "node").iterdir()) == []


def test_jobs_of_one_home_are_not_counted_twice(tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    first, second = (
        BoardLocks(tmp_path / "home", job, locks(tmp_path / "node", job)) for job in ("a", "b")
    )
    first.take(BOARD)
    second.take(BOARD)
    assert (first.others(BOARD), second.others(BOARD)) == (1, 1)


def test_another_user_counts_once_and_the_same_job_not_at_all(tmp_path: Path) -> None:
    mine = locks(tmp_path, "a")
    held = [locks(tmp_path, job, SHE) for job in ("a", "b", "c", "d")]
    for other in (mine, *held):
        other.take(BOARD)
    assert mine.others(BOARD) == {f"user {SHE}"}
    again = locks(tmp_path, "e")
    again.take(BOARD)
    assert len(mine.others(BOARD)) == 2


def test_a_file_under_another_users_name_is_not_believed(tmp_path: Path) -> None:
    """All files here are this process's own, whatever user they are named after."""
    her = locks(tmp_path, "b", SHE)
    her.take(BOARD)
    (left,) = tmp_path.iterdir()
    mine = NodeLocks(tmp_path, "a", os.getuid())
    assert mine.others(BOARD) == set()
    assert left.exists()


def test_a_dead_job_counts_no_more_and_only_its_user_removes_it(tmp_path: Path) -> None:
    for job, uid in (("b", SHE), ("c", ME)):
        dead = locks(tmp_path, job, uid)
        dead.take(BOARD)
        for lock in dead._held.values():
            os.close(lock)  # killed: its file stays, its lock does not
    assert locks(tmp_path, "a").others(BOARD) == set()
    kept = [path.name.split(".")[1] for path in tmp_path.iterdir() if "." in path.name]
    assert sorted(kept) == [str(ME), str(SHE)]  # her dead one, and ours of the job that looked


def test_links_pipes_and_second_names_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    probe = locks(tmp_path / "node", "a")
    probe.take(BOARD)
    (path,) = (tmp_path / "node").iterdir()
    probe.release()
    for trap in (path.symlink_to, path.hardlink_to):
        trap(victim)
        probe.take(BOARD)
        assert probe._held == {}
        assert (victim.read_text(), victim.stat().st_mode & 0o777) == ("precious", 0o644)
        assert NodeLocks(tmp_path / "node", "z", ME).others(BOARD) == set()
        path.unlink()
    os.mkfifo(path)
    probe.take(BOARD)  # an open that waited for a writer would hang here
    assert NodeLocks(tmp_path / "node", "z", ME).others(BOARD) == set()
    assert probe._held == {}


def test_somebody_who_holds_our_file_delays_us_and_stops_nothing(tmp_path: Path) -> None:
    mine, hers = locks(tmp_path, "a"), locks(tmp_path, "b", SHE)
    mine.take(BOARD)
    (path,) = tmp_path.iterdir()
    os.close(mine._held.pop(path))
    with path.open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH | fcntl.LOCK_NB)
        mine.take(BOARD)
        assert mine._held == {}
    assert mine.others(BOARD) == set()  # and it takes what was not to be had before
    assert hers.others(BOARD) == {f"user {ME}"}


@pytest.mark.parametrize("where", ["nowhere", "file"])
def test_a_folder_that_cannot_be_written_leaves_the_home(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("")
    for job in ("a", "b"):
        node = locks(tmp_path / where, job)
        own = BoardLocks(tmp_path / "home", job, node)
        own.take(BOARD)
    assert own.others(BOARD) == 1  # of this home, as before
    assert node.others(BOARD) == set()


def test_only_a_sticky_folder_of_the_administrator_is_taken(tmp_path: Path) -> None:
    for mode in (0o700, 0o755, 0o777):
        open_to = tmp_path / f"{mode:o}"
        open_to.mkdir()
        open_to.chmod(mode)
        assert folder((open_to,)) is None
    link = tmp_path / "link"
    link.symlink_to("/dev/shm")
    assert folder((tmp_path / "nowhere", link)) is None
    sticky = tmp_path / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    assert folder((sticky,)) == (sticky if sticky.stat().st_uid == 0 else None)


def test_names_tell_neither_board_nor_job(tmp_path: Path) -> None:
    held = locks(tmp_path, "secret-project")
    held.take(BOARD)
    (path,) = tmp_path.iterdir()
    assert path.name.startswith(PREFIX)
    assert not any(word in path.name for word in ("secret", BOARD))
    assert path.stat().st_mode & 0o777 == 0o644
    assert path.read_bytes() == b""
