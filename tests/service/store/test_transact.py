"""Writes of several threads: one commit for many on SQLite, deadlocks tried again on a server."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from threading import Barrier, Event
from time import sleep
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DataError, IntegrityError, OperationalError
from sqlalchemy.orm import Session

from gramwatt.service.config import ServiceConfig
from gramwatt.service.container import Service
from gramwatt.service.store.columns import upsert
from gramwatt.service.store.database import Store
from gramwatt.service.store.journal import Interval
from gramwatt.service.store.migrate import upgrade
from gramwatt.service.store.months import FactorBackfill, MonthlyReport, MonthSum
from tests.service.keyed import add, client_of


def report(month: str) -> Callable[[Session], str]:
    """Work that stores one row."""

    def work(session: Session) -> str:
        session.add(
            MonthlyReport(month=month, project="", revision=1, made_us=1, changes=1, doc="{}")
        )
        session.flush()
        return month

    return work


def months(store: Store) -> list[str]:
    with store.read() as session:
        return sorted(session.scalars(sa.select(MonthlyReport.month)))


def shared(store: Store, *works: Callable[[Session], str]) -> list[Future[str]]:
    """What became of work that waited together for another's commit, in this order."""
    begun, go_on = Event(), Event()

    def slow(session: Session) -> str:
        begun.set()
        go_on.wait(30)
        return report("2026-01")(session)

    waiting: list[Future[str]] = []
    with ThreadPoolExecutor(8) as threads:
        first = threads.submit(store.transact, slow)
        begun.wait(30)
        for number, work in enumerate(works, start=1):
            waiting.append(threads.submit(store.transact, work))
            wait_until_in_line(store, number)
        go_on.set()
        assert first.result() == "2026-01"
    return waiting


def test_work_that_waits_is_committed_together(light):
    commits = count()
    sa.event.listen(light.store.engine, "commit", lambda _connection: next(commits))
    wanted = ["2026-02", "2026-03", "2026-04"]
    assert [one.result() for one in shared(light.store, *map(report, wanted))] == wanted
    assert months(light.store) == ["2026-01", *wanted]
    assert next(commits) == 2


def test_a_failure_takes_back_only_its_own(light):
    def failing(session: Session) -> str:
        report("2026-09")(session)
        raise KeyError("this one alone")

    works = [report("2026-02"), failing, report("2026-03"), report("2026-02")]
    first, broken, second, again = shared(light.store, *works)
    assert [first.result(), second.result()] == ["2026-02", "2026-03"]
    assert isinstance(broken.exception(), KeyError)
    assert isinstance(again.exception(), IntegrityError)  # the same month and time is there already
    assert months(light.store) == ["2026-01", "2026-02", "2026-03"]


def test_a_full_disk_takes_back_only_what_did_not_fit(light):
    """SQLite ends the whole transaction then, with what others in it had done before."""
    store = light.store
    begun, go_on = Event(), Event()

    def first(session: Session) -> str:
        begun.set()
        go_on.wait(30)
        return report("2026-01")(session)

    def too_large(session: Session) -> None:
        connection = session.connection()
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 5}")
        row = ("2026-09", "", 1, "x" * 3000)
        columns = "(month, project, revision, made_us, made_of, doc, jobs)"
        insert = f"INSERT INTO monthly_reports {columns} VALUES (?, ?, ?, 1, '', ?, x'')"
        connection.exec_driver_sql(insert, [(*row[:2], number, row[3]) for number in range(50)])

    with ThreadPoolExecutor(3) as threads:
        leading = threads.submit(store.transact, first)
        begun.wait(30)
        small = threads.submit(store.transact, report("2026-02"))
        wait_until_in_line(store, 1)
        large = threads.submit(store.transact, too_large)
        wait_until_in_line(store, 2)
        go_on.set()
        assert (leading.result(30), small.result(30)) == ("2026-01", "2026-02")
        assert isinstance(large.exception(30), OperationalError)
    assert months(store) == ["2026-01", "2026-02"]


def wait_until_in_line(store: Store, number: int) -> None:
    """Until so much work waits for the commit under way."""
    while len(store._group._waiting) < number:
        sleep(0.005)


def test_work_whose_commit_fails_is_not_acknowledged(light, monkeypatch):
    def broken(_connection: Any) -> None:
        raise OSError("no space left on device")

    sa.event.listen(light.store.engine, "commit", broken)
    with pytest.raises(OSError, match="no space"):
        light.store.transact(report("2026-01"))
    sa.event.remove(light.store.engine, "commit", broken)
    assert months(light.store) == []
    assert light.store.transact(report("2026-02")) == "2026-02"


@pytest.fixture
def on_server(new_postgres):
    store = Store(new_postgres())
    upgrade(store)
    yield store
    store.close()


def test_a_deadlock_is_tried_again_until_both_are_through(on_server):
    for month in ("2026-01", "2026-02"):
        on_server.transact(report(month))
    met, attempts = Barrier(2), count()

    def both(one: str, other: str) -> Callable[[Session], None]:
        waits = [met]

        def work(session: Session) -> None:
            next(attempts)
            for month in (one, other):
                session.execute(
                    sa.update(MonthlyReport)
                    .where(MonthlyReport.month == month)
                    .values(doc=MonthlyReport.doc + "!")
                )
                if waits:
                    waits.pop().wait(30)

        return work

    with ThreadPoolExecutor(2) as threads:
        there = threads.submit(on_server.transact, both("2026-01", "2026-02"))
        back = threads.submit(on_server.transact, both("2026-02", "2026-01"))
        there.result()
        back.result()
    with on_server.read() as session:
        assert list(session.scalars(sa.select(MonthlyReport.doc))) == ["{}!!", "{}!!"]
    assert next(attempts) == 3  # the one that the database chose came again


