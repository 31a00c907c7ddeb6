"""The same with real processes: `gramwatt serve` and PostgreSQL are killed while writers send."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from math import fsum
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from gramwatt.sci.records.records import IntervalRecord
from tests.journals import body, journal
from tests.service.processes import eventually, get, send, serving, start_postgres

pytestmark = pytest.mark.long

MINUTES = 400
LINES_AT_ONCE = 4


@pytest.fixture
def postgres():
    """A PostgreSQL that this test may kill, which does not lie in pytest's folders."""
    folder = Path(tempfile.mkdtemp(prefix="gramwatt-postgres-"))
    server = start_postgres(folder / "data")
    yield server
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Sender:
    """Sends a job's lines in small batches, each again until it is acknowledged."""

    address: str
    acknowledged: int = 0
    failed: int = 0

    def send_all(self, job_id: str) -> None:
        """Send one job."""
        records = journal(job_id, node=f"n-{job_id}", minutes=MINUTES)
        deadline = time.monotonic() + 240
        for at in range(0, len(records), LINES_AT_ONCE):
            batch = body(records[at : at + LINES_AT_ONCE])
            while True:
                assert time.monotonic() < deadline, "no server answered"
                try:
                    assert send(self.address, job_id, batch)["rejected"] == []
                    self.acknowledged += 1
                    break
                except (OSError, HTTPException):  # nobody is there, or the database is away
                    self.failed += 1
                    time.sleep(0.1)

    def has_sent(self, batches: int) -> None:
        """Wait until so many more batches are acknowledged."""
        wanted = self.acknowledged + batches
        eventually(lambda: self.acknowledged >= wanted, 60)


def is_alive(pid: str) -> bool:
    """Whether a process runs; one that has ended and was not collected does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def kill_database(server: Any) -> None:
    """Kill PostgreSQL as a crash would, and start it over the same files."""
    pid = server.get_pid()
    command = ["ps", "-o", "pid=", "--ppid", str(pid)]
    listed = subprocess.run(command, capture_output=True, text=True)
    os.kill(pid, signal.SIGKILL)
    # Its children end when they notice; until then they hold its memory.
    eventually(lambda: not any(map(is_alive, listed.stdout.split())), 60)
    # Where nobody collects dead processes, its number would seem to live.
    for left in (server.pgdata / "postmaster.pid", *server.pgdata.glob(".s.PGSQL.*")):
        left.unlink()
    server.ensure_postgres_running()


def test_kills_of_server_and_database_lose_and_double_nothing(postgres, tmp_path):
    settings = {"GRAMWATT_DATABASE_URL": postgres.get_uri()}
    jobs = [f"job-{number}" for number in range(3)]
    with ThreadPoolExecutor(len(jobs)) as threads:
        with serving(tmp_path, **settings) as (process, address):
            sender = Sender(address)
            work = [threads.submit(sender.send_all, job_id) for job_id in jobs]
            sender.has_sent(20)
            process.popen.kill()
        with serving(tmp_path, **settings) as (_, address):
            sender.address = address
            sender.has_sent(20)
            kill_database(postgres)
            for one in work:
                one.result(300)
            assert sender.failed
            for job_id in jobs:
                check(address, job_id)


def check(address: str, job_id: str) -> None:
    """Every interval of a job stands once, and its energy is their sum."""
    written = [
        record
        for record in journal(job_id, node=f"n-{job_id}", minutes=MINUTES)
        if isinstance(record, IntervalRecord)
    ]
    assert len(written) == MINUTES
    found = eventually(lambda: answer(f"{address}/v1/jobs/{job_id}/intervals?limit=500"), 60)
    shown = found["intervals"]
    assert [row["energy_j"] for row in shown] == [record.energy_j for record in written]
    head = eventually(lambda: ended(address, job_id), 60)
    joules = fsum(record.energy_j for record in written)
    assert head["energy_kwh"]["value"] * 3.6e6 == pytest.approx(joules, rel=1e-9)
    assert (head["state"], head["sci"][0]["count"]) == ("completed", 10.0 * MINUTES)


def ended(address: str, job_id: str) -> Any:
    """The head of a job that has its score, else nothing."""
    head = answer(f"{address}/v1/jobs/{job_id}")
    return head if head and head["revision"] else None


def answer(address: str) -> Any:
    """What the server answers, nothing when it asks to come again later."""
    try:
        return get(address)
    except HTTPError as error:
        error.close()
        if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
            raise
        return None
