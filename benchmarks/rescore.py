"""How many jobs a second one core scores again after the factors changed.

    python -m benchmarks.rescore [--jobs 400] [--intervals 24] [--profile]

Jobs of two accelerators with `--intervals` steps of 5 minutes each, taken in by `ingest` on SQLite,
then scored again by the task `rescore-factors`: once where no figure changes, once where each gets
a revision. Beside them stands the engine alone over the same journals, from lines to documents.
Processor time of one core; the wait for a disk is not in it.
"""

from __future__ import annotations

import argparse
import cProfile
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.score import journal
from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.records.merge import merge
from gramwatt.sci.records.records import decode, encode
from gramwatt.sci.score.identify import annual_context
from gramwatt.sci.score.score import score
from gramwatt.service.config import ServiceConfig, sqlite_url
from gramwatt.service.container import Service
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.store.migrate import upgrade
from gramwatt.service.store.months import FactorBackfill
from gramwatt.service.tasks.rescoring import rescore_on_new_factors

FOR_EVER_S = 1e9
FLEET = 100_000
LIFE = 7.0
"""Years over which the changed factors spread embodied carbon."""


def main() -> int:
    """Print jobs a second and how much longer than the engine alone each takes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument("--intervals", type=int, default=24)
    parser.add_argument("--profile", action="store_true", help="where the time goes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _measure(Path(folder), options.jobs, options.intervals, options.profile)
    return 0


def _measure(folder: Path, jobs: int, intervals: int, profiled: bool) -> None:
    journals = [
        [encode(record).encode() for record in journal(number, 2, intervals)]
        for number in range(jobs)
    ]
    config = ServiceConfig(home=folder, database_url=sqlite_url(folder / "gramwatt.db"))
    service = Service.open(config)
    upgrade(service.store)
    context = annual_context(load_catalog(), config.lifetime_years, 1)

    def alone() -> int:
        for lines in journals:
            score(merge([decode(line) for line in lines]), context)
        return jobs

    def taken_in() -> int:
        for number, lines in enumerate(journals):
            ingest(service, f"job-{number}", lines)
        return jobs

    engine_s = _timed(alone, jobs)
    print(f"engine alone: {engine_s * 1000:.2f} ms a job")
    other = replace(service, config=replace(config, lifetime_years=LIFE))
    profile = cProfile.Profile() if profiled else None
    _print("taken in and scored", _timed(taken_in, jobs), engine_s)
    _forget(service)
    same_s = _timed(lambda: rescore_on_new_factors(service, FOR_EVER_S), jobs, profile)
    _print("scored again, no change", same_s, engine_s)
    changed_s = _timed(lambda: rescore_on_new_factors(other, FOR_EVER_S), jobs, profile)
    _print("scored again, a revision each", changed_s, engine_s)
    service.store.close()
    if profile is not None:
        profile.print_stats("cumulative")


def _forget(service: Service) -> None:
    """Let the store take its scores for those of other factors."""
    with service.store.write() as session:
        session.merge(FactorBackfill(id=1, done="other", until="other", job=0))


def _timed(work: Callable[[], int], jobs: int, profile: cProfile.Profile | None = None) -> float:
    """Processor time of each job [s]."""
    before = time.process_time()
    done = profile.runcall(work) if profile else work()
    assert done == jobs, f"{done} of {jobs} jobs"
    return (time.process_time() - before) / jobs


def _print(what: str, each_s: float, engine_s: float) -> None:
    hours = each_s * FLEET / 3600
    print(
        f"{what}: {1 / each_s:.0f} jobs/s, {each_s * 1000:.2f} ms a job,"
        f" {each_s / engine_s:.1f} x the engine; {FLEET:,} jobs: {hours:.2f} h of one core"
    )


if __name__ == "__main__":
    raise SystemExit(main())
