"""Power cuts after any system call of a real meter's writer and of the real SQLite."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from gramwatt.collectors.spool.spool import SpoolFolder
from gramwatt.sci.records.records import IntervalRecord, readable
from gramwatt.service.config import sqlite_url
from gramwatt.service.store.database import Store
from gramwatt.service.store.migrate import upgrade
from tests.simulation.power_cut import cuts, recorded

pytestmark = pytest.mark.long

SERVER = """
import os, sys
from pathlib import Path
from gramwatt.service.config import ServiceConfig, sqlite_url
from gramwatt.service.container import Service
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.store import database
from tests.journals import journal, lines

folder, synchronous = Path(sys.argv[1]), sys.argv[2]
prepare = database._prepare

def plant(connection, *, wal):
    prepare(connection, wal=wal)
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("PRAGMA wal_autocheckpoint = 20")  # pages: so that cuts meet some

database._prepare = plant
service = Service.open(ServiceConfig(home=folder, database_url=sqlite_url(folder / "gramwatt.db")))
head, device, *rest = [line for line in lines(journal(minutes=5, end_state=None))]
ingest(service, "job-1", [head, device], score=False)
for line in rest:
    if b'"interval"' in line:
        ingest(service, "job-1", [line], score=False)
        os.write(1, b"taken")
os._exit(0)
"""


def server_cuts(tmp_path: Path, synchronous: str) -> list[str]:
    """What was wrong after cuts of a server that took five intervals."""
    folder = tmp_path / "store"
    folder.mkdir()
    store = Store(sqlite_url(folder / "gramwatt.db"))
    upgrade(store)
    store.close()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    steps = recorded(folder, SERVER, synchronous)
    assert sum(step.call == "said" for step in steps) == 5
    wrong = []
    left = tmp_path / "left"
    for said, files in cuts(before, steps):
        shutil.rmtree(left, ignore_errors=True)
        left.mkdir()
        for name, content in files.items():
            if not name.endswith("-shm"):  # in memory only, SQLite makes it anew
                (left / name).write_bytes(content)
        found = sqlite3.connect(left / "gramwatt.db")
        try:
            [whole] = found.execute("PRAGMA integrity_check").fetchone()
            [stored] = found.execute("SELECT count(*) FROM intervals").fetchone()
        except sqlite3.DatabaseError as error:
            whole, stored = str(error), 0
        found.close()
        if whole != "ok" or not len(said) <= stored <= len(said) + 1:
            wrong.append(f"{len(said)} acknowledged, {stored} stored, {whole}")
    return wrong


def test_what_sqlite_acknowledged_survives_a_power_cut(tmp_path):
    assert server_cuts(tmp_path, "FULL") == []


def test_a_store_that_does_not_wait_for_the_disk_is_found(tmp_path):
    assert server_cuts(tmp_path, "NORMAL")


METER = """
import os, sys, types
from datetime import UTC, datetime, timedelta
from pathlib import Path
from gramwatt.collectors.spool import writer
from gramwatt.sci.records.records import IntervalRecord

if sys.argv[2] == "unsynced":
    os.fdatasync = lambda _descriptor: None
now_s = 0
writer.time = types.SimpleNamespace(monotonic=lambda: float(now_s + 100))
start = datetime(2026, 5, 1, tzinfo=UTC)
base = {"job_id": "job", "node": "n", "writer": "w"}
journal = writer.Journal(Path(sys.argv[1]), base, print)

def interval(first_s, last_s):
    return {
        "device_id": "GPU-1", "start": start + timedelta(seconds=first_s),
        "end": start + timedelta(seconds=last_s), "energy_j": float(last_s - first_s),
        "kind": "measured", "utilisation_mean": None, "utilisation_max": None,
        "memory_peak_b": None, "power_max_w": None,
    }

began_s = 0
for now_s in range(5, 121, 5):
    if now_s % 40 == 0:
        journal.put(IntervalRecord, **interval(began_s, now_s))
        began_s = now_s
    drafts = [(IntervalRecord, interval(began_s, now_s))] if now_s > began_s else []
    journal.write_open({}, drafts)
    journal.flush()
    os.write(1, f"{now_s} ".encode())
os._exit(0)
"""
AT_MOST_LOST_S = 20


def meter_cuts(tmp_path: Path, how: str) -> list[str]:
    """What was wrong after cuts of a meter that saved every 5 s for 120 s."""
    folder = tmp_path / "job" / "n"
    folder.mkdir(parents=True)
    steps = recorded(folder, METER, how)
    assert sum(step.call == "said" for step in steps) == 24
    left, wrong = tmp_path / "left", []
    for said, files in cuts({}, steps):
        shutil.rmtree(left, ignore_errors=True)
        left.mkdir()
        for name, content in files.items():
            (left / name).write_bytes(content)
        spans = sorted(
            (record.start, record.end)
            for record in readable(SpoolFolder(left).lines())
            if isinstance(record, IntervalRecord)
        )
        known_s, end = 0.0, None
        for first, last in spans:
            known_s += max(0.0, (last - max(first, end or first)).total_seconds())
            end = max(last, end or last)
        saved_s = int(said[-1]) if said else 0
        if known_s < saved_s - AT_MOST_LOST_S or known_s > saved_s + 5:
            wrong.append(f"{saved_s} s saved, {known_s:g} s left")
    return wrong


def test_a_power_cut_takes_at_most_20_s_of_a_journal(tmp_path):
    assert meter_cuts(tmp_path, "synced") == []


def test_a_writer_that_does_not_sync_is_found(tmp_path):
    assert meter_cuts(tmp_path, "unsynced")
