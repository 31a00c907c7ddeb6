"""Grid intensity in 5-minute points: import of a year of 50 zones, a plan over them, and the score
of a 30-day job.

    python -m benchmarks.intensity [--zones 50] [--days 365]

Import: one file for each zone through the same function as `gramwatt import intensity`, into
SQLite. Plan: 4 h in the coming week in the best of all zones, asked again, as a server answers it.
Score: one GPU over 30 days in 5-minute intervals, from merged records to the document, with points
read from that store; and the join of energy with intensity alone. Each figure stands beside its
limit and, where one can be measured in the same run, beside a peer: Python's own csv reader over
the same file, and one numpy dot product. Processor time of one core. Exit code 1 above a limit.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.score import T0, joined, journal, limit_s
from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.planning.plan_request import PlanRequest
from gramwatt.sci.records.merge import merge
from gramwatt.sci.score.score import ScoreContext, score
from gramwatt.service.config import ServiceConfig, sqlite_url
from gramwatt.service.container import Service
from gramwatt.service.intensity.csv_import import import_csv
from gramwatt.service.intensity.lookup import StoredIntensity
from gramwatt.service.intensity.plans import plan
from gramwatt.service.store.migrate import upgrade

STEP = timedelta(minutes=5)
JOB_DAYS = 30
IMPORT_LIMIT_S, PLAN_LIMIT_S, SCORE_LIMIT_S = 60.0, 0.05, 0.05
REPEATS = 5


def main() -> int:
    """Print figures, limits and peers; 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--zones", type=int, default=50)
    parser.add_argument("--days", type=int, default=365)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return _measure(Path(folder), options.zones, options.days)


def _measure(folder: Path, count: int, days: int) -> int:
    file = _trace(folder / "trace.csv", T0 - timedelta(days=days - JOB_DAYS), days)
    service = Service.open(
        ServiceConfig(home=folder, database_url=sqlite_url(folder / "gramwatt.db"))
    )
    upgrade(service.store)
    catalog = load_catalog()
    names = [zone.zone for zone in catalog.all_zones() if zone.zone not in ("DE", "WORLD")]
    zones = ["DE", *names[: count - 1]]
    imported_s = _timed(lambda: [_import(service, file, zone) for zone in zones])
    read_s = len(zones) * _timed(lambda: _rows(file))
    job = merge(journal(0, 1, JOB_DAYS * 288))
    lookup = StoredIntensity(service)
    context = ScoreContext(catalog, lookup)
    end = T0 + timedelta(days=JOB_DAYS)
    found = lookup.points("DE", T0, end)
    assert len(found) == JOB_DAYS * 288, "the job has a value for every five minutes"
    score(job, context)  # tables of the catalog are read once
    scored_s = min(_timed(lambda: score(job, context)) for _ in range(REPEATS))
    looked_s = min(_timed(lambda: lookup.points("DE", T0, end)) for _ in range(REPEATS))
    joined_s = min(_timed(lambda: joined(job, context)) for _ in range(REPEATS)) - looked_s
    week = T0 + timedelta(days=JOB_DAYS)
    request = PlanRequest(
        hours=4, zone="DE", zones=tuple(zones), now=week, deadline=week + timedelta(days=7)
    )
    plan(service, request)  # forecasts are fitted once a week
    planned_s = min(_timed(lambda: plan(service, request)) for _ in range(REPEATS))
    service.store.close()
    missed = 0
    for name, taken_s, limit in (
        (f"import of {days} days of {len(zones)} zones", imported_s, IMPORT_LIMIT_S),
        (f"plan over {len(zones)} zones for 7 days", planned_s, PLAN_LIMIT_S),
        (f"score of a job of {JOB_DAYS} days", scored_s, SCORE_LIMIT_S),
    ):
        missed += taken_s > limit
        print(f"{name}: {taken_s:.4g} s, {taken_s / limit:.2f} of its limit of {limit:g} s")
    print(f"csv.reader over the same files: {read_s:.4g} s, import x {imported_s / read_s:.1f}")
    print(f"of the score: look-up {looked_s:.4g} s, join {joined_s:.4g} s")
    print(f"dot product of as many rows: {limit_s(JOB_DAYS * 288):.2g} s")
    return 1 if missed else 0


def _trace(path: Path, start: datetime, days: int) -> Path:
    with path.open("w") as out:
        out.write("start_utc,g_per_kwh\n")
        for number in range(days * 288):
            out.write(f"{start + number * STEP:%Y-%m-%dT%H:%MZ},{100 + number * 37 % 400}\n")
    return path


def _import(service: Service, file: Path, zone: str) -> None:
    import_csv(service, file, zone, "lifecycle", "average")


def _rows(file: Path) -> int:
    with file.open(newline="") as lines:
        return sum(1 for _ in csv.reader(lines))


def _timed(work: Callable[[], Any]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


if __name__ == "__main__":
    sys.exit(main())
