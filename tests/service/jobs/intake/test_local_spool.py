"""Ingesting spools: several processes at once, refused lines, and meters that come back."""

import fcntl
import os
import subprocess
import sys
import time

import pytest
import sqlalchemy as sa

from gramwatt.collectors.spool import spool
from gramwatt.collectors.spool.spool import SpoolFolder, remember_server
from gramwatt.service.jobs.deletion import delete_job
from gramwatt.service.jobs.local_spool import open_store
from gramwatt.service.local_store import document
from gramwatt.service.local_store import ingest as ingest_home
from tests.journals import journal, lines
from tests.service.keyed import store_of

ENERGY_KWH = 0.03  # 3 minutes at 600 W


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("GRAMWATT_DATABASE_URL", raising=False)


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


def spooled(home, job_id="job-1", *, extra=(), **about):
    """A folder as a meter of this machine leaves it."""
    from gramwatt.collectors.settings.identity import node_id

    node = node_id(False)
    records = journal(job_id, node=node, **about)
    folder = home / "spool" / job_id / node
    folder.mkdir(parents=True)
    path = folder / f"{records[0].writer}.jsonl"
    path.write_bytes(b"\n".join([*lines(records), *extra]) + b"\n" + b'{"torn')
    (folder / "lock").touch()
    return path


def test_a_closed_spool_is_scored_and_removed(home):
    spooled(home)
    assert ingest_home(home) == ["job-1"]
    assert document(home, "job-1")["energy_kwh"]["value"] == pytest.approx(ENERGY_KWH, rel=1e-12)
    assert [path.name for path in sorted(home.iterdir())] == [
        "delivered",
        "gramwatt.db",
        "gramwatt.db-shm",
        "gramwatt.db-wal",
        "spool",
    ] or [path.name for path in sorted(home.iterdir())] == ["delivered", "gramwatt.db", "spool"]
    assert list((home / "spool").iterdir()) == list((home / "delivered").iterdir()) == []


def test_the_store_in_a_home_that_all_may_read_is_private(home):
    before = os.umask(0)
    try:
        home.mkdir(mode=0o755)
        store = open_store(home).store
        with store.read() as session:
            session.execute(sa.text("SELECT 1"))
            modes = {path.name: path.stat().st_mode & 0o777 for path in home.iterdir()}
        store.close()
        kept = spool.reject(SpoolFolder(spooled(home).parent))
    finally:
        os.umask(before)
    assert modes.pop("gramwatt.db") == 0o600
    assert set(modes.values()) <= {0o600}  # what SQLite keeps beside it
    above = kept.parents
    assert [path.stat().st_mode & 0o777 for path in above[:2]] == [0o700] * 2
    assert (above[1].name, home.stat().st_mode & 0o777) == ("rejected", 0o755)


def test_without_a_closed_spool_no_store_is_made(home):
    assert ingest_home(home) == []
    spooled(home, end_state=None)
    assert ingest_home(home) == []
    assert not (home / "gramwatt.db").exists()


def test_a_living_writer_s_folder_is_left_alone(home):
    path = spooled(home)
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert ingest_home(home) == []
    assert ingest_home(home) == ["job-1"]


def test_refused_lines_are_kept_and_said_once(home, capfd):
    path = spooled(home, extra=[b'{"v":1,"type":"dance"}'])
    assert ingest_home(home) == ["job-1"]
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert "1 journal lines of job job-1 were refused (first: unknown-type" in said
    kept = home / "rejected" / "job-1" / path.parent.name / path.name
    assert b"dance" in kept.read_bytes()
    assert ingest_home(home) == []
    assert capfd.readouterr().err == ""


def test_a_journal_that_cannot_leave_the_spool_is_stored_and_reported(home, capfd):
    path = spooled(home)
    (home / "delivered").touch()  # as where the home is read-only and the database is elsewhere
    assert ingest_home(home) == ["job-1"]
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert "job job-1 is stored, but its journal stays spooled" in said
    assert path.exists()


