"""Copies, backups and restores: equal row by row, consistent while others write, never lossy."""

import json
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from gramwatt.service.access.keys import create_key
from gramwatt.service.config import ServiceConfig, sqlite_url
from gramwatt.service.container import Service
from gramwatt.service.jobs.corrections import correct_job
from gramwatt.service.jobs.documents import job_document
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.operation.backups import back_up
from gramwatt.service.store import migrate, transfer
from gramwatt.service.store.access import AuditEntry
from gramwatt.service.store.database import Store
from gramwatt.service.store.models import Base, Interval, Job
from tests.journals import START, body, journal, lines
from tests.service.cli.command import gramwatt
from tests.service.processes import eventually, send, serving


def url_of(store):
    return store.url.render_as_string(hide_password=False)


@pytest.fixture
def filled(service):
    """A store with three jobs, one corrected, one running, with texts of every script."""
    ingest(service, "job-1", lines(journal()))
    ingest(
        service, "job-2", lines(journal("job-2", name="naïve \u202e 模型 '\"\\\t", end_state=None))
    )
    ingest(service, "job-3", lines(journal("job-3", start=START + timedelta(days=40))))
    correct_job(service, "job-1", {"name": "renamed"}, by="tester")
    return service


@pytest.fixture(params=["sqlite", "postgresql"])
def other(request, tmp_path):
    """An empty store of each kind."""
    if request.param == "sqlite":
        store = Store(sqlite_url(tmp_path / "other.db"))
    else:
        store = Store(request.getfixturevalue("new_postgres")())
    yield store
    store.close()


BACKUPS = ("backup", "copied", "restored")
"""Acts of the audit log that come after the copy that they are about was made."""


def rows(store):
    """Every row of every table that is copied, sorted; read without the code under test."""
    with store.engine.connect() as connection:
        return {
            table.name: sorted(
                row
                for row in map(repr, connection.execute(sa.select(table)))
                if not (table.name == "audit" and any(f"'{act}'" in row for act in BACKUPS))
            )
            for table in Base.metadata.sorted_tables
            if not table.info.get("transient")
        }


def test_a_copy_is_equal_and_new_rows_follow_the_copied_ones(filled, other, clock):
    code, out, err = gramwatt("db", "copy", url_of(filled.store), url_of(other))
    assert (code, err) == (0, "")
    copied = rows(other)
    assert copied == rows(filled.store)
    assert len(copied["intervals"]) > 3
    assert "every row is equal" in out
    _, log, _ = gramwatt("key", "log", "--json", "--database-url", url_of(filled.store))
    newest = json.loads(log)["entries"][0]
    shown = other.url.render_as_string(hide_password=True)
    assert (newest["action"], newest["subject"]) == ("copied", shown)
    twin = Service(ServiceConfig(home=filled.config.home, database_url="", clock=clock), other)
    ingest(twin, "job-4", lines(journal("job-4")))
    before, after = (job_document(s, "job-1").document for s in (filled, twin))
    assert before == after
    with other.read() as session:
        assert session.scalar(sa.select(sa.func.max(Job.id))) == 4


def test_a_copy_into_a_store_with_rows_is_refused_and_changes_nothing(filled, other):
    target = Service(filled.config, other)
    migrate.upgrade(other)
    ingest(target, "job-9", lines(journal("job-9")))
    before = rows(other)
    code, _, err = gramwatt("db", "copy", url_of(filled.store), url_of(other))
    assert (code, "the target is not empty: it has rows in jobs" in err) == (1, True)
    assert rows(other) == before


def test_a_copy_that_comes_out_different_is_undone(filled, other, monkeypatch):
    def lossy(table, batch, writing):
        kept = batch[1:] if table.name == "intervals" else batch
        names = table.columns.keys()
        writing.execute(sa.insert(table), [dict(zip(names, row, strict=True)) for row in kept])

    monkeypatch.setattr(transfer, "_write_sqlite", lossy)
    monkeypatch.setattr(transfer, "_write_postgres", lossy)
    with pytest.raises(transfer.TransferError, match="intervals differs"):
        transfer.copy(filled.store, other)
    assert not any(rows(other).values())


def test_a_copy_needs_a_current_source_and_two_databases(filled, tmp_path):
    code, _, err = gramwatt("db", "copy", sqlite_url(tmp_path / "none.db"), url_of(filled.store))
    assert (code, "there is no store" in err) == (1, True)
    code, _, err = gramwatt("db", "copy", url_of(filled.store), url_of(filled.store))
    assert (code, "both addresses" in err) == (1, True)
    code, _, err = gramwatt("db", "copy", "nonsense", url_of(filled.store))
    assert code == 2


