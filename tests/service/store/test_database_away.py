"""A database that is cut off or refuses: every route says so soon, and the log says why.

`gramwatt serve` runs on a real PostgreSQL behind a TCP proxy that freezes or closes.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
import requests
import sqlalchemy as sa
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError

from gramwatt.collectors.settings.identity import node_id
from gramwatt.collectors.settings.keys import home_key
from gramwatt.service.store import database
from gramwatt.service.store.database import Store
from gramwatt.service.tasks.table import TASKS
from tests.journals import body, journal
from tests.service.processes import Process, eventually, serving

Server = tuple[Process, tuple[str, str]]
IMPATIENT = """
from gramwatt.__main__ import main
from gramwatt.service.store import database
database.ANSWER_S, database.CONNECT_S = 3, 2
main()
"""
"""`gramwatt` that waits 3 s for a frozen database, not 35."""
NDJSON = {"Content-Type": "application/x-ndjson"}


class Proxy:
    """TCP to the Unix socket of a server; frozen, it takes connections and moves no byte."""

    def __init__(self, target: str) -> None:
        self._target = target
        self.moves = threading.Event()
        self.moves.set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
                behind = socket.socket(socket.AF_UNIX)
                behind.connect(self._target)
            except OSError:
                return
            self._open += [client, behind]
            for one, other in ((client, behind), (behind, client)):
                threading.Thread(target=self._move, args=(one, other), daemon=True).start()

    def _move(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65536):
                self.moves.wait()
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self) -> None:
        """Cut every connection and refuse new ones."""
        self.moves.set()
        for end in (self._listening, *self._open):
            with suppress(OSError):  # it is closed already
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@pytest.fixture
def proxy(new_postgres):
    url = make_url(new_postgres())
    made = Proxy(f"{url.query['host']}/.s.PGSQL.{url.port or 5432}")
    there = url.set(host="127.0.0.1", port=made.port, query={}, password=None)
    yield made, there.render_as_string(hide_password=False)
    made.close()


@pytest.fixture
def server(proxy, tmp_path):
    """The process, address and key of `gramwatt serve`."""
    (tmp_path / "impatient.py").write_text(IMPATIENT)
    with serving(tmp_path, "impatient", GRAMWATT_DATABASE_URL=proxy[1]) as (process, address):
        yield process, (address, home_key(tmp_path / "home") or "")


def spool(home: Path) -> Path:
    node = node_id(False)
    folder = home / "spool" / "job-2" / node
    folder.mkdir(parents=True)
    (folder / "w1.jsonl").write_bytes(body(journal("job-2", node=node)))
    return folder


def sync(home: Path, at: tuple[str, str]) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "GRAMWATT_HOME": str(home), "GRAMWATT_SERVER": at[0]}
    environ |= {"GRAMWATT_API_KEY": at[1], "HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    command = [sys.executable, "-m", "gramwatt", "sync"]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120)


def ask(at: tuple[str, str], path: str) -> tuple[str, requests.Response]:
    address, key = at
    # waitress takes a hundred connections at once
    closing = {"Connection": "close", "Authorization": f"Bearer {key}"}
    if path.endswith("/records"):
        data = body(journal("job-1"))
        return path, requests.post(f"{address}{path}", data, headers=NDJSON | closing, timeout=60)
    return path, requests.get(f"{address}{path}", headers=closing, timeout=60)


PATHS = ("/v1/jobs", "/v1/jobs/job-1", "/v1/jobs/job-1/report", "/v1/jobs/job-1/records", "/readyz")


def expect_503(answers: list[tuple[str, Any]]) -> None:
    for path, answer in answers:
        assert (path, answer.status_code) == (path, 503)
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.json()["code"] == "not-ready"
        assert int(answer.headers["Retry-After"]) > 0


@pytest.mark.long
def test_a_frozen_database_is_answered_for_and_nothing_is_lost(proxy, server, tmp_path):
    link, (process, at) = proxy[0], server
    home = tmp_path / "sender"
    folder = spool(home)
    assert ask(at, "/v1/jobs/job-1/records")[1].json()["accepted"] == 9
    link.moves.clear()
    frozen = time.monotonic()
    with ThreadPoolExecutor(20) as threads:
        expect_503(list(threads.map(lambda n: ask(at, PATHS[n % 5]), range(20))))
    expect_503([ask(at, PATHS[n % 5]) for n in range(3)])
    assert requests.get(f"{at[0]}/healthz", timeout=30).status_code == 200
    done = sync(home, at)
    assert done.returncode == 1
    assert "answers 503 and asks to come again in 5 s; the journal stays" in done.stderr
    assert list(folder.glob("*.jsonl"))
    link.moves.set()
    eventually(lambda: ask(at, "/readyz")[1].ok, 60)
    assert sync(home, at).stdout == "sent job-2\n"
    # 3 minutes at 600 W are 108 kJ.
    energy = ask(at, "/v1/jobs/job-2")[1].json()["energy_kwh"]["value"]
    assert energy == pytest.approx(0.03, rel=1e-12)
    assert ask(at, "/v1/jobs/job-1/records")[1].json()["duplicate"] == 9
    minutes = int(time.monotonic() - frozen) // 60
    assert 1 <= process.text.count("the database is away") <= 1 + minutes  # once a minute
    assert process.text.count("the database answers again") == 1
    assert len(process.text.splitlines()) < 20


def rests(at: tuple[str, str]) -> bool:
    """Whether every task has run: one that is at work when the database goes logs an error."""
    runs = ask(at, "/v1/schedules?limit=500")[1].json()["runs"]
    done = {run["task"] for run in runs if run["outcome"] != "running"}
    return done == set(TASKS) and all(run["outcome"] != "running" for run in runs)


@pytest.mark.long
def test_a_database_that_refuses_is_answered_for(proxy, tmp_path):
    """The process says every half second that it listens; that this fails is no news."""
    settings = {"GRAMWATT_DATABASE_URL": proxy[1], "GRAMWATT_SILENT_AFTER_S": "3"}
    with serving(tmp_path, **settings) as (process, address):
        at = address, home_key(tmp_path / "home") or ""
        assert ask(at, "/readyz")[1].status_code == 200
        eventually(lambda: rests(at), 60)
        proxy[0].close()
        with ThreadPoolExecutor(20) as threads:
            expect_503(list(threads.map(lambda n: ask(at, PATHS[n % 5]), range(100))))
        time.sleep(3)
        logged = [line for line in process.text.splitlines() if "database" in line]
    assert len(logged) == 1, logged
    assert "the database is away" in logged[0]


def test_a_connection_that_the_server_ended_while_it_was_idle_is_made_anew(new_postgres):
    store = Store(new_postgres())
    number = sa.text("SELECT pg_backend_pid()")
    with store.read() as session:
        ended = session.scalar(number)
    other = psycopg.connect(
        store.url.set(drivername="postgresql").render_as_string(hide_password=False)
    )
    other.execute("SELECT pg_terminate_backend(%s, 10000)", (ended,))
    other.close()
    with store.read() as session:
        assert session.scalar(number) != ended
    store.close()


def test_an_answer_that_does_not_come_is_given_up_but_not_of_a_migration(proxy, monkeypatch):
    monkeypatch.setattr(database._limited_connection(), "answer_s", 0.5)
    monkeypatch.setattr(database, "ANSWER_S", 0.5)
    store = Store(proxy[1])
    with store.migrating() as connection:
        connection.execute(sa.text("SELECT pg_sleep(1)"))
    began = time.monotonic()
    with pytest.raises(OperationalError, match="does not answer"), store.read() as session:
        session.execute(sa.text("SELECT pg_sleep(20)"))
    assert time.monotonic() - began < 15
    store.close()


def test_the_log_says_once_a_minute_that_a_database_is_away(caplog):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    store = Store(f"postgresql://gramwatt@127.0.0.1:{port}/gramwatt")
    for _ in range(3):
        with pytest.raises(OperationalError), store.read() as session:
            session.execute(sa.text("SELECT 1"))
    store.close()
    assert caplog.text.count("requests get 503") == 1
