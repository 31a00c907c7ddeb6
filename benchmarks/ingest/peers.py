"""The database alone: the same rows by the driver's own means, in transactions of one upload."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gramwatt.sci.records.records import IntervalRecord, decode
from gramwatt.service.store.columns import to_us
from gramwatt.service.store.database import Store
from gramwatt.service.store.journal import Device, Interval
from gramwatt.service.store.models import Job

Row = tuple[Any, ...]
COLUMNS = tuple(column.name for column in Interval.__table__.columns)
NAMES = ", ".join(COLUMNS)
VALUES = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS[2:])
NEWER = (
    "(excluded.end_us, excluded.seq, excluded.writer)"
    " > (intervals.end_us, intervals.seq, intervals.writer)"
)
CONFLICT = f"ON CONFLICT (device, start_us) DO UPDATE SET {VALUES} WHERE {NEWER}"


def rates(store: Store, bodies: Sequence[bytes]) -> dict[str, float]:
    """Intervals per second by each means, over tables as the service makes them."""
    parts = [list(_rows(body)) for body in bodies]
    _make_devices(store)
    found = {
        "executemany upsert": _rate(store, parts, _many),
        "decode + upsert": _rate(store, bodies, lambda driver, body: _many(driver, _rows(body))),
    }
    if not store.is_sqlite:
        found["COPY to a stage + upsert"] = _rate(store, parts, _copy)
    return found


def _rows(body: bytes) -> Iterator[Row]:
    for line in body.splitlines():
        record = decode(line)
        if isinstance(record, IntervalRecord):
            yield (
                int(record.device_id[-2:]) + 1,
                to_us(record.start),
                to_us(record.end),
                record.seq,
                record.writer,
                record.energy_j,
                record.kind,
                record.utilisation_mean,
                record.utilisation_max,
                record.memory_peak_b,
                record.power_max_w,
                json.dumps(record.profile),
                None,
            )


def _make_devices(store: Store) -> None:
    job = {"job_id": "peer", "project": "p", "state": "running", "head": "{}"}
    numbers = dict.fromkeys(("started_us", "heard_us", "version", "scored_version"), 0)
    with store.write() as session:
        session.add(Job(id=1, **job, **numbers, revision=0, notices=0))
        session.flush()
        session.add_all(Device(id=n + 1, job=1, node="n", device_id=str(n)) for n in range(8))


def _rate(store: Store, parts: Sequence[Any], put: Callable[[Any, Any], None]) -> float:
    with _driver(store) as driver:
        began, done = time.perf_counter(), 0
        for part in parts:
            driver.execute("BEGIN IMMEDIATE" if store.is_sqlite else "BEGIN")
            put(driver, part)
            driver.execute("COMMIT")
        took_s = time.perf_counter() - began
        (done,) = driver.execute("SELECT count(*) FROM intervals").fetchone()
        driver.execute("DELETE FROM intervals")
    return float(done / took_s)


@contextmanager
def _driver(store: Store) -> Iterator[Any]:
    """A connection of the driver with the service's own settings, without SQLAlchemy around it."""
    with store.engine.connect() as connection:
        driver = connection.connection.driver_connection
        if not store.is_sqlite:
            connection.rollback()
            driver.autocommit = True  # type: ignore[union-attr]  # of psycopg
        else:
            connection.rollback()
        yield driver
        if not store.is_sqlite:
            driver.autocommit = False  # type: ignore[union-attr]


def _many(driver: Any, rows: Any) -> None:
    mark = "?" if hasattr(driver, "executescript") else "%s"
    marks = ", ".join(mark for _ in COLUMNS)
    text = f"INSERT INTO intervals ({NAMES}) VALUES ({marks}) {CONFLICT}"
    driver.cursor().executemany(text, list(rows))


def _copy(driver: Any, rows: Sequence[Row]) -> None:
    cursor = driver.cursor()
    cursor.execute("CREATE TEMP TABLE IF NOT EXISTS stage (LIKE intervals) ON COMMIT DELETE ROWS")
    with cursor.copy(f"COPY stage ({NAMES}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
    cursor.execute(f"INSERT INTO intervals ({NAMES}) SELECT {NAMES} FROM stage {CONFLICT}")
