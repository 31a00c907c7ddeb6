"""When `gramwatt run` starts its command: its options, and the wait for the window of a plan.

A plan that is not known in time, or not reliable, never keeps a command from starting at once. The
job begins when the command does: waiting is no part of its duration or energy.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

from gramwatt.collectors.cli.exit_codes import UsageError
from gramwatt.collectors.cli.run.questions import NoAnswer, Questions
from gramwatt.collectors.cli.run.waiting import wait_until
from gramwatt.collectors.common.config import Config
from gramwatt.collectors.common.times import moment, second_text
from gramwatt.collectors.tracking.messages import print_message

LIMIT_S, STORE_LIMIT_S = 10.0, 60.0
"""How long all answers of a server, or of this machine's store, may take together [s]: the store
takes long to open on a busy machine."""
NEWEST = 20
"""Earlier runs whose median duration stands for that of the next."""
SOON = timedelta(seconds=1)
"""A window that begins so soon has begun."""


class StartNow(Exception):
    """The command starts at once; the text says why."""


@dataclass(frozen=True, slots=True)
class WaitOptions:
    """What the user asked of `--when-greenest`: by when to be done, and the expected length [h]."""

    deadline: datetime
    hours: float | None = None

    @classmethod
    def of(
        cls,
        when_greenest: bool = False,
        deadline: str | None = None,
        expected_hours: float | None = None,
    ) -> WaitOptions | None:
        """Return the checked options, None where none is given; raises UsageError."""
        if not when_greenest:
            if deadline is None and expected_hours is None:
                return None
            raise UsageError("--deadline and --expected-hours belong to --when-greenest")
        if deadline is None:
            text = "--when-greenest needs a time by which the job is done: --deadline 12h"
            raise UsageError(text)
        if expected_hours is not None and not 0 < expected_hours <= 8760:
            text = (
                f"--expected-hours {expected_hours:g}: a job takes more than 0 and at most 8760 h"
            )
            raise UsageError(text)
        return cls(_deadline(deadline), expected_hours)


def _deadline(text: str) -> datetime:
    from gramwatt.sci.base.request_fields import Moment

    try:
        until = Moment().check(moment(text))
    except ValueError:
        forms = "write 90m, 12h, 2d or 2026-05-01T08:00Z"
        raise UsageError(f"--deadline {text!r}: {forms}") from None
    if until <= datetime.now(UTC):
        raise UsageError(f"--deadline {text!r} is over")
    return until


def wait_for_greenest(
    questions: Questions, options: WaitOptions, name: str, job_id: str
) -> dict[str, str]:
    """Wait for the window of the job's plan; return tags that record it, none without waiting.

    Raises UsageError where the job's length is not known or a Slurm allocation would be held, and
    NotStarted where the waiting was cancelled.
    """
    try:
        start, text = _window(questions, options, name, job_id)
    except StartNow as error:
        print_message(f"{error}; the command starts at once")
        return {}
    if os.environ.get("SLURM_JOB_ID"):
        begin = f"{start.astimezone():%Y-%m-%dT%H:%M:%S}"
        raise UsageError(
            f"not started: waiting would hold this Slurm allocation. {text}; leave out "
            f"--when-greenest and submit with: sbatch --begin={begin}"
        )
    began = time.time()
    wait_until(start, f"waiting: {text}")
    return {
        "planned_start": second_text(start),
        "waited_s": f"{max(0.0, time.time() - began):.0f}",
    }


def _window(
    questions: Questions, options: WaitOptions, name: str, job_id: str
) -> tuple[datetime, str]:
    """Return the start of a reliable plan's window, still to come, and the window in words.

    Raises StartNow and UsageError.
    """
    ends = time.monotonic() + (LIMIT_S if questions.config.server else STORE_LIMIT_S)
    try:
        zone = _known_zone(questions.config)
        hours = options.hours or _usual_hours(questions, name, ends)
        latest = options.deadline - timedelta(hours=hours)
        if latest <= datetime.now(UTC):
            raise StartNow(f"no time to wait: {hours:.3g} h end after the deadline")
        until = options.deadline.isoformat()
        request = {"hours": hours, "zone": zone, "deadline": until, "job_id": job_id}
        return _read(questions.plan(request, _left_s(ends)), latest)
    except (UsageError, StartNow):
        raise
    except NoAnswer as error:
        raise StartNow(f"no plan: {error}") from None
    except Exception as error:  # an answer of another form
        why = f"the answer cannot be read ({type(error).__name__})"
        raise StartNow(f"no plan: {why}") from None


def _known_zone(config: Config) -> str:
    """Return the grid zone of a job; raises NoAnswer where none is known."""
    from gramwatt.collectors.common.catalogs import user_catalog
    from gramwatt.sci.base.errors import GramwattError

    if config.zone:
        return config.zone
    if not config.region:
        raise NoAnswer("the grid zone is not known; give --zone")
    try:
        return user_catalog(config).region(config.region).zone
    except GramwattError as error:
        raise NoAnswer(f"the grid zone is not known: {error.message}") from None


def _usual_hours(questions: Questions, name: str, ends: float) -> float:
    """Return the median length [h] of the newest completed runs of this name.

    Asks until `ends` on the monotonic clock [s]; raises NoAnswer, and UsageError without any run.
    """
    needs = "say how long it takes: --expected-hours"
    try:
        jobs = questions.usual_jobs(name, NEWEST, _left_s(ends))
    except NoAnswer as error:
        raise NoAnswer(f"{error}; {needs}") from None
    lengths = [float(job["duration_s"]) for job in jobs if job["duration_s"]]
    if not lengths:
        raise UsageError(f"no run of {name!r} in {questions.config.project!r} yet; {needs}")
    return median(lengths) / 3600


def _left_s(ends: float) -> float:
    return max(0.1, ends - time.monotonic())


def _read(plan: Mapping[str, Any], latest: datetime) -> tuple[datetime, str]:
    """Return the start and the words of a plan's window; raises StartNow."""
    from gramwatt.sci.base import formatting

    slot, saving = plan["plan"][0], plan["saving_ratio"]
    start, end = (datetime.fromisoformat(slot[name]) for name in ("start", "end"))
    if plan["method"] != "annual" and min(start, latest) <= datetime.now(UTC) + SOON:
        raise StartNow("now is as green as any time until the deadline")
    if not plan["reliable"]:
        found = [row["message"] for row in plan["notices"] if row["code"] == "no-reliable-gain"]
        raise StartNow(f"waiting saves nothing reliable: {str(found[0])[:300]}")
    low, value, high = (round(100 * saving[name]) for name in ("low", "value", "high"))
    there, here = (
        formatting.plain(formatting.value_text(plan[name]))
        for name in ("intensity_g_per_kwh", "now_intensity_g_per_kwh")
    )
    until = f"{end:%H:%M}" if start.date() == end.date() else f"{end:%Y-%m-%d %H:%M}"
    return min(start, latest), (
        f"{start:%Y-%m-%d %H:%M} to {until} UTC in {slot['zone']} saves {value} % "
        f"({low} to {high} %) against starting at once: {there} instead of {here}"
    )
