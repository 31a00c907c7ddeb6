"""Running jobs that a server knows, out of the provisional scores that it makes of them."""

from __future__ import annotations

from datetime import datetime
from math import fsum
from typing import Any, cast
from urllib.parse import quote

import requests

from gramwatt.collectors.common.config import plain_address
from gramwatt.collectors.common.http import exchange, new_session
from gramwatt.collectors.journal.live import (
    RECENT,
    LiveJob,
    ServerError,
    carbon_now,
    mean_utilisation,
    power_now,
)
from gramwatt.sci.base.document import JobDoc, SeriesPoint
from gramwatt.sci.journal.records import parse_time

JOBS_MOST = 50
"""Running jobs that are shown, the newest: each is a request."""
TIMEOUT_S = 10.0


def server_jobs(server: str, key: str | None, now: datetime) -> list[LiveJob]:
    """Return the running jobs that the key may read, the newest first; raises ServerError."""
    with new_session(key) as session:
        page = _answer(session, server, f"/v1/jobs?state=running&limit={JOBS_MOST}")
        found = []
        for head in page["jobs"]:
            address = f"/v1/jobs/{quote(head['job_id'], safe='')}/report.json"
            document = _answer(session, server, address, missing_is_none=True)
            if document is not None:
                found.append(_live_job(cast(JobDoc, document), now))
    return found


def _answer(
    session: requests.Session, server: str, address: str, *, missing_is_none: bool = False
) -> Any:
    """Return the JSON of an answer; None, where that is allowed, for a job without a score."""
    shown = plain_address(server)
    try:
        answer = exchange(session, "GET", f"{server.rstrip('/')}{address}", TIMEOUT_S)
        if answer.ok:
            return answer.json()
    except (OSError, ValueError) as error:
        raise ServerError(f"{shown} does not answer: {type(error).__name__}") from None
    if missing_is_none and answer.status_code in (404, 409, 422):
        return None
    if answer.status_code in (401, 403):
        raise ServerError(f"{shown} needs a key of scope read: set GRAMWATT_API_KEY")
    raise ServerError(f"{shown} answered {answer.status_code}")


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
