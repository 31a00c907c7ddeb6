"""Backups and restores: equal row by row, consistent while others write, never lossy."""

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from datetime import timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from gramwatt.service.access.keys import create_key
from gramwatt.service.config import sqlite_url
from gramwatt.service.jobs.corrections import correct_job
from gramwatt.service.store import transfer
from gramwatt.service.store.access import AuditEntry
from gramwatt.service.store.base import Base
from gramwatt.service.store.database import Store
from gramwatt.service.tasks.upkeep import back_up
from tests.journals import START, body, journal
from tests.service.cli.command import gramwatt
from tests.service.keyed import add, with_settings
from tests.service.processes import eventually, send, serving


def url_of(store):
    return store.url.render_as_string(hide_password=False)


@pytest.fixture
def filled(light):
    """A SQLite store with three jobs, one corrected, one running, with texts of every script."""
    service = light
    add(service)
    add(service, "job-2", name="naïve \u202e 模型 '\"\\\t", end_state=None)
    add(service, "job-3", start=START + timedelta(days=40))
    correct_job(service, "job-1", {"name": "renamed"}, by="tester")
    return service


BACKUPS = ("backup", "restored")
"""Acts of the audit log that come after the backup that they are about was made."""


def rows(store):
    """Every row of every table, sorted; read without the code under test."""
    with store.engine.connect() as connection:
        return {
            table.name: sorted(
                row
                for row in map(repr, connection.execute(sa.select(table)))
                if not (table.name == "audit" and any(f"'{act}'" in row for act in BACKUPS))
            )
            for table in Base.metadata.sorted_tables
            if table.name != "listening"
        }


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
        command = [sys.executable, "-m", "gramwatt", "admin", "db"]
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
    assert gramwatt("admin", "db", "backup", str(file), *url)[0] == 0
    before = rows(filled.store)
    add(filled, "job-9")
    changed = rows(filled.store)
    filled.store.close()
    code, _, err = gramwatt("admin", "db", "restore", str(file), *url)
    assert (code, "--replace" in err) == (1, True)
    assert rows(filled.store) == changed
    filled.store.close()
    code, out, err = gramwatt("admin", "db", "restore", str(file), "--replace", *url)
    assert (code, err) == (0, "")
    assert rows(filled.store) == before
    (kept,) = (filled.store.path or file).parent.glob("*.before-restore-*")
    assert str(kept) in out
    old = Store(sqlite_url(kept))
    assert rows(old) == changed
    old.close()
    add(filled, "job-10")
    create_key(filled, "k", "read")
    with pytest.raises(DBAPIError, match="append-only"), filled.store.write() as session:
        session.execute(sa.delete(AuditEntry))


def test_nothing_is_restored_while_another_process_has_the_store_open(filled, tmp_path):
    file = tmp_path / "backup.db"
    transfer.backup(filled.store, file)
    url = ("--database-url", url_of(filled.store))
    before = rows(filled.store)  # and this process keeps its connection
    code, _, err = gramwatt("admin", "db", "restore", str(file), "--replace", *url)
    assert (code, "other session" in err or "in use" in err) == (1, True)
    assert rows(filled.store) == before


def test_what_is_no_backup_is_refused(light, tmp_path):
    url = ("--database-url", url_of(light.store))
    text, torn = tmp_path / "notes.txt", tmp_path / "torn.db"
    text.write_text("not a database" * 1000)
    whole = tmp_path / "whole.db"
    add(light)
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
        (text, "not a backup"),
        (torn, "malformed"),
        (newer, "newer gramwatt"),
        (tmp_path / "none", "there is no file"),
    ):
        code, _, err = gramwatt("admin", "db", "restore", str(file), "--replace", *url)
        assert (code, said in err) == (1, True), err
    code, _, err = gramwatt("admin", "db", "backup", str(whole), *url)
    assert (code, "exists" in err) == (1, True)
    code, _, err = gramwatt("admin", "db", "backup", str(tmp_path / "no" / "folder.db"), *url)
    assert (code, "cannot write" in err) == (1, True)


def test_the_daily_backup_keeps_the_newest_and_touches_no_other_file(light, clock, tmp_path):
    service = light
    folder = tmp_path / "backups"
    daily = with_settings(service, backup_dir=folder, backup_keep=2)
    add(daily)
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


def test_a_postgresql_store_is_sent_to_its_own_tools(new_postgres, tmp_path):
    url = ("--database-url", new_postgres())
    gramwatt("admin", "db", "upgrade", *url)
    code, _, err = gramwatt("admin", "db", "backup", str(tmp_path / "backup.db"), *url)
    assert (code, "pg_dump" in err) == (1, True)
    code, _, err = gramwatt("admin", "db", "restore", str(tmp_path / "backup.db"), *url)
    assert (code, "pg_restore" in err) == (1, True)
    assert list(tmp_path.iterdir()) == []
