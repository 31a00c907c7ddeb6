"""The store: migrations on both databases, several processes at once, SQLite's settings."""

import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from gramwatt.service.addresses import parse_url
from gramwatt.service.common.requests import JobList
from gramwatt.service.config import ConfigError, ServiceConfig, from_environment, sqlite_url
from gramwatt.service.container import Service
from gramwatt.service.jobs.lists import list_jobs
from gramwatt.service.store import migrate
from gramwatt.service.store.database import Store, is_local, mounted_type
from gramwatt.service.store.migrations import HEAD
from tests.service.conftest import create_database
from tests.service.keyed import add

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


def test_a_store_of_a_build_before_the_release_is_refused_with_the_way_out(database_url):
    store = Store(database_url)
    migrate.upgrade(store)
    with store.migrating() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0025'"))
    for refused in (migrate.upgrade, migrate.require_known):
        with pytest.raises(migrate.SchemaError, match="gramwatt export journals DIR"):
            refused(store)
    store.close()


def test_a_database_without_an_encoding_holds_every_text(postgres_server, clock, tmp_path):
    """`createdb` where the system has no locale makes one in SQL_ASCII."""
    options = "ENCODING SQL_ASCII LC_COLLATE 'C' LC_CTYPE 'C'"
    store = Store(create_database(postgres_server, "template0", options))
    migrate.upgrade(store)
    service = Service(ServiceConfig(home=tmp_path, database_url="", clock=clock), store)
    add(service, "job-1", name="Zürich 日本")
    (job,), _ = list_jobs(service, JobList(name="Zürich 日本"))
    assert job.head.name == "Zürich 日本"
    store.close()


@pytest.mark.long
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


def test_what_one_session_reads_is_of_one_moment(service):
    with service.store.read() as session:
        count = sa.text("SELECT COUNT(*) FROM jobs")
        before = session.scalar(count)
        add(service)
        assert session.scalar(count) == before == 0
    with service.store.read() as session:
        assert session.scalar(count) == 1


def test_no_wal_where_the_file_system_is_not_known_to_be_local(tmp_path, monkeypatch):
    monkeypatch.setattr("gramwatt.service.store.database.is_local", lambda path: False)
    store = Store(sqlite_url(tmp_path / "g.db"))
    with store.read() as session:
        assert session.scalar(sa.text("PRAGMA journal_mode")) == "delete"
    store.close()


def test_the_file_system_of_a_path():
    for path, kind, local in [
        ("/var/lib", "ext4", True),
        ("/home/ada", "nfs4", False),
        ("/home/with space/x", "tmpfs", True),
        ("/mnt/share/db", "cifs", False),
        ("/homework", "ext4", True),
    ]:
        assert mounted_type(Path(path), MOUNTS) == kind
        assert is_local(Path(path), MOUNTS) is local


def test_an_unreadable_mount_table_counts_as_remote(monkeypatch, tmp_path):
    monkeypatch.setattr("gramwatt.service.store.database.MOUNTS", tmp_path / "none")
    assert is_local(tmp_path) is False


def test_database_addresses():
    for text, driver in [
        ("postgres://u@h/d", "postgresql+psycopg"),
        ("postgresql://u@h/d", "postgresql+psycopg"),
        ("sqlite:////tmp/x.db", "sqlite"),
    ]:
        assert parse_url(text).drivername == driver


def test_other_database_addresses_are_refused():
    for text in ["", "nonsense", "mysql://u@h/d", "sqlite://"]:
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
