"""A journal that is delivered while another run of the same job opens its folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from threading import Thread
from typing import Any

import pytest

from gramwatt.collectors.settings import proc
from gramwatt.collectors.settings.config import Config
from gramwatt.collectors.settings.identity import node_id
from gramwatt.collectors.spool import send, spool
from gramwatt.collectors.spool.send import sync
from gramwatt.sci.records.merge import merge
from gramwatt.sci.records.records import AnyRecord, decode
from tests.collectors.rig import Rig, energy_j, gpu
from tests.collectors.slowserver import SlowServer
from tests.collectors.track.test_end_to_end import (
    GRAMWATT,
    POWER_W,
    environ,
    home,
    meters,
    start_script,
    wait_until,
)

__all__ = ["environ"]


@pytest.fixture
def server():
    running = SlowServer()
    yield running
    running.stop()


def test_two_runs_of_one_job_around_a_sync_are_both_delivered(environ, tmp_path, server):
    """As with consecutive steps of one Slurm job: the second begins while the first is sent."""
    first = "with track(unit='image') as job:\n    job.count(7)\n    time.sleep(1.2)\n"
    assert start_script(environ, first, tmp_path).wait(60) == 0
    wait_until(lambda: not meters(environ), "the end of the first run")
    address = {"GRAMWATT_SERVER": server.url}
    syncing = subprocess.Popen([*GRAMWATT, "sync"], env=environ | address)
    assert server.asked.wait(60)

    (tmp_path / "job.py").unlink()
    body = "with track(unit='image') as job:\n    job.count(5)\n    print('up', flush=True)\n"
    body += f"    while not os.path.exists({str(tmp_path / 'end')!r}):\n        time.sleep(0.05)\n"
    body += "        job.count(0)\n"
    job = start_script(environ, body, tmp_path)
    folder = home(environ) / "spool" / "job-1" / node_id()
    wait_until(lambda: len(list(folder.glob("*.jsonl"))) == 2, "the second run's journal")
    server.may_answer.set()
    assert syncing.wait(60) == 0
    time.sleep(1.0)
    (tmp_path / "end").touch()
    assert job.wait(60) == 0
    wait_until(lambda: not meters(environ), "the end of the second run")
    assert subprocess.run([*GRAMWATT, "sync"], env=environ | address, timeout=60).returncode == 0
    found = merge(decode(line) for line in server.lines)
    assert sum(count.amount for count in found.counts) == 12
    assert found.state == "completed"
    assert spool.folders(home(environ)) == []
    assert not list((home(environ) / "delivered").iterdir())


@pytest.mark.parametrize("how", ["deleted", "moved"])
def test_a_meter_whose_folder_goes_away_takes_its_lines_along(tmp_path, how):
    rig = Rig(tmp_path, gpu())
    meter = rig.start(config={"server": "https://key:word@server"})
    rig.count(4)
    rig.run(35, meter)
    if how == "deleted":
        shutil.rmtree(rig.folder().path)
    else:
        rig.folder().path.rename(tmp_path / "elsewhere")
    rig.count(8)
    rig.run(35, meter)
    rig.stop(meter)
    assert rig.folder().server() == "https://server"
    assert energy_j(rig.gpu_intervals()) == pytest.approx(POWER_W * 70 * 250 / 300)
    assert sum(count.amount for count in rig.merged().counts) == 12
    assert rig.merged().state == "completed"


def delivered_by_sync(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, refused: Sequence[dict[str, Any]] = ()
) -> list[AnyRecord]:
    """Return what a sync to a server sends of the rig's home, while the rig's clients live.

    The server answers that it has `refused` these.
    """
    sent: list[AnyRecord] = []

    def upload(*args: Any) -> send.Sent:
        sent.extend(map(decode, args[2]))
        return send.Sent(rejected=list(refused))

    monkeypatch.setattr(send, "upload", upload)
    monkeypatch.setattr(proc, "boot_id", lambda: rig.boot)
    monkeypatch.setattr(proc, "process_start_ns", rig.clients.get)
    sync(Config(home=rig.home, server="http://server"), None)
    return sent


@pytest.mark.parametrize("how", ["discard", "reject"])
def test_a_run_that_begins_and_ends_while_its_folder_is_moved_away_is_delivered(
    tmp_path, monkeypatch, how
):
    rig = Rig(tmp_path)

    def run(amount: int) -> None:
        meter = rig.start()
        rig.count(amount)
        rig.stop(meter)

    second = Thread(target=run, args=(8,))
    move = getattr(spool, how)

    def moved(*args: Any) -> Any:
        if not second.ident:
            second.start()
            second.join(0.5)  # it ends by then where it need not wait
        return move(*args)

    run(4)
    refused = [{"message": "no"}] if how == "reject" else []
    monkeypatch.setattr(spool, how, moved)
    sent = delivered_by_sync(rig, monkeypatch, refused)
    second.join(60)
    sent += delivered_by_sync(rig, monkeypatch, refused)
    assert sum(count.amount for count in merge(sent).counts) == 12
    assert spool.folders(tmp_path) == []


@pytest.mark.parametrize("lives", ["client", "meter that starts", "nobody"])
def test_a_lost_reply_and_a_delivered_folder_together_double_no_count(tmp_path, monkeypatch, lives):
    rig = Rig(tmp_path)
    rig.clients[100] = rig.clock.now_ns()
    first = rig.start(pid=100)
    rig.count(4)
    rig.run(21, first)
    rig.kill(first)  # no reply arrives
    lock = None
    if lives != "client":
        del rig.clients[100]
    if lives == "meter that starts":
        lock = rig.memory().lock()
        assert lock is not None
    sent = delivered_by_sync(rig, monkeypatch)
    assert bool(spool.folders(tmp_path)) == (lives != "nobody")
    if lock is not None:
        os.close(lock)
        sent += delivered_by_sync(rig, monkeypatch)
    if lives == "client":
        second = rig.start(pid=100, restart=1)
        rig.count(8)
        rig.stop(second)
        sent += delivered_by_sync(rig, monkeypatch)
    assert sum(count.amount for count in merge(sent).counts) == (12 if lives == "client" else 4)
    assert spool.folders(tmp_path) == []


def test_a_power_cut_after_an_upload_whose_answer_was_lost_doubles_no_count(tmp_path, monkeypatch):
    """The server has the count line, the disk not, so that the recovery would journal it again."""
    on_disk = sizes_on_disk(monkeypatch)
    rig = Rig(tmp_path)
    meter = rig.start()
    rig.run(1, meter)
    rig.count(12)
    rig.stop(meter)
    (path,) = rig.folder().path.glob("*.jsonl")
    assert on_disk[path.stat().st_ino] < path.stat().st_size, "a power cut takes the last lines"

    stored: list[AnyRecord] = []

    def store(_session: Any, _url: str, body: bytes) -> Any:
        stored.extend(map(decode, body.splitlines()))
        raise send.NotTaken(send.AWAY, "the answer is lost")

    monkeypatch.setattr(send, "_post", store)
    sync(Config(home=tmp_path, server="http://server"), None)
    os.truncate(path, on_disk[path.stat().st_ino])
    rig.boot = "boot-2"
    stored += delivered_by_sync(rig, monkeypatch)
    assert sum(count.amount for count in merge(stored).counts) == 12


def sizes_on_disk(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """By inode, the size [B] up to which a file was synced last."""
    sizes: dict[int, int] = {}

    def noted(descriptor: int) -> None:
        found = os.fstat(descriptor)
        sizes[found.st_ino] = found.st_size

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(os, "fdatasync", noted)
    return sizes


GARBAGE = {
    "no json": b"\x00\x00garbage\n",
    "a newer release": b'{"v":9,"type":"job","job_id":"job-0","writer":"w","seq":1}\n',
    "no time": b'{"v":1,"type":"count","unit":"image","amount":"many","phase":[1]}\n',
    "an odd job": b'{"v":1,"type":"job","resumes":{"a":1}}\n',
}


def test_a_journal_that_cannot_be_read_is_kept_reported_once_and_stops_no_other(environ):
    del environ["GRAMWATT_SERVER"]
    for number, text in enumerate(GARBAGE.values()):
        bad = home(environ) / "spool" / f"bad-{number}" / node_id() / "w.jsonl"
        bad.parent.mkdir(parents=True)
        bad.write_bytes(text)

    def call(*args: str) -> subprocess.CompletedProcess[str]:
        command = [*GRAMWATT, *args]
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)

    assert call("run", "--", "true").returncode == 0
    assert json.loads(call("job", "job-1", "--json").stdout)["state"] == "completed"
    first, second = call("sync"), call("sync")
    assert (first.returncode, second.returncode, second.stderr) == (1, 0, "")
    assert "Traceback" not in first.stderr
    for number, text in enumerate(GARBAGE.values()):
        kept = home(environ) / "rejected" / f"bad-{number}" / node_id()
        assert (kept / "w.jsonl").read_bytes() == text
        (line,) = [line for line in first.stderr.splitlines() if f"job bad-{number} " in line]
        assert line.startswith("gramwatt: the journal of job")
        assert line.endswith(f"it is kept in {kept}")


def test_a_journal_without_a_whole_line_is_kept_and_named(tmp_path):
    """As XFS leaves a file that it had not written out before a power cut."""
    folder = tmp_path / "spool" / "job-1" / "n-1"
    folder.mkdir(parents=True)
    (folder / "w.jsonl").write_bytes(bytes(4096))
    os.utime(folder / "w.jsonl", (1, 1))
    result = sync(Config(home=tmp_path, server="http://server"), None)
    assert [problem.code for problem in result.problems] == ["journal-unreadable"]
    assert "job-1 cannot be read" in result.problems[0].text
    assert (tmp_path / "rejected" / "job-1" / "n-1" / "w.jsonl").exists()
