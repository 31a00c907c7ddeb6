"""Whether a database server is away, and whether a connection to it is still good."""

import time
from types import SimpleNamespace

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from gramwatt.service.store import server
from gramwatt.service.store.database import Store
from gramwatt.service.store.server import Availability


def test_what_was_asked_before_the_server_was_found_again_says_nothing_of_now():
    availability = Availability()
    first = time.monotonic()
    availability.lost("refused", first)
    assert availability.is_away
    availability.found(first - 1)  # asked before it was lost
    assert availability.is_away
    availability.found(time.monotonic())
    availability.lost("timed out", first)  # another caller's, that began when it was away
    assert not availability.is_away
    availability.lost("refused", time.monotonic())
    assert availability.is_away


def test_a_connection_that_the_server_ended_while_it_was_idle_is_made_anew(
    new_postgres, monkeypatch
):
    store = Store(new_postgres())
    number = sa.text("SELECT pg_backend_pid()")

    def end_after_use():
        with store.read() as session:
            ended = session.scalar(number)
        other = psycopg.connect(
            store.url.set(drivername="postgresql").render_as_string(hide_password=False)
        )
        other.execute("SELECT pg_terminate_backend(%s, 10000)", (ended,))
        other.close()

    monkeypatch.setattr(server, "UNTESTED_S", 1e9)
    end_after_use()
    with pytest.raises(OperationalError), store.read() as session:
        session.scalar(number)
    with store.read() as session:
        assert session.scalar(number)
    monkeypatch.setattr(server, "UNTESTED_S", 0.0)
    end_after_use()
    with store.read() as session:
        assert session.scalar(number)
    store.close()


def test_the_log_repeats_why_at_most_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now, said = [1000.0], []
    log = SimpleNamespace(error=lambda text, *args: said.append((text % args).partition(";")[0]))
    monkeypatch.setattr(server, "_log", log)
    monkeypatch.setattr(server, "time", SimpleNamespace(monotonic=lambda: now[0]))
    availability = Availability()
    refused = 'FATAL: password authentication failed for user "gramwatt"'
    for second in range(0, 130, 10):  # 1000 to 1120 s
        now[0] = 1000.0 + second
        availability.lost(refused if second < 100 else "connection refused", now[0])
    assert said == [
        *[f"the database refuses this service: {refused}"] * 2,  # at 1000 and 1060 s
        "the database is away: connection refused",  # at 1120 s
    ]
    assert availability.reason == "connection refused"
