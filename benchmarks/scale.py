"""How fast lists, reports and months answer over many stored jobs, and a month's memory.

    python -m benchmarks.scale [--database URL] [--jobs 20000] [--month-jobs 100000] [--json]

Fills a new, empty database (a temporary SQLite file unless an address is given) with `--jobs` jobs
of twenty intervals over twelve months and `--month-jobs` more in one month: on PostgreSQL by COPY.
Their documents and parts of months are the engine's own, of sixty jobs scored once; ids, starts
and the names of inputs that are a job's own differ. Then the application answers in this process,
as it does behind a server. Each line has the figure, its limit and their ratio; exit code 1 above
a limit.

`--jobs 1000000` makes 20 million intervals, some 15 GB.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.journal.merge import merge
from gramwatt.sci.journal.records import (
    AnyRecord,
    CountRecord,
    DeviceRecord,
    EndRecord,
    IntervalRecord,
    JobRecord,
    encode,
)
from gramwatt.sci.score.context import annual_context
from gramwatt.sci.score.score import score
from gramwatt.service.app import create_app
from gramwatt.service.config import ServiceConfig, sqlite_url
from gramwatt.service.container import Service
from gramwatt.service.rollups.part import parts_of
from gramwatt.service.store import models
from gramwatt.service.store.documents import head_text, split_job
from gramwatt.service.store.migrate import upgrade
from gramwatt.service.store.timestamps import to_us
from gramwatt.service.usecases.access.keys import create_key

FIRST = datetime(2025, 6, 1, tzinfo=UTC)
MONTH = "2026-06"
INTERVALS = 20
TEMPLATES = 60
PORTION = 2_000
P99_MS = 100.0
PAGE_MS = 300.0
MONTH_S, MONTH_MB = 2.0, 300.0
ZONES = ("DE", "FR", "US-CAL-CISO", "SE")
TABLES = ("Job", "Writer", "Statement", "Device", "Interval", "Count", "Score", "JobMonth")
"""What a scored job has rows in, parents first."""
Row = dict[str, Any]


def records(number: int, start: datetime) -> list[AnyRecord]:
    """A job of one GPU and `INTERVALS` intervals of five minutes."""
    draw = random.Random(number)
    who: dict[str, Any] = {"job_id": f"T{number:09d}", "node": "n-1", "writer": "w-1"}
    step = timedelta(minutes=5)
    about: dict[str, Any] = {"project": f"project-{number % 20}", "zone": draw.choice(ZONES)}
    about |= {"model_id": f"model-{number % 30}", "units": ("token",), "kind": "training"}
    found: list[AnyRecord] = [
        JobRecord(**who, seq=1, started_at=start, role="command", pue=1.2, **about),
        DeviceRecord(
            **who,
            seq=2,
            device_id=f"GPU-{number % 40}",
            device_class="gpu",
            name="NVIDIA H100 80GB HBM3",
            meter="nvml",
            kind="measured",
        ),
    ]
    for n in range(INTERVALS):
        found.append(
            IntervalRecord(
                **who,
                seq=3 + n,
                device_id=f"GPU-{number % 40}",
                start=start + n * step,
                end=start + (n + 1) * step,
                energy_j=300 * draw.uniform(100, 700),
                kind="measured",
            )
        )
    end = start + INTERVALS * step
    found.append(CountRecord(**who, seq=30, at=end, unit="token", amount=draw.uniform(1e5, 1e7)))
    state = draw.choice(["completed"] * 8 + ["failed", "killed"])
    return [*found, EndRecord(**who, seq=31, ended_at=end, state=state)]


class Template:
    """One scored job, whose rows are those of many after changing what is each one's own."""

    def __init__(self, number: int, start: datetime, catalog: Any) -> None:
        self.records = records(number, start)
        document: JobDoc = score(merge(self.records), annual_context(catalog, None))
        self.document = document
        self.start_us = to_us(start)
        self.name = document["job_id"]
        self.head, (self.doc, self.series) = head_text(document), split_job(document)
        self.parts = parts_of(document)

    def rows(self, key: int, shift_us: int) -> Iterator[tuple[str, Row]]:
        """Every row of one job, with the table's model."""
        name, document = f"J{key:09d}", self.document
        start_us = self.start_us + shift_us
        job = {"id": key, "job_id": name, "project": document["project"], "grade": "B"}
        job |= {"model_id": document["model_id"], "state": document["state"], "notices": 2}
        job |= {"started_us": start_us, "heard_us": start_us, "silent_us": None, "version": 1}
        job |= {"scored_version": 1, "revision": 1, "summed_revision": 1}
        yield "Job", {**job, "head": self.head.replace(self.name, name)}
        writer = {"job": key, "node": "n-1", "writer": "w-1", "contiguous": 31, "beyond": "[]"}
        yield "Writer", {"id": key, **writer}
        yield "Device", {"id": key, "job": key, "node": "n-1", "device_id": "GPU-1"}
        for record in self.records:
            yield from _line(record, key, name, shift_us, self.name)
        versions = {"engine_version": "1", "catalog_version": "1", "conformance": "conforming"}
        made = {"id": key, "job": key, "revision": 1, "made_us": start_us, "reason": "ended"}
        texts = {"doc": self.doc.replace(self.name, name), "series": self.series}
        yield "Score", {**made, **versions, **texts}
        for month, part in self.parts.items():
            row = {"month": month, "job": key, "project": document["project"], "job_id": name}
            row |= {"started_us": start_us, "use": part.use, "texts": part.texts}
            yield "JobMonth", {**row, "numbers": _own(part.numbers, key)}


