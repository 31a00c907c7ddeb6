"""Jobs of every sort for the pages: many, hostile, running, failed, of several nodes, unplaced."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from gramwatt.sci.records.records import AnyRecord
from tests.journals import H100, MINUTE, START, Writer, journal

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)> \"'> {{7*7}} \u202eabc"
UNBROKEN = "a" * 200
LONG_ID = "x" * 128
CLUSTER = "cluster"
MODEL = "org/digits"
BUDGET_KG = 10.0
"""Of the project of `CLUSTER`, every month."""
MANY = 51
"""Enough jobs to need a second page, which starts after 50."""


def jobs(now: datetime) -> Iterator[list[AnyRecord]]:
    """The journals, each of one job, oldest first; the running one started at `now`."""
    for number in range(MANY):
        start = START - timedelta(days=40) + number * timedelta(hours=1)
        yield journal(f"many-{number:02}", minutes=1, start=start, project="many", name="sweep")
    yield cluster()
    yield journal("no-zone", start=START + 1 * MINUTE, name="unplaced", zone=None)
    yield journal("failed", start=START + 2 * MINUTE, name="broken", end_state="failed")
    of_model = {"model_id": MODEL, "end_state": "killed"}
    yield journal("killed", start=START + 3 * MINUTE, name="stopped", **of_model)
    yield _uncounted("uncounted")
    yield journal(
        "hostile", start=START + 5 * MINUTE, name=SCRIPT, project="a&b=c#d", tags={SCRIPT: SCRIPT}
    )
    yield journal(
        LONG_ID, start=START + 6 * MINUTE, name=UNBROKEN, project=UNBROKEN, tags={"run": UNBROKEN}
    )
    yield journal("running", start=now - 5 * MINUTE, name="at work", end_state=None)


def cluster() -> list[AnyRecord]:
    """One job of two nodes with eight GPUs and a CPU each, for an hour, in three units."""
    about: dict[str, Any] = {
        "name": "pretrain",
        "project": "language models",
        "units": ("image", "token", "epoch"),
        "pue": 1.2,
        "tags": {"team": "blue", "commit": "0123456789abcdef0123456789abcdef01234567"},
        "framework": "pytorch",
        "precision": "bf16",
    }
    gpu = {**H100, "meter": "nvml-counter", "memory_b": 80 * 2.0**30}
    records: list[AnyRecord] = []
    for node in ("n-0a1b2c3d4e5f", "n-1a2b3c4d5e6f"):
        name = f"w-{node}"
        records += journal(CLUSTER, node=node, writer=name, minutes=60, **about)
        writer = Writer(name, node, CLUSTER, t0=START, first_seq=len(records) + 1)
        for index in range(1, 8):
            device_id = f"GPU-{node}-00000000-0000-4000-8000-{index:012d}"
            records.append(writer.device(device_id, **gpu))
            records.append(writer.interval(0, 3600, 3600 * 500.0, device_id, utilisation_mean=0.9))
    return records


def _uncounted(job_id: str) -> list[AnyRecord]:
    """A job that declared a unit and never counted it."""
    records = journal(job_id, start=START + 4 * MINUTE, name="uncounted", units=("token",))
    return [record for record in records if record.TYPE != "count"]
