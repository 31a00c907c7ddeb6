"""How fast lists, reports and months answer over many stored jobs, and a month's memory.

    python -m benchmarks.scale [--database URL] [--jobs 20000] [--month-jobs 100000] [--json]

Fills a new, empty database (a temporary SQLite file unless an address is given) with `--jobs` jobs
of twenty intervals over twelve months and `--month-jobs` more in one month. 120 of them the product
takes in and scores itself; the database makes the others of their rows (`benchmarks.clones`), for
which a role of PostgreSQL must be a superuser. With more than 200 000 jobs one copy in a hundred
has intervals and a document; lists and months read neither. Then the application answers in this
process, as it does behind a server. Each line has the figure, its limit and their ratio; exit code
1 above one.

`--jobs 1000000` makes some 8 GB in a few minutes. `--filled` measures a database once more.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from benchmarks.clones import Clone, copy_jobs
from gramwatt.sci.records.records import (
    AnyRecord,
    CountRecord,
    DeviceRecord,
    EndRecord,
    IntervalRecord,
    JobRecord,
    encode,
)
from gramwatt.service.access.keys import create_key
from gramwatt.service.app import create_app
from gramwatt.service.config import ServiceConfig, sqlite_url
from gramwatt.service.container import Service
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.months.large import JOBS_SMALL
from gramwatt.service.store.migrate import upgrade
from gramwatt.service.store.months import MonthSum

FIRST = datetime(2025, 6, 1, tzinfo=UTC)
MONTH = "2026-06"
INTERVALS = 20
TEMPLATES = 60
P99_MS = 150.0
PAGE_MS = 300.0
LONGEST_S = 10.0
"""How long one kind of request is repeated [s]."""
MONTH_S, MONTH_MB = 10.0, 300.0
RESTRICTED_MOST = 1.5
KINDS = ("training", "training", "fine-tuning")
ALL_WHOLE, WHOLE_EACH = 200_000, 100
"""Up to so many jobs every copy has all rows of a job, of more one in a hundred."""
PROJECTS = [f"project-{n}" for n in range(20)]
ZONES = ("DE", "FR", "US-CAL-CISO", "SE")


def records(number: int, start: datetime) -> list[AnyRecord]:
    """A job of one GPU and `INTERVALS` intervals of five minutes."""
    draw = random.Random(number)
    who: dict[str, Any] = {"job_id": f"T{number:09d}", "node": "n-1", "writer": "w-1"}
    step = timedelta(minutes=5)
    about: dict[str, Any] = {"project": PROJECTS[number % 20], "zone": draw.choice(ZONES)}
    about |= {"model_id": f"model-{number % 30}", "units": ("token",), "name": f"run-{number % 12}"}
    about |= {"kind": draw.choice(KINDS), "tags": {"team": f"team-{number % 7}", "user": "ada"}}
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


def ingested(service: Service, number: int, start: datetime) -> str:
    """The id of a job that the product has taken in and scored."""
    found = records(number, start)
    lines = [encode(record).encode() for record in found]
    answer = ingest(service, found[0].job_id, lines)
    assert not answer.rejected, answer
    return found[0].job_id


def fill(service: Service, jobs: int, month_jobs: int) -> None:
    """Store that many jobs over twelve months, and that many more in the last of them."""
    last = datetime.fromisoformat(f"{MONTH}-01T00:00:00+00:00")
    spread = [FIRST + timedelta(days=360 * n / TEMPLATES, hours=n) for n in range(TEMPLATES)]
    close = [last + timedelta(days=28 * n / TEMPLATES, hours=n % 20) for n in range(TEMPLATES)]
    spread, close = spread[:jobs], close[:month_jobs]
    originals = [
        [ingested(service, first + n, start) for n, start in enumerate(starts)]
        for first, starts in ((0, spread), (TEMPLATES, close))
    ]
    draw = random.Random(1)

    def clones() -> Iterator[Clone]:
        first = 1 + 2 * TEMPLATES
        for group, wanted in zip(originals, (jobs, month_jobs), strict=True):
            for key in range(first, first + wanted - len(group)):
                shift_us = draw.randrange(600_000_000)
                whole = jobs + month_jobs <= ALL_WHOLE or key % WHOLE_EACH == 0
                yield Clone(key, f"J{key:09d}", group[key % len(group)], shift_us, whole)
            first += wanted - len(group)

    copy_jobs(service.store, clones())


def timed_ms(ask: Callable[[int], None], times: int) -> tuple[float, float]:
    """The median, and the slowest but one in a hundred, of so many requests [ms].

    Of requests that take long, as many as there is time for.
    """
    wall = list[float]()
    for number in range(times):
        if sum(wall) > 1e3 * LONGEST_S:
            break
        before = time.perf_counter()
        ask(number)
        wall.append(1e3 * (time.perf_counter() - before))
    median, slow = np.percentile(wall, [50, 99])
    return float(median), float(slow)


def opened(url: str, home: Path) -> Service:
    """The service over the database."""
    return Service.open(ServiceConfig(home=home, database_url=url))


def asker(service: Service, name: str, *projects: str) -> Callable[[str], Any]:
    """Asks the application in this process with a new key of that name: JSON, or a text."""
    client = create_app(service=service).test_client()
    scope = "read" if projects else "admin"
    key = create_key(service, f"{name}-{secrets.token_hex(4)}", scope, projects)

    def ask(address: str) -> Any:
        answer = client.get(address, headers={"Authorization": f"Bearer {key.key}"})
        if answer.status_code != 200:
            raise RuntimeError(f"{address}: {answer.text}")
        return json.loads(answer.data) if answer.mimetype == "application/json" else answer.text

    return ask


Measured = list[tuple[str, float, float | None, str]]
"""What was measured, the figure, its limit if it has one, and its unit."""
LISTS = {
    "list of jobs": "",
    "jobs of a project": "project=project-{n}",
    "jobs of a state": "state=failed",
    "jobs of a kind": "kind=fine-tuning",
    "jobs of a name": "name=run-{n}",
    "jobs of a model": "model_id=model-{n}",
    "jobs of a tag": "tag=team:team-{m}",
    "jobs of a user": "user=ada",
    "jobs of hardware": "hardware=nvidia-h100-sxm5-80",
    "jobs of a zone": "zone=FR",
    "jobs of a month": "since=2026-03-01&until=2026-04-01",
    "jobs of a project and a state": "project=project-{n}&state=killed",
    "jobs of a zone and a tag": "zone=SE&tag=team:team-{m}",
    "most carbon": "sort=-total",
    "most carbon of a project": "sort=-total&project=project-{n}",
    "longest of a tag": "sort=-duration&tag=team:team-{m}",
    "first ended": "sort=ended_at",
    "jobs of no project": "project=nobody",
    "jobs of a tag that no job has": "tag=team:nobody",
}
"""Lists of jobs by their query; each is also asked for its second page."""


def measured(service: Service, jobs: int, times: int) -> Measured:
    """Requests of every kind, the slowest of a hundred and, without a limit, the median."""
    ask = asker(service, "scale")
    draw = random.Random(2)
    asked: dict[str, Callable[[int], None]] = {
        "job report, JSON": lambda n: ask(
            f"/v1/jobs/{_whole(draw.randint(2 * TEMPLATES + WHOLE_EACH, jobs))}/report.json"
        ),
        "month, nothing changed": lambda n: ask(f"/v1/reports/monthly/{MONTH}.json"),
        "sums of a model, nothing changed": lambda n: ask(
            "/v1/jobs?limit=50&model_id=model-1&wait=sums"
        ),
        "project's month": lambda n: ask(f"/v1/reports/monthly/{MONTH}.json?project=project-1"),
    }
    for name, query in LISTS.items():
        asked[name] = lambda n, query=query: ask(_list(query, n))
        following = ask(_list(query, 0)).get("next_cursor")
        if following:
            deep = f"{_list(query, 0)}&cursor={following}"
            asked[f"{name}, page 2"] = lambda n, deep=deep: ask(deep)
    return _rows(asked, 5, times, P99_MS)


def _whole(key: int) -> str:
    """The id of a copy near this key that has all rows of a job."""
    return f"J{key - key % WHOLE_EACH:09d}"


def _list(query: str, number: int) -> str:
    return f"/v1/jobs?limit=50&{query.format(n=number % 10, m=number % 7)}"


def _rows(
    asked: dict[str, Callable[[int], None]], before: int, times: int, limit: float
) -> Measured:
    rows: Measured = []
    for name, one in asked.items():
        timed_ms(one, before)
        median, slow = timed_ms(one, times)
        rows += [(f"{name}, p50", median, limit, "ms"), (f"{name}, p99", slow, limit, "ms")]
    return rows


def restricted(service: Service, jobs: int, times: int) -> Measured:
    """How much longer a read takes with a key of 20 projects by name than with one of all.

    Keys of fewer projects see other jobs, so these lists have no limit. Keys are asked in turn, so
    that other work on the machine meets each alike; ratios are of medians.
    """
    keys = {n: asker(service, f"bound-{n}", *PROJECTS[:n]) for n in (0, 1, 3, len(PROJECTS))}
    reads = {name: f"/v1/jobs?limit=50&{query}" for name, query in LISTS.items()}
    reads |= {"job": f"/v1/jobs/{_whole(jobs)}", "job report": f"/v1/jobs/{_whole(jobs)}/report"}
    rows: Measured = []
    for name, address in reads.items():
        wall_ms: dict[int, list[float]] = {n: [] for n in keys if name in LISTS or n in (0, 20)}
        for number in range(max(3, times // 4)):
            for n, wall in wall_ms.items():
                query = address.format(n=0, m=number % 7)
                wall.append(timed_ms(lambda _, n=n, query=query: keys[n](query), 1)[0])
        whole = float(np.median(wall_ms.pop(0)))
        for n, wall in wall_ms.items():
            limit = RESTRICTED_MOST if n == len(PROJECTS) else None
            ratio = float(np.median(wall)) / whole
            rows.append((f"{name}, key of {n} to key of all ({whole:.1f} ms)", ratio, limit, "x"))
    return rows


def pages(service: Service, month_jobs: int, times: int) -> Measured:
    """Pages of the site, as `measured`; the first also while jobs of its month are scored.

    The page of a small month waits for new sums. The page of a large month says that its sums are
    stale.
    """
    ask = asker(service, "scale-pages")

    def changed(_number: int) -> None:
        with service.store.write() as session:
            change = sa.update(MonthSum).where(MonthSum.month == MONTH, MonthSum.project == "")
            session.execute(change.values(changes=MonthSum.changes + 1))
        page = ask(f"/?month={MONTH}")
        if month_jobs > JOBS_SMALL and f'hx-get="/?month={MONTH}' not in page:
            raise RuntimeError("the first page does not say that its sums are not of now")

    ask(f"/?month={MONTH}&wait=true")
    asked: dict[str, Callable[[int], None]] = {
        "first page": lambda n: ask(f"/?month={MONTH}"),
        "first page of a project": lambda n: ask(f"/?month={MONTH}&project=project-{n % 20}"),
        "first page, jobs just scored": changed,
        "page of jobs": lambda n: ask("/jobs"),
        "page of jobs, searched": lambda n: ask(f"/jobs?q=J{n:07d}"),
        "page of jobs, sorted": lambda n: ask("/jobs?sort=-total"),
        "page of projects": lambda n: ask("/projects"),
        "page of models": lambda n: ask("/models"),
    }
    return _rows(asked, 1, max(20, times // 4), PAGE_MS)


def made_anew(url: str, home: Path, *, trend: bool) -> Measured:
    """Seconds and peak memory [MB] of the month made anew, in a process of its own.

    With `trend`, the eleven months before are made anew with it; else their sums are stored, and
    what the month is compared with.
    """
    command = [sys.executable, "-m", "benchmarks.scale", "--database", url, "--cold", str(home)]
    command += ["--cold-trend"] if trend else []
    cold = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    name = f"month of {cold['jobs']:,} jobs made anew"
    if trend:
        name = f"the same and {cold['others']:,} jobs of its trend"
    limits = (None, None) if trend else (MONTH_S, MONTH_MB)
    return [
        (name, cold["s"], limits[0], "s"),
        ("  its processor time", cold["cpu_s"], limits[0], "s"),
        ("  its peak memory", cold["mb"], limits[1], "MB"),
    ]


def cold_month(url: str, home: Path, *, trend: bool) -> None:
    """Make the month anew in this process, and print seconds and peak memory as JSON."""
    service = opened(url, home)
    with service.store.write() as session:
        every = sa.update(MonthSum).values(document=None, made_of=None)
        session.execute(every if trend else every.where(MonthSum.month == MONTH))
    ask = asker(service, "scale-cold")
    ask("/v1/jobs?limit=1")
    before, cpu = time.perf_counter(), _cpu_s()
    document = ask(f"/v1/reports/monthly/{MONTH}.json")
    seconds, cpu_s = time.perf_counter() - before, _cpu_s() - cpu
    kinds = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN  # the sums are made in a child
    peak_mb = max(resource.getrusage(kind).ru_maxrss for kind in kinds) / 1024
    jobs = document["totals"]["jobs"]
    others = sum(row["jobs"] for row in document["trend"]) - jobs
    found = {"s": seconds, "cpu_s": cpu_s, "mb": peak_mb, "jobs": jobs, "others": others}
    print(json.dumps(found))


def _cpu_s() -> float:
    """Processor time of this process and of its children that have ended [s]."""
    return sum(os.times()[:4])


def main() -> int:
    """Fill, measure, print, and compare with the limits."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--database", help="address of an empty database")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--month-jobs", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--filled", action="store_true", help="the database was filled before")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cold", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--cold-trend", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.cold:
        cold_month(given.database, given.cold, trend=given.cold_trend)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        url = given.database or sqlite_url(home / "gramwatt.db")
        service = opened(url, home)
        upgrade(service.store)
        before = time.perf_counter()
        if not given.filled:
            fill(service, given.jobs, given.month_jobs)
        if not service.store.is_sqlite:
            with service.store.engine.connect().execution_options(
                isolation_level="AUTOCOMMIT"
            ) as connection:
                connection.execute(sa.text("SET statement_timeout = 0"))
                connection.execute(sa.text("VACUUM ANALYZE"))
        filled_s = time.perf_counter() - before
        rows = [
            *made_anew(url, home, trend=True),
            *made_anew(url, home, trend=False),
            *measured(service, given.jobs + given.month_jobs, given.times),
            *restricted(service, given.jobs + given.month_jobs, given.times),
            *pages(service, given.month_jobs, given.times),
        ]
        service.store.close()
    if given.json:
        print(json.dumps({"filled_s": filled_s, "rows": rows}))
    else:
        kind = "SQLite" if "sqlite" in url else "PostgreSQL"
        print(f"{kind}, {given.jobs + given.month_jobs:,} jobs, filled in {filled_s:.0f} s")
        for name, figure, limit, unit in rows:
            beside = "" if limit is None else f"limit {limit:>6.0f}  {figure / limit:.2f}"
            print(f"  {name:<60} {figure:>9.2f} {unit:<3} {beside}".rstrip())
    return 0 if all(limit is None or figure <= limit for _, figure, limit, _ in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
