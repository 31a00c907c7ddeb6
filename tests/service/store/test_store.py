"""The store: migrations on both databases, several processes at once, SQLite's settings."""

import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from gramwatt.sci.journal.records import encode
from gramwatt.service.config import ConfigError, ServiceConfig, from_environment, sqlite_url
from gramwatt.service.container import Service
from gramwatt.service.jobs.documents import job_document
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.jobs.lists import list_jobs
from gramwatt.service.months.report import months_with_data
from gramwatt.service.store import migrate
from gramwatt.service.store.database import Store, parse_url
from gramwatt.service.store.filesystem import is_local, mounted_type
from gramwatt.service.store.migrations import HEAD
from gramwatt.service.store.timestamps import to_us
from tests.journals import START, journal, lines
from tests.service.conftest import create_database

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /home rw - nfs4 server:/home rw
31 30 0:41 / /home/with\\040space rw - tmpfs tmpfs rw
32 22 0:42 / /mnt/share rw - cifs //server/share rw
"""


def test_an_empty_database_is_brought_to_exactly_the_models(database_url):
    store = Store(database_url)
    assert migrate.upgrade(store) is True
    assert migrate.upgrade(store) is False
    assert migrate.differences(store) == []
    store.close()


def test_head_is_the_newest_script():
    from alembic.script import ScriptDirectory

    assert ScriptDirectory.from_config(migrate._config(None)).get_heads() == [HEAD]


@pytest.mark.parametrize("revision", [f"{number:04d}" for number in range(1, int(HEAD))])
def test_a_store_of_an_earlier_release_keeps_its_jobs(database_url, clock, tmp_path, revision):
    store = Store(database_url)
    make_earlier(store, revision)
    assert migrate.upgrade(store) is True
    assert migrate.differences(store) == []
    config = ServiceConfig(home=tmp_path, database_url=database_url, clock=clock)
    service = Service(config, store)
    assert months_with_data(service) == ["2026-05"]
    document = job_document(service, "job-1").document
    # 3 minutes at 600 W are 108 000 J.
    assert document["energy_kwh"]["value"] == pytest.approx(0.03, rel=1e-12)
    assert [(row["unit"], row["count"]) for row in document["sci"]] == [("image", 30.0)]
    (job,), _ = list_jobs(service, 50, None, model_id="m-1")
    assert job.head["job_id"] == "job-1"
    store.close()


def test_points_that_scores_do_not_follow_yet_still_wait_after_an_upgrade(database_url):
    """Schema 0018 kept a time up to which all was seen; later ones keep what is left."""
    from alembic import command

    store = Store(database_url)
    if store.path is not None:
        store.path.parent.mkdir()
    with store.migrating() as connection:
        command.upgrade(migrate._config(connection), "0018")
        tables = sa.MetaData()
        tables.reflect(connection)
        series = {"signal": "average", "basis": "lifecycle", "provider": "imported"}
        days = [(1, 739000, 50), (2, 739001, 150), (2, 739005, 160), (3, 739002, 170)]
        rows = {
            "intensity_series": [
                {"id": 1, "zone": "FR", **series},
                {"id": 2, "zone": "DE", **series},
                {"id": 3, "zone": "ES", **series, "basis": "direct"},
            ],
            "intensity_days": [
                {"series": key, "day": day, "fetched_us": at_us, "step_s": 3600, "points": b""}
                | {"quality": "hourly"}
                for key, day, at_us in days
            ],
            "intensity_backfill": [{"id": 1, "done_us": 100, "until_us": 100, "job": 0}],
        }
        for name, of_table in rows.items():
            connection.execute(tables.tables[name].insert(), of_table)
    migrate.upgrade(store)
    with store.read() as session:
        arrived = session.execute(
            sa.text("SELECT zone, first_day, last_day FROM intensity_arrivals")
        )
        assert arrived.all() == [("DE", 739001, 739005)]
    store.close()


def make_earlier(store, revision):
    """A database of an earlier schema with one job, ended and not scored yet."""
    from alembic import command

    if store.path is not None:
        store.path.parent.mkdir()
    with store.migrating() as connection:
        command.upgrade(migrate._config(connection), revision)
        tables = sa.MetaData()
        tables.reflect(connection)
        for name, rows in earlier_rows().items():
            if name not in tables.tables:
                continue
            known = tables.tables[name].c.keys()
            kept = [{key: row[key] for key in row.keys() & known} for row in rows]
            connection.execute(tables.tables[name].insert(), kept)


def earlier_rows():
    """Rows by table, with every column that any schema has had."""
    records = journal("job-1", model_id="m-1")
    start_us = to_us(START)
    job = {"id": 1, "job_id": "job-1", "project": "vision", "model_id": "m-1"}
    job |= {"state": "completed", "started_us": start_us, "heard_us": start_us, "head": ""}
    job |= {"version": 1, "scored_version": 0, "revision": 0, "notices": 0}
    sums = ("energy_kwh", "operational_g", "embodied_g")
    run = {"name": "close-silent", "due_us": 0, "started_us": 0}
    return {
        "jobs": [job],
        "writers": [
            {"id": 1, "job": 1, "node": "n1", "writer": "w1", "contiguous": 9, "beyond": "[]"}
        ],
        "statements": [
            {"writer": 1, "seq": record.seq, "type": record.TYPE, "line": encode(record)}
            for record in records
            if record.TYPE in ("job", "device", "end")
        ],
        "devices": [{"id": 1, "job": 1, "node": "n1", "device_id": "GPU-n1"}],
        "intervals": [
            {"device": 1, "start_us": to_us(record.start), "end_us": to_us(record.end)}
            | {"seq": record.seq, "writer": "w1", "energy_j": record.energy_j, "kind": "measured"}
            for record in records
            if record.TYPE == "interval"
        ],
        "counts": [
            {"writer": 1, "seq": record.seq, "at_us": to_us(record.at), "unit": "image"}
            | {"amount": record.amount}
            for record in records
            if record.TYPE == "count"
        ],
        "days": [
            {"job": 1, "day": "2026-05-10", "counts": "{}"}
            | {f"{term}{end}": 1.0 for term in sums for end in ("", "_low", "_high")}
        ],
        "job_runs": [run],
    }


def test_a_database_without_an_encoding_holds_every_text(postgres_server, clock, tmp_path):
    """`createdb` where the system has no locale makes one in SQL_ASCII."""
    options = "ENCODING SQL_ASCII LC_COLLATE 'C' LC_CTYPE 'C'"
    store = Store(create_database(postgres_server, "template0", options))
    migrate.upgrade(store)
    service = Service(ServiceConfig(home=tmp_path, database_url="", clock=clock), store)
    ingest(service, "job-1", lines(journal(name="Zürich 日本")))
    (job,), _ = list_jobs(service, 50, None, name="Zürich 日本")
    assert job.head["name"] == "Zürich 日本"
    store.close()


def test_several_processes_may_upgrade_at_once(database_url):
    code = (
        "import sys; from gramwatt.service.store.database import Store; "
        "from gramwatt.service.store import migrate; "
        "print(migrate.upgrade(Store(sys.argv[1])))"
    )
    command = [sys.executable, "-W", "error", "-c", code, database_url]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = sorted(process.communicate(timeout=60)[0].strip() for process in started)
    assert [process.returncode for process in started] == [0, 0, 0, 0]
    assert said == ["False", "False", "False", "True"]
    store = Store(database_url)
    assert migrate.differences(store) == []
    store.close()


def test_whether_tables_are_current_is_told_without_making_a_file(database_url):
    store = Store(database_url)
    assert migrate.is_current(store) is False
    assert store.path is None or not store.path.exists()
    migrate.upgrade(store)
    assert migrate.is_current(store) is True
    store.close()


def test_sqlite_is_opened_with_waiting_foreign_keys_and_wal(light):
    with light.store.read() as session:
        settings = {
            name: session.scalar(sa.text(f"PRAGMA {name}"))
            for name in ("journal_mode", "busy_timeout", "foreign_keys", "synchronous")
        }
    assert settings == {
        "journal_mode": "wal",
        "busy_timeout": 30_000,
        "foreign_keys": 1,
        "synchronous": 2,  # FULL: each commit is synced before it returns
    }


def test_no_wal_where_the_file_system_is_not_known_to_be_local(tmp_path, monkeypatch):
    monkeypatch.setattr("gramwatt.service.store.database.is_local", lambda path: False)
    store = Store(sqlite_url(tmp_path / "g.db"))
    with store.read() as session:
        assert session.scalar(sa.text("PRAGMA journal_mode")) == "delete"
    store.close()


@pytest.mark.parametrize(
    ("path", "kind", "local"),
    [
        ("/var/lib", "ext4", True),
        ("/home/ada", "nfs4", False),
        ("/home/with space/x", "tmpfs", True),
        ("/mnt/share/db", "cifs", False),
        ("/homework", "ext4", True),
    ],
)
def test_the_file_system_of_a_path(path, kind, local):
    assert mounted_type(Path(path), MOUNTS) == kind
    assert is_local(Path(path), MOUNTS) is local


def test_an_unreadable_mount_table_counts_as_remote(monkeypatch, tmp_path):
    monkeypatch.setattr("gramwatt.service.store.filesystem.MOUNTS", tmp_path / "none")
    assert is_local(tmp_path) is False


@pytest.mark.parametrize(
    ("text", "driver"),
    [
        ("postgres://u@h/d", "postgresql+psycopg"),
        ("postgresql://u@h/d", "postgresql+psycopg"),
        ("sqlite:////tmp/x.db", "sqlite"),
    ],
)
def test_database_addresses(text, driver):
    assert parse_url(text).drivername == driver


@pytest.mark.parametrize("text", ["", "nonsense", "mysql://u@h/d", "sqlite://"])
def test_other_database_addresses_are_refused(text):
    with pytest.raises(ValueError, match=r"sqlite|SQLite"):
        parse_url(text)


def test_settings_come_from_the_environment(tmp_path):
    config = from_environment(
        {
            "GRAMWATT_HOME": str(tmp_path),
            "GRAMWATT_SILENT_AFTER_S": "60",
            "GRAMWATT_MAX_BODY_MIB": "0.5",
            "GRAMWATT_HOSTS": "a.example, b.example",
        }
    )
    assert config.database_url == f"sqlite:///{tmp_path}/gramwatt.db"
    assert (config.silent_after.total_seconds(), config.max_body_b) == (60, 2**19)
    assert {"a.example", "b.example", "localhost"} <= config.trusted_hosts
    with pytest.raises(ConfigError, match="GRAMWATT_MAX_BODY_MIB"):
        from_environment({"GRAMWATT_HOME": str(tmp_path), "GRAMWATT_MAX_BODY_MIB": "much"})


def test_only_small_transactions_keep_in_memory_what_undoes_them(light):
    wanted = sa.text("PRAGMA temp_store")
    file, memory = 1, 2  # sqlite.org/pragma.html#pragma_temp_store
    for _ in range(2):
        assert light.store.transact(lambda session: session.scalar(wanted)) == memory
        with light.store.read() as session:
            assert session.scalar(wanted) == file
        with light.store.write() as session:
            assert session.scalar(wanted) == file
