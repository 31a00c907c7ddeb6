"""Intervals that a server takes in while it archives a month, and how long uploads wait for it.

    python -m benchmarks.fleet.ingest [--minutes 10] [--per-s 2000] [--lines 40]
                                   [--database postgresql]

A real `gramwatt scheduler` leads, has GRAMWATT_ARCHIVE_TO and a month of `--rows` intervals, so it
archives from its start, beside `gramwatt serve` and at nice 10, as docs/deploy.md has it. Sixteen
connections send uploads of `--lines` intervals (40 are a node of eight devices over five minutes),
each when it is due: one that is late counts from then. Wanted: all intervals a second, and p99
below 1 s. Exit code 1 where one is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

from benchmarks.clones import Clone, copy_jobs
from benchmarks.fleet.shapes import MONTH, PROJECTS, store_job
from benchmarks.ingest.__main__ import databases, serving
from benchmarks.ingest.rows import uploads
from gramwatt.service.config import ServiceConfig
from gramwatt.service.container import Service
from gramwatt.service.fleet.manifest import read_manifest
from gramwatt.service.fleet.places import STAGING, Folder
from gramwatt.service.operation.factors import rescore_on_new_factors
from gramwatt.service.store.migrate import upgrade

WRITERS, MINUTES_OF_JOB = 16, 5_000
P99_MOST_S, HELD_LEAST, STARTS_S = 1.0, 0.99, 60.0


def main() -> int:
    """Run the benchmark; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--per-s", type=float, default=2_000)
    parser.add_argument("--lines", type=int, default=40)
    parser.add_argument("--rows", type=int, default=12_000_000)
    parser.add_argument("--database", choices=("postgresql", "sqlite"), default="postgresql")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gramwatt-fleet-") as name:
        folder = Path(name)
        with databases(asked.database, folder) as new:
            return _measure(new(), folder, asked)


def _measure(url: str, folder: Path, asked: argparse.Namespace) -> int:
    rows = _fill(url, folder, asked.rows // MINUTES_OF_JOB)
    place = folder / "archive"
    with archiving(url, folder, place), serving(url, folder) as (_, port, key):
        began = time.monotonic()
        with ThreadPoolExecutor(WRITERS) as threads:
            every_s = WRITERS * asked.lines / asked.per_s
            ends = began + asked.minutes * 60
            send = partial(_write, port, key, asked.lines, every_s, ends)
            starts = [began + n * every_s / WRITERS for n in range(WRITERS)]
            writers = [threads.submit(send, n, first) for n, first in enumerate(starts)]
            took = sorted(one for writer in writers for one in writer.result())
        seconds = time.monotonic() - began
        manifest = read_manifest(Folder(place), MONTH)
    p99_s = took[min(len(took) - 1, len(took) * 99 // 100)]
    per_s = len(took) * asked.lines / seconds
    archived = "was archived before the end" if manifest else "was being archived all the time"
    load = f"load {os.getloadavg()[0]:.1f}"
    print(f"{asked.database}: {len(took)} uploads of {asked.lines} in {seconds:.0f} s, {load}")
    print(f"  the month of {rows} intervals {archived}")
    print(f"  intervals/s {per_s:8.0f}    {per_s / asked.per_s:.3f} of {asked.per_s:g}")
    print(f"  p99         {p99_s:8.3f} s  {p99_s / P99_MOST_S:.3f} of {P99_MOST_S:g} s")
    print(f"  p50 {took[len(took) // 2]:.3f} s, slowest {took[-1]:.3f} s")
    held = per_s >= HELD_LEAST * asked.per_s and p99_s <= P99_MOST_S and manifest is None
    return 0 if held else 1


@contextmanager
def archiving(url: str, folder: Path, place: Path) -> Iterator[None]:
    """Have `gramwatt scheduler` archive the ended months, from before this is entered."""
    environ = {**os.environ, "GRAMWATT_HOME": str(folder), "GRAMWATT_DATABASE_URL": url}
    environ["GRAMWATT_ARCHIVE_TO"] = str(place)
    command = ["nice", sys.executable, "-m", "gramwatt", "scheduler"]
    with (folder / "scheduler.log").open("w+") as log:
        process = subprocess.Popen(command, env=environ, stderr=log)
        try:
            until = time.monotonic() + STARTS_S
            while not (place / STAGING / "rows.duckdb").exists():
                if time.monotonic() > until or process.poll() is not None:
                    raise SystemExit(f"nothing is archived:\n{Path(log.name).read_text()}")
                time.sleep(0.1)
            yield
        finally:
            process.kill()
            process.wait()


def _fill(url: str, folder: Path, jobs: int) -> int:
    """Store so many ended jobs of one device; return how many intervals they have."""
    service = Service.open(ServiceConfig(home=folder, database_url=url))
    upgrade(service.store)
    # Of no job yet, so that none waits for it and the month is complete.
    rescore_on_new_factors(service)
    for number in range(PROJECTS):
        store_job(service, number, MINUTES_OF_JOB, devices=1)
    first = 1 + PROJECTS
    copies = (Clone(key, f"J{key}", f"job-{key % PROJECTS}", 0) for key in range(first, jobs + 1))
    copy_jobs(service.store, copies)
    service.store.close()
    return jobs * MINUTES_OF_JOB


def _write(
    port: int, key: str, size: int, every_s: float, ends: float, number: int, first: float
) -> list[float]:
    """Send uploads as they are due; return how long after that each was answered [s]."""
    headers = {"Content-Type": "application/x-ndjson", "Authorization": f"Bearer {key}"}
    connection, took, due = HTTPConnection("127.0.0.1", port, timeout=120), [], first
    for job_id, body in _bodies(number, size):
        if max(due, time.monotonic()) >= ends:
            break
        time.sleep(max(0.0, due - time.monotonic()))
        connection.request("POST", f"/v1/jobs/{job_id}/records", body, headers)
        answer = connection.getresponse()
        said = answer.read()
        if answer.status != 200 or json.loads(said)["accepted"] < size:
            raise SystemExit(f"{answer.status}: {said[:300]!r}")
        took.append(time.monotonic() - due)
        due += every_s
    connection.close()
    return took


def _bodies(number: int, size: int) -> Iterator[tuple[str, bytes]]:
    """Yield uploads of one job after the other, each of ten uploads."""
    for job in range(1_000_000):
        job_id = f"live-{number}-{job}"
        for body in uploads(job_id, 10 * size, size):
            yield job_id, body


if __name__ == "__main__":
    sys.exit(main())