@pytest.mark.long
def test_a_copy_of_many_rows_needs_little_memory(light, tmp_path):
    """60 000 intervals are about 30 MB as rows; the copy may not keep them."""
    ingest(light, "job-1", lines(journal()))
    with light.store.write() as session:
        first = session.execute(sa.select(Interval.__table__)).mappings().first()
        many = [{**first, "start_us": n, "end_us": n + 1} for n in range(60_000)]
        session.execute(sa.insert(Interval), many)
    code = (
        "import resource, sys; from gramwatt.service.store.database import Store; "
        "from gramwatt.service.store.transfer import copy; "
        "source, target = map(Store, sys.argv[1:]); "
        "from gramwatt.service.store.migrate import upgrade; upgrade(target); "
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; "
        "rows = {c.table: c.rows for c in copy(source, target)}; "
        "print(rows['intervals'], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    command = [sys.executable, "-c", code, url_of(light.store), sqlite_url(tmp_path / "o.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    intervals, grown_kib = map(int, done.stdout.split())
    assert intervals >= 60_000
    assert grown_kib < 12_000


@pytest.mark.long
def test_a_backup_while_a_server_takes_records_is_whole(tmp_path):
    """Every job in the backup has all of its intervals, and it is restored to what was there."""
    with serving(tmp_path) as (process, address):
        stopped = threading.Event()
        sent = []

        def write():
            while not stopped.is_set():
                name = f"job-{len(sent)}"
                send(address, name, body(journal(name, minutes=5)))
                sent.append(name)

        writer = threading.Thread(target=write)
        writer.start()
        eventually(lambda: len(sent) >= 5, 60)
        file = tmp_path / "backup.db"
        home = {**os.environ, "GRAMWATT_HOME": str(tmp_path / "home")}
        command = [sys.executable, "-m", "gramwatt", "db"]
        subprocess.run([*command, "backup", str(file)], env=home, check=True, timeout=60)
        stopped.set()
        writer.join()
        refused = subprocess.run(
            [*command, "restore", str(file), "--replace"],
            env=home,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (refused.returncode, "in use" in refused.stderr) == (1, True)
        assert process.end() == 0
    connection = sqlite3.connect(file)
    per_job = connection.execute(
        "SELECT j.job_id, count(*) FROM jobs j JOIN devices d ON d.job = j.id "
        "JOIN intervals i ON i.device = d.id GROUP BY j.job_id"
    ).fetchall()
    connection.close()
    assert 5 <= len(per_job) <= len(sent)
    assert len({count for _, count in per_job}) == 1
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not list(tmp_path.glob("backup.db-*"))


def test_a_restore_brings_the_backup_back_and_keeps_what_it_replaced(filled, tmp_path):
    file = tmp_path / "backup.db"
    url = ("--database-url", url_of(filled.store))
    assert gramwatt("db", "backup", str(file), *url)[0] == 0
    before = rows(filled.store)
    ingest(filled, "job-9", lines(journal("job-9")))
    changed = rows(filled.store)
    filled.store.close()
    code, _, err = gramwatt("db", "restore", str(file), *url)
    assert (code, "--replace" in err) == (1, True)
    assert rows(filled.store) == changed
    filled.store.close()
    code, out, err = gramwatt("db", "restore", str(file), "--replace", *url)
    assert (code, err) == (0, "")
    assert rows(filled.store) == before
    (kept,) = (filled.store.path or file).parent.glob("*.before-restore-*")
    assert str(kept) in out
    old = Store(sqlite_url(kept))
    assert rows(old) == changed
    old.close()
    ingest(filled, "job-10", lines(journal("job-10")))
    create_key(filled, "k", "read")
    with pytest.raises(DBAPIError, match="append-only"), filled.store.write() as session:
        session.execute(sa.delete(AuditEntry))


def test_nothing_is_restored_while_another_process_has_the_store_open(filled, tmp_path):
    file = tmp_path / "backup.db"
    transfer.backup(filled.store, file)
    url = ("--database-url", url_of(filled.store))
    before = rows(filled.store)  # and this process keeps its connection
    code, _, err = gramwatt("db", "restore", str(file), "--replace", *url)
    assert (code, "other session" in err or "in use" in err) == (1, True)
    assert rows(filled.store) == before


def test_what_is_no_backup_is_refused(light, tmp_path):
    url = ("--database-url", url_of(light.store))
    text, torn = tmp_path / "notes.txt", tmp_path / "torn.db"
    text.write_text("not a database" * 1000)
    whole = tmp_path / "whole.db"
    ingest(light, "job-1", lines(journal()))
    transfer.backup(light.store, whole)
    torn.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    newer = tmp_path / "newer.db"
    newer.write_bytes(whole.read_bytes())
    with sqlite3.connect(newer) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    unreleased = tmp_path / "unreleased.db"
    unreleased.write_bytes(whole.read_bytes())
    with sqlite3.connect(unreleased) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0004'")
    connection.close()
    light.store.close()
    for file, said in (
        (unreleased, "gramwatt export journals DIR"),
        (text, "no backup"),
        (torn, "malformed"),
        (newer, "newer gramwatt"),
        (tmp_path / "none", "there is no file"),
    ):
        code, _, err = gramwatt("db", "restore", str(file), "--replace", *url)
        assert (code, said in err) == (1, True), err
    code, _, err = gramwatt("db", "backup", str(whole), *url)
    assert (code, "exists" in err) == (1, True)
    code, _, err = gramwatt("db", "backup", str(tmp_path / "no" / "folder.db"), *url)
    assert (code, "cannot write" in err) == (1, True)


def test_the_daily_backup_keeps_the_newest_and_touches_no_other_file(service, clock, tmp_path):
    folder = tmp_path / "backups"
    daily = Service(replace(service.config, backup_dir=folder, backup_keep=2), service.store)
    ingest(daily, "job-1", lines(journal()))
    back_up(daily)
    (folder / "gramwatt.db").write_text("mine")
    for _ in range(2):
        clock.turn(days=1)
        back_up(daily)
    assert sorted(path.name for path in folder.iterdir()) == [
        "gramwatt-20260603T120000Z.db",
        "gramwatt-20260604T120000Z.db",
        "gramwatt.db",
    ]
    made = Store(sqlite_url(folder / "gramwatt-20260604T120000Z.db"))
    assert rows(made) == rows(service.store)
    made.close()
    back_up(service)  # no folder is set: nothing to do


def test_no_table_is_forgotten_by_a_copy(light):
    """In a process of its own, which has loaded no other module of tables."""
    code = (
        "from gramwatt.service.store import transfer; "
        "print(*(table.name for table in transfer._tables()))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    with light.store.engine.connect() as connection:
        present = set(sa.inspect(connection).get_table_names())
    left_out = {"alembic_version", "browser_sessions", "leases", "listening"}
    assert present - set(done.stdout.split()) == left_out