def _line(
    record: AnyRecord, key: int, name: str, shift_us: int, old: str
) -> Iterator[tuple[str, Row]]:
    if isinstance(record, IntervalRecord):
        more: Row = dict.fromkeys(
            ("utilisation_mean", "utilisation_max", "memory_peak_b", "power_max_w", "profile")
        )
        span = {"start_us": to_us(record.start), "end_us": to_us(record.end)}
        span = {field: moment + shift_us for field, moment in span.items()}
        read = {"seq": record.seq, "writer": "w-1", "energy_j": record.energy_j}
        yield "Interval", {"device": key, **span, **read, "kind": "measured", **more}
    elif isinstance(record, CountRecord):
        row = {"writer": key, "seq": record.seq, "at_us": to_us(record.at) + shift_us}
        yield "Count", {**row, "unit": "token", "amount": record.amount, "phase": None}
    else:
        line = encode(record).replace(old, name)
        yield "Statement", {"writer": key, "seq": record.seq, "line": line}


def _own(numbers: bytes, key: int) -> bytes:
    """The part with other names for the inputs that are the job's own: its hours of the grid."""
    words = np.frombuffer(numbers, dtype=np.int64).copy()
    floats = words.view(np.float64)
    effects = int(floats[2])
    names = words[len(words) - 2 * effects :].reshape(-1, 2)
    names[names[:, 0] != names[:, 1], 0] += key
    return words.tobytes()


def fill(service: Service, jobs: int, month_jobs: int) -> None:
    """Store that many jobs over twelve months, and that many more in the last of them."""
    catalog = load_catalog()
    last = datetime.fromisoformat(f"{MONTH}-01T00:00:00+00:00")
    spread = [FIRST + timedelta(days=360 * n / TEMPLATES, hours=n) for n in range(TEMPLATES)]
    close = [last + timedelta(days=28 * n / TEMPLATES, hours=n % 20) for n in range(TEMPLATES)]
    groups = [
        [Template(n, start, catalog) for n, start in enumerate(starts)]
        for starts in (spread, close)
    ]
    keys = iter(range(1, jobs + month_jobs + 1))
    wanted = [groups[0][n % TEMPLATES] for n in range(jobs)]
    wanted += [groups[1][n % TEMPLATES] for n in range(month_jobs)]
    templates = iter(wanted)
    draw = random.Random(1)
    while portion := list(zip(islice(templates, PORTION), keys, strict=False)):
        tables: dict[str, list[Row]] = {name: [] for name in TABLES}
        for template, key in portion:
            for table, row in template.rows(key, draw.randrange(600_000_000)):
                tables[table].append(row)
        insert(service, tables)
    months = sorted({m for group in groups for t in group for m in t.parts})
    projects = ["", *(f"project-{n}" for n in range(20))]
    with service.store.write() as session:
        for month in months:
            session.add_all(
                models.MonthVersion(month=month, project=name, version=1) for name in projects
            )


