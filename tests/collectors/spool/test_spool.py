from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gramwatt.collectors.meter.job_meter import Log
from gramwatt.collectors.settings.identity import node_id
from gramwatt.collectors.spool import send, spool
from gramwatt.collectors.spool.recovery import close_dead
from gramwatt.collectors.spool.spool import SpoolFolder
from tests.collectors.rig import Rig, gpu

HOLD = """
import fcntl, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(fd, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


def folder(home: Path, node: str = "n-a", **files: str) -> SpoolFolder:
    path = home / "spool" / "job" / node
    path.mkdir(parents=True)
    for name, text in files.items():
        (path / name.replace("_", ".")).write_text(text)
    return SpoolFolder(path)


def line(kind: str, seq: int, **more: str) -> str:
    extra = "".join(f',"{key}":"{value}"' for key, value in more.items())
    return f'{{"v":1,"type":"{kind}","seq":{seq}{extra}}}\n'


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_final_lines_come_before_open_ones_and_torn_and_state_lines_are_left_out(tmp_path):
    found = folder(
        tmp_path,
        b_jsonl="b1\nb2\ntorn",
        a_jsonl="a1\n",
        a_open='{"state":{}}\no1\n',
        meter_log="nothing\n",
    )
    assert list(found.lines()) == [b"a1", b"b1", b"b2", b"o1"]


def test_a_living_process_makes_a_folder_live_and_its_death_ends_that(tmp_path):
    found = folder(tmp_path, node_id(), w_jsonl=line("job", 1))
    assert not found.is_live()
    arguments = [sys.executable, "-c", HOLD, str(found.path / "w.jsonl")]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert found.is_live()
        assert found.unclosed() == []
        holder.kill()
        holder.wait()
    assert not found.is_live()
    assert [item.writer for item in found.unclosed()] == ["w"]


def test_a_foreign_nodes_folder_is_live_while_it_was_written_lately(tmp_path):
    found = folder(tmp_path, "n-elsewhere", w_jsonl=line("job", 1))
    assert found.is_live()
    age(found.path / "w.jsonl", 1_000)
    assert not found.is_live()


@pytest.fixture
def no_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def test_everything_in_a_home_that_all_may_read_is_private(tmp_path, no_umask):
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    rig = Rig(home, gpu())
    meter = rig.start()
    rig.kill(meter)
    path = rig.folder().path
    Log(path / "meter.log", rig.clock).write("a remark")
    assert spool.remember_server(path, "http://server")
    send._write_marks(path, "http://127.0.0.1:8642", {"a": 1})
    assert close_dead(spool.SpoolFolder(path))
    modes = {found: stat.S_IMODE(found.stat().st_mode) for found in home.rglob("*")}
    names = {found.name for found in modes}
    assert {"spool", "boards", "lock", "meter.log", "server.json", "uploaded.json"} <= names
    assert any(name.startswith("r-") for name in names)  # the recovery's journal
    assert {mode for found, mode in modes.items() if found.is_dir()} == {0o700}
    assert {mode for found, mode in modes.items() if found.is_file()} == {0o600}
    moved = spool.reject(spool.SpoolFolder(path))
    assert stat.S_IMODE(moved.parents[1].stat().st_mode) == 0o700
    assert stat.S_IMODE(home.stat().st_mode) == 0o755  # it is its owner's to decide


def test_over_its_limit_the_spool_keeps_everything_and_gets_coarser(tmp_path):
    rig = Rig(tmp_path, gpu())
    old = folder(tmp_path, "n-old", a_jsonl="x" * 3_000_000)
    meter = rig.job(900, config={"spool_limit_mb": 2.0})
    assert old.size_b() == 3_000_000
    assert any(text.startswith("spool-resolution: ") for text in meter.notices)
    found = spool.folders(tmp_path)[-1]
    intervals = [ln for ln in found.lines() if b'"interval"' in ln and b"GPU-" in ln]
    assert 4 <= len(intervals) <= 7  # 900 s: tens at first, then five minutes each


def test_what_is_left_of_a_delivered_folder_is_deleted_and_never_closed_again(
    tmp_path, monkeypatch
):
    """The writer that resumed another's is gone: a recovery would count what it had journaled."""
    found = folder(
        tmp_path,
        node_id(),
        a_jsonl=line("job", 1),
        b_jsonl=line("job", 1, resumes="a") + line("end", 2),
    )
    assert found.is_closed()

    def killed(path: str, *, ignore_errors: bool) -> None:
        (Path(path) / "b.jsonl").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            spool.discard(found)
    [left] = tmp_path.rglob("a.jsonl")
    assert spool.folders(tmp_path) == []
    spool.discard(folder(tmp_path, node_id(), a_jsonl=line("job", 1)))
    assert not left.exists()
    assert list((tmp_path / "delivered").iterdir()) == []


def test_a_home_whose_spool_is_anothers_is_journaled_beside_and_found_again(tmp_path, monkeypatch):
    """As after `sudo gramwatt run`; a file stands for a folder of root's, which root could use."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    home = tmp_path / "home"
    home.mkdir()
    assert spool.usable_home(home, spool.LEAST_FREE_B) == home
    (home / "spool").touch()
    beside = spool.usable_home(home, spool.LEAST_FREE_B)
    assert beside.parent == tmp_path / "tmp"
    assert beside != spool.usable_home(tmp_path / "other" / "spool", spool.LEAST_FREE_B)
    journal = spool.spool_root(beside) / "job-1" / "n-1"
    spool.remember_server(journal, "https://gramwatt.example")
    (home / "spool").unlink()
    assert spool.usable_home(home, spool.LEAST_FREE_B) == home
    assert [folder.path for folder in spool.folders(home)] == [journal]
    monkeypatch.setattr("os.getuid", lambda: 4242)  # nobody else's folder is read
    assert spool.folders(home) == []
