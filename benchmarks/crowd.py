"""What others wait while one key asks for many PDFs, and whether memory of the server levels.

    python -m benchmarks.crowd [--jobs 2000] [--seconds 60] [--server waitress] [--minutes 30]

A store has a month of `--jobs` jobs. Twenty readers with one key ask for its PDF, again and again,
and when they are told to wait, as long as the answer says, a second at most. Beside them one each
asks for `/healthz`, uploads a job and lists jobs. Printed are the longest waits, and their ratio to
the limits: p99 of `/healthz` 0.5 s, the slowest upload 2 s, the slowest list 1 s. With `--minutes`
a mixed load follows for so long: the memory of the server's processes is printed as it goes, and
the ratio of its last quarter to the one before. Exit code 1 where a limit is missed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from threading import Event

from benchmarks.scale import MONTH, fill, records
from gramwatt.collectors.settings.keys import ensure_home_key
from gramwatt.sci.records.records import encode
from gramwatt.service.access.keys import create_key
from gramwatt.service.config import ServiceConfig, sqlite_url
from gramwatt.service.container import Service
from gramwatt.service.months.cache import keep_sums
from gramwatt.service.store.migrate import upgrade

READERS = 20
LIMITS_S = {"healthz, p99": 0.5, "upload": 2.0, "list": 1.0}
WARM_S = 5.0
GROWTH_MOST = 1.05
"""The ratio that the memory of the last quarter of a mixed load may have to the one before it."""
CLIENTS = 4
COMMANDS = {
    "waitress": ["-m", "gramwatt", "serve", "--port", "0"],
    "gunicorn": ["-m", "gunicorn", "--config", "deploy/gunicorn.conf.py"],
}


@dataclass(frozen=True)
class Server:
    """A server that listens: its process, its port, and a reader's key."""

    pid: int
    port: int
    key: str
    admin: str

    def ask(self, path: str, body: bytes | None = None, key: str = "") -> tuple[int, float, str]:
        """The status of an answer, how long it took [s], and when to ask again."""
        headers = {"Authorization": f"Bearer {key or self.admin}"}
        if body is not None:
            headers["Content-Type"] = "application/x-ndjson"
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        began = time.perf_counter()
        connection.request("GET" if body is None else "POST", path, body, headers)
        answer = connection.getresponse()
        answer.read()
        took_s = time.perf_counter() - began
        connection.close()
        return answer.status, took_s, answer.headers.get("Retry-After", "0")

    def resident_mib(self) -> float:
        """The memory of the processes that answer [MiB]; not of those that render."""
        return sum(_resident_b(pid) for pid in _family(self.pid)) / 2**20


def _family(pid: int) -> Iterator[int]:
    """The process and its children of the same program, as gunicorn's workers are."""
    yield pid
    mine = Path(f"/proc/{pid}/cmdline").read_bytes()
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            if Path(f"/proc/{child}/cmdline").read_bytes() == mine:
                yield int(child)


def _resident_b(pid: int) -> int:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGESIZE")


@contextmanager
def serving(kind: str, home: Path) -> Iterator[Server]:
    """A server of a kind over the store in a folder."""
    environ = {**os.environ, "GRAMWATT_HOME": str(home), "GRAMWATT_BIND": "127.0.0.1:0"}
    admin = ensure_home_key(home)
    service = Service.open(ServiceConfig(home=home, database_url=_database(home)))
    key = create_key(service, f"reader-{kind}", "read").key
    service.store.close()
    with (home / f"log-{kind}").open("w") as log:
        process = subprocess.Popen([sys.executable, *COMMANDS[kind]], env=environ, stderr=log)
        try:
            address = r"http://127\.0\.0\.1:(\d+)"
            while not (found := re.search(address, (home / f"log-{kind}").read_text())):
                if process.poll() is not None:
                    raise SystemExit((home / f"log-{kind}").read_text())
                time.sleep(0.1)
            server = Server(process.pid, int(found[1]), key, admin)
            while server.ask("/readyz")[0] != 200:
                time.sleep(0.1)
            yield server
        finally:
            process.terminate()
            process.wait()


def _database(home: Path) -> str:
    return sqlite_url(home / "gramwatt.db")


def _uploads(first: int) -> Iterator[tuple[str, bytes]]:
    """Jobs that nobody has uploaded yet, each with its lines."""
    start = datetime.now(UTC) - timedelta(hours=6)
    for number in range(first, first + 1_000_000):
        found = records(number, start)
        yield found[0].job_id, b"".join(encode(record).encode() + b"\n" for record in found)


