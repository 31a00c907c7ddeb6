"""Another process writes to the SQLite file: reads wait for nothing, uploads once for all."""

import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from gramwatt.service.access.keys import create_key, list_keys
from gramwatt.service.app import create_app
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.store import database
from gramwatt.service.store.database import Store
from tests.journals import journal, lines
from tests.service.keyed import add, client_of, statements


@pytest.fixture
def locked(light):
    """The service, whose file another connection may lock for writing; a wait takes 30 s."""
    with closing(sqlite3.connect(light.store.path, isolation_level=None)) as other:
        yield light, other


def test_a_read_waits_for_no_write(locked, clock):
    service, other = locked
    key = create_key(service, "reader", "read").key
    add(service)
    ingest(service, "job-2", lines(journal("job-2"))[:-1])  # runs
    ask = client_of(service)
    ask.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {key}"
    paths = ("/v1/jobs", "/v1/jobs/job-1", "/v1/jobs/job-2", "/v1/reports/monthly/2026-05")
    for path in paths:
        assert ask.get(path).status_code == 200
    clock.turn(hours=1)  # the key's use is to be noted again, the score of the running job renewed
    add(service, "job-3")  # the month is to be summed again
    used_at = list_keys(service).keys[0].last_used_at
    other.execute("BEGIN IMMEDIATE")
    for path in paths:
        began = time.monotonic()
        assert ask.get(path).status_code == 200
        assert time.monotonic() - began < database.BUSY_TIMEOUT_S, path
    assert list_keys(service).keys[0].last_used_at == used_at
    other.rollback()
    ask.get("/v1/jobs")
    assert list_keys(service).keys[0].last_used_at > used_at


def test_uploads_that_wait_together_are_refused_together(locked, monkeypatch):
    monkeypatch.setattr(database, "_BUSY", "PRAGMA busy_timeout = 2000")
    service, other = locked
    app = create_app(service)

    def upload(number):
        name = f"job-{number}"
        return app.test_client().send(name, journal(name)).status_code

    assert upload(5) == 200
    other.execute("BEGIN IMMEDIATE")
    with statements(service) as sent, ThreadPoolExecutor(4) as threads:
        assert set(threads.map(upload, range(4))) == {503}
    assert sent.count("BEGIN IMMEDIATE") <= 2  # each is a wait; of four, one may come late
    other.rollback()
    assert upload(9) == 200


def test_wal_is_no_choice_behind_a_link_to_another_file_system(tmp_path, monkeypatch):
    (tmp_path / "share").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "share")
    asked = []
    monkeypatch.setattr(database, "is_local", lambda path: asked.append(path) or False)
    Store(f"sqlite:///{tmp_path / 'home' / 'g.db'}").close()
    assert asked == [tmp_path / "share"]


@pytest.mark.timeout(10)
def test_a_file_that_may_only_be_read_is_not_waited_for(tmp_path):
    path = tmp_path / "g.db"
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE t (x)")
    reading = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    with closing(reading), pytest.raises(sqlite3.OperationalError, match="readonly"):
        database._set_journal(reading, "wal")