def test_lines_that_arrive_while_taking_in_are_not_lost(home, monkeypatch):
    path = spooled(home, "job-1")
    late = lines(journal("job-1", node=path.parent.name, writer="w2", role="track", minutes=1))
    is_closed = SpoolFolder.is_closed

    def write_and_look(folder):
        (path.parent / "w2.jsonl").write_bytes(b"\n".join(late) + b"\n")
        return is_closed(folder)

    monkeypatch.setattr(SpoolFolder, "is_closed", write_and_look)
    ingest_home(home)
    with store_of(home) as service:
        from gramwatt.service.store.journal import Writer

        with service.store.read() as session:
            writers = {row.writer: row.contiguous for row in session.query(Writer)}
    assert writers == {"w1": 9, "w2": 5}


def test_a_folder_without_a_journal_is_removed_once_no_meter_holds_it(home):
    """A meter that died while its disk took no file leaves a lock and nothing else."""
    folder = home / "spool" / "job-1" / "node-1"
    folder.mkdir(parents=True)
    lock = folder / "lock"
    lock.touch()
    minutes_ago = time.time() - 120
    os.utime(folder.parent, (minutes_ago, minutes_ago))
    assert ingest_home(home) == []
    assert lock.exists()  # its meter may have just begun
    os.utime(lock, (minutes_ago, minutes_ago))
    os.utime(folder.parent, (minutes_ago, minutes_ago))
    with lock.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert ingest_home(home) == []
        assert lock.exists()  # it waits for room on its disk
    assert ingest_home(home) == []
    assert list((home / "spool").glob("*")) == list((home / "delivered").glob("*")) == []
    assert document(home, "job-1") is None


@pytest.mark.parametrize("other_lives", [False, True])
def test_an_empty_journal_of_a_deleted_job_holds_up_no_other_job(home, other_lives):
    """Its meter died while the disk was full; the job's other nodes were delivered, and deleted."""
    spooled(home)
    assert ingest_home(home) == ["job-1"]
    with store_of(home) as service:
        delete_job(service, "job-1", by="u-1")
    empty = home / "spool" / "job-1" / "n-1" / "w2.jsonl"
    empty.parent.mkdir(parents=True)
    empty.touch()
    minutes_ago = time.time() - 1000
    os.utime(empty, (minutes_ago, minutes_ago))
    held = None
    if other_lives:
        held = spooled(home).open("rb")
        fcntl.flock(held, fcntl.LOCK_EX)
    spooled(home, "job-2")
    assert ingest_home(home) == ["job-2"]
    assert not empty.exists()
    if held:
        held.close()
    assert document(home, "job-2")["energy_kwh"]["value"] == pytest.approx(ENERGY_KWH, rel=1e-12)


@pytest.mark.long
def test_several_processes_ingest_the_same_spools_once(home):
    for number in range(6):
        spooled(home, f"job-{number}")
    code = (
        "import sys; from pathlib import Path; "
        "from gramwatt.service.local_store import ingest; "
        "ingest(Path(sys.argv[1]))"
    )
    command = [sys.executable, "-W", "error", "-c", code, str(home)]
    started = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate(timeout=60)[1] for process in started]
    assert said == ["", "", ""]
    assert [process.returncode for process in started] == [0, 0, 0]
    ingest_home(home)
    for number in range(6):
        found = document(home, f"job-{number}")
        assert found["energy_kwh"]["value"] == pytest.approx(ENERGY_KWH, rel=1e-12)
        assert found["revision"] == 1
    assert list((home / "spool").iterdir()) == []


def test_a_journal_that_belongs_to_a_server_is_not_taken_in(home):
    path = spooled(home)
    spooled(home, "job-2")
    assert remember_server(path.parent, "https://user:word@carbon.example:8443/x")
    assert ingest_home(home) == ["job-2"]
    assert ingest_home(home, "job-1") == []
    assert path.exists()
    kept = (path.parent / "server.json").read_text()
    assert kept == '{"server": "https://carbon.example:8443/x"}\n'
