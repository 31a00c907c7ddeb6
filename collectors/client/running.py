"""Running jobs that a server knows, out of the provisional scores that it makes of them."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from itertools import islice
from math import fsum
from typing import cast

from gramwatt.collectors.client.api import Client
from gramwatt.collectors.client.errors import (
    ApiError,
    ConflictError,
    InvalidError,
    NotAllowedError,
    NotFoundError,
)
from gramwatt.collectors.common.config import plain_address
from gramwatt.collectors.spool.live import (
    RECENT,
    LiveJob,
    carbon_now,
    mean_utilisation,
    power_now,
)
from gramwatt.sci.base.document import JobDoc, SeriesPoint
from gramwatt.sci.journal.records import parse_time

JOBS_MOST = 50
"""Running jobs that are shown, the newest: each is a request."""
TIMEOUT_S = 10.0


class ServerError(Exception):
    """A server that does not answer what runs; the message is a sentence for people."""


def server_jobs(server: str, key: str | None, now: datetime) -> list[LiveJob]:
    """Return the running jobs that the key may read, the newest first; raises ServerError."""
    shown = plain_address(server)
    found = []
    try:
        with Client(server, key or "", TIMEOUT_S) as client:
            for head in islice(client.jobs(state="running", limit=JOBS_MOST), JOBS_MOST):
                with suppress(NotFoundError, ConflictError, InvalidError):  # no score yet
                    found.append(_live_job(cast(JobDoc, client.report(head["job_id"])), now))
    except NotAllowedError:
        raise ServerError(f"{shown} needs a key of scope read: set GRAMWATT_API_KEY") from None
    except ApiError as error:
        what = f"answered {error.status}" if error.status else "does not answer"
        raise ServerError(f"{shown} {what}") from None
    return found


def _live_job(document: JobDoc, now: datetime) -> LiveJob:
    """Return the job by its newest step of time; work is the mean since it began."""
    newest: dict[str, SeriesPoint] = {}
    for point in document["series"]:
        newest[point["class"]] = point
    ends = [parse_time(point["end"]) for point in newest.values()]
    power_w, age = None, None
    if ends:
        last = max(ends)
        age = (now - last).total_seconds()
        fresh = [p for p in newest.values() if last - parse_time(p["end"]) <= RECENT]
        power_w = power_now(document, fsum(map(_watts, fresh)))
    row, duration_s = document["sci"][0], document["duration_s"]
    rate = row["count"] / duration_s if duration_s and row["unit"] != "job" else None
    return LiveJob(
        document["job_id"],
        document["name"],
        (now - parse_time(document["started_at"])).total_seconds(),
        age,
        power_w,
        carbon_now(document, power_w),
        row["unit"] if rate is not None else None,
        rate,
        mean_utilisation((name, point["utilisation"]) for name, point in newest.items()),
        document["conformance"] != "not-sci",
    )


def _watts(point: SeriesPoint) -> float:
    seconds = (parse_time(point["end"]) - parse_time(point["start"])).total_seconds()
    return point["energy_j"] / seconds if seconds > 0 else 0.0