def _repeat(over: Event, work: Callable[[], float], pause_s: float) -> list[float]:
    """Do the work until it is over; how long each took [s]."""
    took = []
    while not over.is_set():
        took.append(work())
        over.wait(pause_s)
    return took


def crowd(server: Server, seconds: float, first: int) -> dict[str, float]:
    """Return what others waited [s] while twenty readers asked for PDFs of the month."""
    over, made, refused = Event(), [0], [0]
    uploads = _uploads(first)

    def read() -> None:
        while not over.is_set():
            status, _, again_s = server.ask(f"/v1/reports/monthly/{MONTH}.pdf", key=server.key)
            if status not in (200, 503):
                raise SystemExit(f"a PDF was answered {status}")
            (made if status == 200 else refused)[0] += 1
            over.wait(min(1.0, float(again_s)))

    def upload() -> float:
        job_id, body = next(uploads)
        return server.ask(f"/v1/jobs/{job_id}/records", body)[1]

    with ThreadPoolExecutor(READERS + 3) as threads:
        readers = [threads.submit(read) for _ in range(READERS)]
        time.sleep(WARM_S)
        others = {
            "healthz": threads.submit(_repeat, over, lambda: server.ask("/healthz")[1], 0.05),
            "upload": threads.submit(_repeat, over, upload, 0.5),
            "list": threads.submit(_repeat, over, lambda: server.ask("/v1/jobs")[1], 0.2),
        }
        time.sleep(seconds)
        over.set()
        for reader in readers:
            reader.result()
        took = {name: sorted(other.result()) for name, other in others.items()}
    print(f"  {made[0]} PDFs, {refused[0]} told to wait; others asked: ", end="")
    print(", ".join(f"{len(times)} {name}" for name, times in took.items()))
    health = took["healthz"]
    p99 = health[min(len(health) - 1, len(health) * 99 // 100)]
    return {"healthz, p99": p99, "upload": took["upload"][-1], "list": took["list"][-1]}


def mixed(server: Server, minutes: float, first: int) -> float:
    """The ratio of the memory in the last quarter of a mixed load to that in the one before."""
    over, sizes = Event(), []
    paths = ["/", "/jobs", "/v1/jobs", f"/v1/reports/monthly/{MONTH}.pdf", "/metrics", "/months"]
    paths += [f"/v1/reports/monthly/{MONTH}", "/v1/projects", "/v1/jobs?q=run", "/models"]

    def load(number: int) -> None:
        uploads, turn = _uploads(first + number * 10_000_000), number
        while not over.is_set():
            job_id, body = next(uploads)
            for path, sent in (
                (f"/v1/jobs/{job_id}/records", body),
                (f"/jobs/{job_id}", None),
                (paths[turn % len(paths)], None),
            ):
                server.ask(path, sent)
            turn += 1
            over.wait(0.5)

    with ThreadPoolExecutor(CLIENTS) as threads:
        clients = [threads.submit(load, number) for number in range(CLIENTS)]
        for number in range(1, round(minutes * 2) + 1):
            time.sleep(30)
            sizes.append(server.resident_mib())
            print(f"  {number / 2:5.1f} min {sizes[-1]:7.1f} MiB", flush=True)
        over.set()
        for client in clients:
            client.result()
    quarter = len(sizes) // 4
    return median(sizes[-quarter:]) / median(sizes[-2 * quarter : -quarter])


def main() -> int:
    """Run the benchmark; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--server", choices=sorted(COMMANDS), action="append")
    parser.add_argument("--minutes", type=float, default=0, help="of a mixed load, at least 2")
    asked = parser.parse_args()
    missed = False
    with tempfile.TemporaryDirectory(prefix="gramwatt-crowd-") as folder:
        home = Path(folder)
        service = Service.open(ServiceConfig(home=home, database_url=_database(home)))
        upgrade(service.store)
        fill(service, 0, asked.jobs)
        keep_sums(service, MONTH)
        service.store.close()
        for number, kind in enumerate(asked.server or sorted(COMMANDS, reverse=True), start=1):
            first = number * 100_000_000
            with serving(kind, home) as server:
                print(f"{kind}, {READERS} readers of the PDF of {asked.jobs} jobs")
                for name, took_s in crowd(server, asked.seconds, first).items():
                    ratio = took_s / LIMITS_S[name]
                    missed |= ratio > 1
                    print(f"  {name:12} {took_s:6.3f} s  {ratio:5.2f} of {LIMITS_S[name]:g} s")
                if asked.minutes:
                    growth = mixed(server, asked.minutes, first + 50_000_000)
                    missed |= growth > GROWTH_MOST
                    print(f"  memory of the last quarter: {growth:.3f} of the one before")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