def test_a_row_that_two_insert_at_once_is_written_by_both(on_server):
    met, done = Barrier(2), []

    def keeps(last: int) -> Callable[[Session], None]:
        waits = [met]

        def work(session: Session) -> None:
            session.merge(FactorBackfill(id=1, done="", until="today", job=last))
            if waits:
                waits.pop().wait(30)  # neither has seen the other's row
            session.flush()
            done.append(last)

        return work

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(on_server.transact, map(keeps, (7, 8))))
    with on_server.read() as session:
        assert [row.job for row in session.scalars(sa.select(FactorBackfill))] == [done[-1]]
    assert sorted(done) == [7, 8]


def test_a_conflict_that_does_not_end_is_given_up(on_server, monkeypatch):
    monkeypatch.setattr("gramwatt.service.store.database.CONFLICT_WAIT_S", 0.0)
    attempts = count()

    def work(session: Session) -> None:
        next(attempts)
        session.execute(sa.text("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '40001'; END $$"))

    with pytest.raises(OperationalError, match="x"):
        on_server.transact(work)
    assert next(attempts) == 6


def test_a_duplicate_stays_one_and_is_tried_three_times(on_server, monkeypatch):
    monkeypatch.setattr("gramwatt.service.store.database.CONFLICT_WAIT_S", 0.0)
    attempts = count()
    on_server.transact(report("2026-01"))

    def work(session: Session) -> None:
        next(attempts)
        report("2026-01")(session)

    with pytest.raises(IntegrityError):
        on_server.transact(work)
    assert next(attempts) == 3


MEETS_ONCE = """
CREATE SEQUENCE {table}_met;
CREATE FUNCTION {table}_meets() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
IF nextval('{table}_met') = 1 THEN RAISE EXCEPTION 'x' USING ERRCODE = '40P01'; END IF;
RETURN NEW; END $$;
CREATE TRIGGER {table}_trigger BEFORE INSERT ON {table}
FOR EACH ROW EXECUTE FUNCTION {table}_meets();
"""
"""The first row that is put into a table meets a deadlock; the next ones do not."""


def test_a_correction_a_score_and_a_deletion_that_meet_a_deadlock_come_through(on_server, tmp_path):
    service = Service(ServiceConfig(home=tmp_path, database_url=""), on_server)
    add(service)
    with on_server.engine.begin() as connection:
        for table in ("corrections", "scores", "deletions"):
            connection.exec_driver_sql(MEETS_ONCE.format(table=table))
    client = client_of(service)
    corrected = client.patch("/v1/jobs/job-1", json={"name": "n"})
    assert (corrected.status_code, corrected.json["name"]) == (200, "n")
    assert corrected.json["revision"] == 2
    assert client.delete("/v1/jobs/job-1").status_code == 200
    with on_server.engine.connect() as connection:
        for table in ("corrections", "scores", "deletions"):
            met = connection.exec_driver_sql(f"SELECT last_value FROM {table}_met").scalar_one()
            assert met == 2, table


def test_rows_of_one_key_in_one_upsert_leave_the_newest(service):
    add(service, "job-1", minutes=1)
    with service.store.write() as session:
        known = session.scalars(sa.select(Interval)).one()
        same = {"device": known.device, "start_us": known.start_us, "end_us": known.end_us}
        rows = [
            {**same, "seq": seq, "writer": writer, "energy_j": joules, "kind": "measured"}
            for seq, writer, joules in ((90, "b", 1.0), (91, "W", 2.0), (91, "a", 3.0), (5, "z", 4))
        ]
        upsert(session, Interval, rows, newer=("end_us", "seq", "writer"))
    with service.store.read() as session:
        row = session.scalars(sa.select(Interval)).one()
        assert (row.seq, row.writer, row.energy_j) == (91, "a", 3.0)


def test_a_row_that_is_replaced_has_the_new_values_and_others_stay(service):
    def sums(month: str, document: str) -> dict[str, Any]:
        return {"month": month, "project": "", "changes": 1, "document": document}

    with service.store.write() as session:
        upsert(session, MonthSum, [sums("2026-04", "first"), sums("2026-05", "first")])
        upsert(session, MonthSum, [sums("2026-06", "then"), sums("2026-05", "then")], replace=True)
        upsert(session, MonthSum, [sums("2026-04", "last")])
    with service.store.read() as session:
        stored = session.execute(sa.select(MonthSum.month, MonthSum.document))
        assert sorted(map(tuple, stored)) == [
            ("2026-04", "first"),
            ("2026-05", "then"),
            ("2026-06", "then"),
        ]


def test_a_column_of_whole_numbers_and_fractions_is_stored_and_a_long_text_is_not_cut(service):
    add(service, "job-1", minutes=1)
    with service.store.write() as session:
        known = session.scalars(sa.select(Interval)).one()
        same = {"device": known.device, "writer": "w", "kind": "measured", "extra": None}
        rows = [
            {**same, "start_us": at, "end_us": at + 1, "seq": at, "energy_j": joules}
            for at, joules in ((1, 5), (2, 0.25), (3, 2**40))
        ]
        upsert(session, Interval, rows)
    with service.store.read() as session:
        stored = sa.select(Interval.seq, Interval.energy_j).where(Interval.start_us < 9)
        assert dict(session.execute(stored).all()) == {1: 5.0, 2: 0.25, 3: 2.0**40}
    if not service.store.is_sqlite:  # which has no lengths
        row = {**same, "start_us": 9, "end_us": 10, "seq": 9, "energy_j": 1.0, "kind": "k" * 65}
        with pytest.raises(DataError), service.store.write() as session:
            upsert(session, Interval, [row])
