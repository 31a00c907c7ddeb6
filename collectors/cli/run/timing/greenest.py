"""`gramwatt run --when-greenest`: ask for a plan, and wait for its window to start the command.

A plan that is not known in time, or not reliable, never keeps a command from starting at once. The
job begins when the command does: waiting is no part of its duration or energy.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any
from urllib.parse import urlencode

from gramwatt.collectors.cli.run.measure import UsageError
from gramwatt.collectors.cli.run.timing.queries import NoAnswer, ask_server, ask_store
from gramwatt.collectors.cli.run.timing.waiting import wait_until
from gramwatt.collectors.cli.times import moment
from gramwatt.collectors.client.messages import print_message
from gramwatt.collectors.common.config import Config

LIMIT_S, STORE_LIMIT_S = 10.0, 60.0
"""How long all answers of a server, or of this machine's store, may take together [s]: the store
answers through a command, which takes long to start on a busy machine."""
NEWEST = 20
"""Earlier runs whose median duration stands for that of the next."""
SOON = timedelta(seconds=1)
"""A window that begins so soon has begun."""
NEEDS_HOURS = "say how long it takes: --expected-hours"


class NoWaiting(Exception):
    """The command starts at once; the text says why."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user gave: by when the job must be done, and its length [h] if it is known."""

    deadline: datetime
    hours: float | None


@dataclass(frozen=True, slots=True)
class Window:
    """When a plan has the job run, and what that is in words."""

    start: datetime
    text: str


def wish(deadline: str | None, hours: float | None) -> Wish:
    """The checked arguments; raises UsageError."""
    from gramwatt.sci.base.request_fields import Moment

    if deadline is None:
        raise UsageError("--when-greenest needs a time by which the job is done: --deadline 12h")
    try:
        until = Moment().check(moment(deadline))
    except ValueError:
        text = "write 90m, 12h, 2d or 2026-05-01T08:00Z"
        raise UsageError(f"--deadline {deadline!r}: {text}") from None
    if until <= datetime.now(UTC):
        raise UsageError(f"--deadline {deadline!r} is over")
    if hours is not None and not 0 < hours <= 8760:
        raise UsageError(f"--expected-hours {hours:g}: a job takes more than 0 and at most 8760 h")
    return Wish(until, hours)


def wait_for_greenest(config: Config, name: str, job_id: str, wished: Wish) -> dict[str, str]:
    """Wait for the window of the job's plan; returns tags that record it, none without waiting.

    Raises UsageError where the job's length is not known or a Slurm allocation would be held, and
    Left where the waiting was ended.
    """
    try:
        window = _window(config, name, job_id, wished)
    except NoWaiting as error:
        print_message(f"{error}; the command starts at once")
        return {}
    if os.environ.get("SLURM_JOB_ID"):
        begin = f"{window.start.astimezone():%Y-%m-%dT%H:%M:%S}"
        raise UsageError(
            f"not started: waiting would hold this Slurm allocation. {window.text}; leave out "
            f"--when-greenest and submit with: sbatch --begin={begin}"
        )
    began = time.time()
    wait_until(window.start, f"waiting: {window.text}")
    planned = f"{window.start:%Y-%m-%dT%H:%M:%SZ}"
    return {
        "planned_start": planned,
        "waited_s": f"{max(0.0, time.time() - began):.0f}",
        "deadline": f"{wished.deadline:%Y-%m-%dT%H:%M:%SZ}",
    }


def _window(config: Config, name: str, job_id: str, wished: Wish) -> Window:
    """The window of a reliable plan that is still to come; raises NoWaiting and UsageError."""
    ends = time.monotonic() + (LIMIT_S if config.server else STORE_LIMIT_S)
    try:
        zone = known_zone(config)
        hours = wished.hours or usual_hours(config, name, ends)
        if hours is None:
            raise UsageError(f"no run of {name!r} in {config.project!r} yet; {NEEDS_HOURS}")
        latest = wished.deadline - timedelta(hours=hours)
        if latest <= datetime.now(UTC):
            raise NoWaiting(f"no time to wait: {hours:.3g} h end after the deadline")
        deadline = wished.deadline.isoformat()
        request = {"hours": hours, "zone": zone, "deadline": deadline, "job_id": job_id}
        return _read(_ask(config, "/v1/plans", ["plan", "--input", "-"], ends, request), latest)
    except (UsageError, NoWaiting):
        raise
    except NoAnswer as error:
        raise NoWaiting(f"no plan: {error}") from None
    except Exception as error:  # an answer of another form
        why = f"the answer cannot be read ({type(error).__name__})"
        raise NoWaiting(f"no plan: {why}") from None


def known_zone(config: Config) -> str:
    """The grid zone of a job; raises NoAnswer where none is known."""
    from gramwatt.collectors.common.catalogs import user_catalog

    if config.zone is None and config.region is None:
        raise NoAnswer("the grid zone is not known; give --zone")
    return config.zone or user_catalog(config).region(str(config.region)).zone


def usual_hours(config: Config, name: str, ends: float) -> float | None:
    """The median length [h] of the newest completed runs of this name; None without any.

    Asks until `ends` on the monotonic clock [s]; raises NoAnswer.
    """
    only = {"project": config.project, "name": name, "state": "completed", "limit": str(NEWEST)}
    options = [part for key, value in only.items() for part in (f"--{key}", value)]
    try:
        jobs = _ask(config, f"/v1/jobs?{urlencode(only)}", ["jobs", *options], ends)["jobs"]
    except NoAnswer as error:
        raise NoAnswer(f"{error}; {NEEDS_HOURS}") from None
    lengths = [float(job["duration_s"]) for job in jobs if job["duration_s"]]
    return median(lengths) / 3600 if lengths else None


def _ask(
    config: Config,
    path: str,
    command: list[str],
    ends: float,
    request: dict[str, Any] | None = None,
) -> dict[str, Any]:
    limit_s = max(0.1, ends - time.monotonic())
    if config.server:
        return ask_server(config, path, limit_s, request)
    return ask_store(config, [*command, "--json"], limit_s, request)


def _read(plan: dict[str, Any], latest: datetime) -> Window:
    from gramwatt.sci.base import formatting

    if "plan" not in plan:
        raise NoAnswer(str(plan["detail"])[:300])
    slot, saving = plan["plan"][0], plan["saving_ratio"]
    start, end = (datetime.fromisoformat(slot[name]) for name in ("start", "end"))
    if plan["method"] != "annual" and min(start, latest) <= datetime.now(UTC) + SOON:
        raise NoWaiting("now is as green as any time until the deadline")
    if not plan["reliable"]:
        raise NoWaiting(f"waiting saves nothing reliable: {_reason(plan)}")
    low, value, high = (round(100 * saving[name]) for name in ("low", "value", "high"))
    there, here = (
        formatting.plain(formatting.value_text(plan[name]))
        for name in ("intensity_g_per_kwh", "now_intensity_g_per_kwh")
    )
    text = (
        f"{start:%Y-%m-%d %H:%M} to {_end_text(start, end)} UTC in {slot['zone']} saves {value} % "
        f"({low} to {high} %) against starting at once: {there} instead of {here}"
    )
    return Window(min(start, latest), text)


def _end_text(start: datetime, end: datetime) -> str:
    return f"{end:%H:%M}" if start.date() == end.date() else f"{end:%Y-%m-%d %H:%M}"


def _reason(plan: dict[str, Any]) -> str:
    found = [row["message"] for row in plan["notices"] if row["code"] == "no-reliable-gain"]
    return str(found[0])[:300]
