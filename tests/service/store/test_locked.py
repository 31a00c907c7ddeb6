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
from tests.service.keyed import add, client_of

WAIT_S = 2.0


@pytest.fixture
def locked(light, monkeypatch):
    """The service, whose file another connection has locked for writing; a wait takes 2 s."""
    monkeypatch.setattr(database, "_BUSY", f"PRAGMA busy_timeout = {WAIT_S * 1000:.0f}")
    with closing(sqlite3.connect(light.store.path, isolation_level=None)) as other:
        yield light, other


def timed(work):
    began = time.monotonic()
    result = work()
    return result, time.monotonic() - began


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
        answer, took_s = timed(lambda path=path: ask.get(path))
        assert (answer.status_code, took_s < WAIT_S / 2) == (200, True), (path, took_s)
    assert list_keys(service).keys[0].last_used_at == used_at
    other.rollback()
    ask.get("/v1/jobs")
    assert list_keys(service).keys[0].last_used_at > used_at


def test_uploads_that_wait_together_are_refused_together(locked):
    service, other = locked
    app = create_app(service)

    def upload(number):
        name = f"job-{number}"
        return timed(lambda: app.test_client().send(name, journal(name)))

    assert upload(5)[0].status_code == 200
    other.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(upload, range(4)))
    assert {answer.status_code for answer, _ in answers} == {503}
    assert max(took_s for _, took_s in answers) < 1.7 * WAIT_S
    other.rollback()
    assert upload(9)[0].status_code == 200


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