def insert(service: Service, tables: dict[str, list[Row]]) -> None:
    """Insert rows by table: COPY on PostgreSQL, else executemany."""
    with service.store.engine.connect() as connection:
        raw: Any = connection.connection.driver_connection
        if service.store.is_sqlite:
            raw.execute("BEGIN")
        for name, rows in tables.items():
            table = getattr(models, name).__tablename__
            columns = list(rows[0])
            named = ", ".join(f'"{column}"' for column in columns)
            if service.store.is_sqlite:
                marks = ", ".join("?" * len(columns))
                values = [tuple(row.values()) for row in rows]
                raw.executemany(f"INSERT INTO {table} ({named}) VALUES ({marks})", values)
                continue
            with raw.cursor() as cursor, cursor.copy(f"COPY {table} ({named}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(tuple(row.values()))
        raw.execute("COMMIT") if service.store.is_sqlite else raw.commit()


def p99_ms(ask: Callable[[int], None], times: int) -> float:
    """The slowest but one in a hundred of so many requests [ms]."""
    wall = []
    for number in range(times):
        before = time.perf_counter()
        ask(number)
        wall.append(1e3 * (time.perf_counter() - before))
    return float(np.percentile(wall, 99))


def opened(url: str, home: Path) -> Service:
    """The service over the database."""
    return Service.open(ServiceConfig(home=home, database_url=url))


def asker(service: Service, name: str) -> Callable[[str], Any]:
    """Asks the application in this process with a new key of that name: JSON, or a text."""
    client, key = create_app(service=service).test_client(), create_key(service, name, "admin")

    def ask(address: str) -> Any:
        answer = client.get(address, headers={"Authorization": f"Bearer {key['key']}"})
        if answer.status_code != 200:
            raise RuntimeError(f"{address}: {answer.text}")
        return json.loads(answer.data) if answer.mimetype == "application/json" else answer.text

    return ask


def measured(service: Service, jobs: int, times: int) -> list[tuple[str, float, float, str]]:
    """Requests of every kind: what, the figure, its limit and its unit."""
    ask = asker(service, "scale")
    draw = random.Random(2)
    asked: dict[str, Callable[[int], None]] = {
        "list of jobs": lambda n: ask("/v1/jobs?limit=50"),
        "jobs of a project": lambda n: ask(f"/v1/jobs?limit=50&project=project-{n % 20}"),
        "jobs of a state": lambda n: ask("/v1/jobs?limit=50&state=failed"),
        "job report, JSON": lambda n: ask(f"/v1/jobs/J{draw.randint(1, jobs):09d}/report.json"),
        "month, nothing changed": lambda n: ask(f"/v1/reports/monthly/{MONTH}.json"),
        "project's month": lambda n: ask(f"/v1/reports/monthly/{MONTH}.json?project=project-1"),
    }
    rows = []
    for name, one in asked.items():
        for number in range(20):
            one(number)
        rows.append((f"{name}, p99", p99_ms(one, times), P99_MS, "ms"))
    return rows


def pages(service: Service, times: int) -> list[tuple[str, float, float, str]]:
    """Pages of the site, as `measured`; the first also while jobs of its month are scored."""
    ask = asker(service, "scale-pages")

    def changed(_number: int) -> None:
        with service.store.write() as session:
            of_month = (models.MonthVersion.month == MONTH, models.MonthVersion.project == "")
            version = random.getrandbits(62)
            session.execute(sa.update(models.MonthVersion).where(*of_month).values(version=version))
        if f'hx-get="/?month={MONTH}' not in ask(f"/?month={MONTH}"):
            raise RuntimeError("the first page does not say that its sums are not of now")

    ask(f"/?month={MONTH}&wait=true")
    asked: dict[str, Callable[[int], None]] = {
        "first page": lambda n: ask(f"/?month={MONTH}"),
        "first page of a project": lambda n: ask(f"/?month={MONTH}&project=project-{n % 20}"),
        "first page, jobs just scored": changed,
        "page of jobs": lambda n: ask("/jobs"),
        "page of jobs, searched": lambda n: ask(f"/jobs?search=J{n:07d}"),
        "page of jobs, sorted": lambda n: ask("/jobs?sort=-total"),
        "page of projects": lambda n: ask("/projects"),
        "page of models": lambda n: ask("/models"),
    }
    rows = []
    for name, one in asked.items():
        one(0)
        rows.append((f"{name}, p99", p99_ms(one, max(20, times // 4)), PAGE_MS, "ms"))
    return rows


def cold_month(url: str, home: Path) -> None:
    """Make the month anew in this process, and print seconds and peak memory as JSON."""
    service = opened(url, home)
    with service.store.write() as session:
        session.execute(sa.delete(models.MonthSum))
    ask = asker(service, "scale-cold")
    ask("/v1/jobs?limit=1")
    before, cpu = time.perf_counter(), time.process_time()
    jobs = ask(f"/v1/reports/monthly/{MONTH}.json")["totals"]["jobs"]
    seconds, cpu_s = time.perf_counter() - before, time.process_time() - cpu
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"s": seconds, "cpu_s": cpu_s, "mb": peak_mb, "jobs": jobs}))


def main() -> int:
    """Fill, measure, print, and compare with the limits."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--database", help="address of an empty database")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--month-jobs", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cold", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.cold:
        cold_month(given.database, given.cold)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        url = given.database or sqlite_url(home / "gramwatt.db")
        service = opened(url, home)
        upgrade(service.store)
        before = time.perf_counter()
        fill(service, given.jobs, given.month_jobs)
        if not service.store.is_sqlite:
            with service.store.engine.connect().execution_options(
                isolation_level="AUTOCOMMIT"
            ) as connection:
                connection.execute(sa.text("VACUUM ANALYZE"))
        filled_s = time.perf_counter() - before
        command = [sys.executable, "-m", "benchmarks.scale", "--database", url, "--cold", folder]
        cold = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        rows = [
            (f"month of {cold['jobs']:,} jobs made anew", cold["s"], MONTH_S, "s"),
            ("  its processor time", cold["cpu_s"], MONTH_S, "s"),
            ("  its peak memory", cold["mb"], MONTH_MB, "MB"),
            *measured(service, given.jobs + given.month_jobs, given.times),
            *pages(service, given.times),
        ]
        service.store.close()
    if given.json:
        print(json.dumps({"filled_s": filled_s, "rows": rows}))
    else:
        kind = "SQLite" if "sqlite" in url else "PostgreSQL"
        print(f"{kind}, {given.jobs + given.month_jobs:,} jobs, filled in {filled_s:.0f} s")
        for name, figure, limit, unit in rows:
            print(
                f"  {name:<40} {figure:>9.1f} {unit:<3} limit {limit:>6.0f}  {figure / limit:.2f}"
            )
    return 0 if all(figure <= limit for _, figure, limit, _ in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
