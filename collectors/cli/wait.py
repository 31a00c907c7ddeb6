"""Waiting before `gramwatt run` starts its command: whom to ask, for which hours, and the wait.

A plan that is not known in time, or does not advise to wait, never keeps a command from starting at
once. The job begins when the command does: waiting is no part of its duration or energy. It is in
sight of the user and open to signals.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from queue import Empty, SimpleQueue
from statistics import median
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct

from gramwatt.collectors.cli.exit_codes import SIGNAL_BASE, NotStarted, UsageError
from gramwatt.collectors.cli.options import moment
from gramwatt.collectors.settings import http
from gramwatt.collectors.settings.config import Config, plain_address
from gramwatt.collectors.settings.installation import LocalStore
from gramwatt.collectors.track.messages import print_message, write_stderr
from gramwatt.sci.figures.errors import GramwattError

Document = Mapping[str, Any]
LIMIT_S, STORE_LIMIT_S = 10.0, 60.0
"""How long all answers of a server, or of this machine's store, may take together [s]: the store
takes long to open on a busy machine."""
NEWEST = 20
"""The next run is taken to last as long as the median of so many earlier runs."""
SOON = timedelta(seconds=1)
"""A window that begins so soon has begun."""
COUNT_S, LONGEST_S = 1.0, 30.0
"""How long one sleep is at most [s]: with a countdown, and without one; the clock may be set, and a
machine that was suspended is to notice it."""
LISTEN_S = 0.2
CLEAR_LINE = "\r\x1b[K"
QUESTION = "start now, keep waiting, or leave? [s/w/L] "
Signals = SimpleQueue[int]


# Whom to ask


class NoAnswer(Exception):
    """There is no answer in time, or none that can be read; the text says why."""


class Questions(Struct, frozen=True):
    """What can be asked: the server of `config`, or else what `open_store` gives, None without one.

    Every method takes the time that the answer may take [s], and raises NoAnswer.
    """

    config: Config
    open_store: Callable[[], LocalStore | None]

    def plan(self, request: Document, limit_s: float) -> Document:
        """Return the plan for a request, as of POST /v1/plans."""
        return self._ask(
            limit_s, lambda store: store.plan(self.config.home, request), "/v1/plans", request
        )

    def usual_jobs(self, name: str, most: int, limit_s: float) -> list[Document]:
        """Return the heads of the newest completed jobs of this name in the project."""
        project = self.config.project
        only = {"project": project, "name": name, "state": "completed", "limit": str(most)}
        answer = self._ask(
            limit_s,
            lambda store: {"jobs": store.newest_jobs(self.config.home, project, name, most)},
            f"/v1/jobs?{urlencode(only)}",
        )
        return list(answer["jobs"])

    def budget(self, limit_s: float) -> Document:
        """Return the project's budget as it stands, as of GET /v1/budgets/check."""
        project = self.config.project
        return self._ask(
            limit_s,
            lambda store: store.budget(self.config.home, project),
            f"/v1/budgets/check?{urlencode({'project': project})}",
        )

    def _ask(
        self,
        limit_s: float,
        of_store: Callable[[LocalStore], Document],
        path: str,
        request: Document | None = None,
    ) -> Document:
        if self.config.server:
            return _of_server(self.config, self.config.server, path, request, limit_s)
        store = self.open_store()
        if store is None:
            raise NoAnswer("the store could not be asked: it needs the extra `service`")
        try:
            return http.within(limit_s, lambda: of_store(store))
        except TimeoutError:
            raise NoAnswer(f"the store did not answer within {limit_s:.2g} s") from None
        except GramwattError as error:
            raise NoAnswer(error.message) from None
        except Exception as error:  # such as a home that cannot be written
            raise NoAnswer(f"the store could not be asked: {error}") from None


def _of_server(
    config: Config, server: str, path: str, request: Document | None, limit_s: float
) -> Document:
    """Return the JSON object at a path of the server; a `request` is posted as JSON."""
    from gramwatt.collectors.client.api import Client
    from gramwatt.collectors.client.errors import ApiError

    shown = plain_address(server)
    key = config.key_for(server) or ""  # none: not that of another server
    try:
        with Client(server, key, limit_s) as client:
            document = client.get(path) if request is None else client.plan(**request)
    except ApiError as error:
        if isinstance(error.__cause__, http.Unanswered):
            raise NoAnswer(f"{shown} {error.__cause__}") from None
        raise NoAnswer(f"{shown} could not be asked (it answers {error.status})") from None
    if not isinstance(document, dict):
        raise NoAnswer(f"{shown} could not be asked (its answer is not an object)")
    return document


# For which hours


class StartNow(Exception):
    """The command starts at once; the text says why."""


class WaitOptions(Struct, frozen=True):
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
    from gramwatt.sci.figures.checks import Moment, checked

    try:
        until: datetime = checked(Moment, moment(text))
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
        print_message(f"{error} The command starts at once.")
        return {}
    if os.environ.get("SLURM_JOB_ID"):
        begin = f"{start.astimezone():%Y-%m-%dT%H:%M:%S}"
        raise UsageError(
            f"not started: waiting would hold this Slurm allocation. {text} Leave out "
            f"--when-greenest and submit with: sbatch --begin={begin}"
        )
    began = time.time()
    wait_until(start, text)
    return {
        "planned_start": f"{start.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "waited_s": f"{max(0.0, time.time() - began):.0f}",
    }


def _window(
    questions: Questions, options: WaitOptions, name: str, job_id: str
) -> tuple[datetime, str]:
    """Return the start that a plan advises to wait for, still to come, and the advice in words.

    Raises StartNow and UsageError.
    """
    ends = time.monotonic() + (LIMIT_S if questions.config.server else STORE_LIMIT_S)
    try:
        zone = _known_zone(questions.config)
        hours = options.hours or _usual_hours(questions, name, ends)
        latest = options.deadline - timedelta(hours=hours)
        if latest <= datetime.now(UTC):
            raise StartNow(f"No time to wait: {hours:.3g} h end after the deadline.")
        until = options.deadline.isoformat()
        request = {"hours": hours, "zone": zone, "deadline": until, "job_id": job_id}
        return _read(questions.plan(request, _limit_s(ends)), latest)
    except (UsageError, StartNow):
        raise
    except NoAnswer as error:
        raise StartNow(f"No plan: {error}.") from None
    except Exception as error:  # an answer of another form
        why = f"the answer cannot be read ({type(error).__name__})"
        raise StartNow(f"No plan: {why}.") from None


def _known_zone(config: Config) -> str:
    """Return the grid zone of a job; raises NoAnswer where none is known."""
    from gramwatt.collectors.settings.catalogs import user_catalog
    from gramwatt.sci.figures.errors import GramwattError

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
        jobs = questions.usual_jobs(name, NEWEST, _limit_s(ends))
    except NoAnswer as error:
        raise NoAnswer(f"{error}; {needs}") from None
    lengths = [float(job["duration_s"]) for job in jobs if job["duration_s"]]
    if not lengths:
        raise UsageError(f"no run of {name!r} in {questions.config.project!r} yet; {needs}")
    return median(lengths) / 3600


def _limit_s(ends: float) -> float:
    return max(0.1, ends - time.monotonic())


def _read(plan: Mapping[str, Any], latest: datetime) -> tuple[datetime, str]:
    """Return the start and the words of a plan's advice to wait; raises StartNow."""
    from gramwatt.sci.figures import formatting

    summary = formatting.plain(str(plan["summary"])[:400])
    if plan["advice"] != "wait":
        raise StartNow(summary)
    start = min(datetime.fromisoformat(plan["plan"][0]["start"]), latest)
    if start <= datetime.now(UTC) + SOON:
        raise StartNow("The best start is now.")
    return start, summary


# The wait


def wait_until(start: datetime, why: str) -> None:
    """Print `why`, and wait until `start`, or less where the user says so; raises NotStarted.

    Standard error shows a countdown if it is a terminal. There Ctrl-C asks what to do.
    """
    counting = _is_terminal(sys.stderr)
    asking = counting and _is_terminal(sys.stdin)
    with _signals() as signals:
        print_message(why)  # who reads it may send a signal
        while (left_s := _left_s(start)) > 0:
            if counting:
                write_stderr(f"{CLEAR_LINE}gramwatt: starts in {_clock(left_s)} ")
            number = _next(signals, min(left_s, COUNT_S if counting else LONGEST_S))
            if number is None:
                continue
            if counting:
                write_stderr(CLEAR_LINE)
            if number != signal.SIGINT or not asking:
                raise _cancelled(number)
            if _starts_now(signals, start):
                return
        if counting:
            write_stderr(CLEAR_LINE)


@contextmanager
def _signals() -> Iterator[Signals]:
    """Collect SIGINT and SIGTERM meanwhile, unless they are ignored, as behind `nohup` and `&`."""
    signals: Signals = SimpleQueue()  # its put may be called in a signal handler
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = {n: signal.getsignal(n) for n in numbers if signal.getsignal(n) != signal.SIG_IGN}
    for number in handlers:
        signal.signal(number, lambda came, _frame: signals.put(came))
    try:
        yield signals
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if not signals.empty():  # it came at the last moment
        raise _cancelled(signals.get())


def _next(signals: Signals, limit_s: float) -> int | None:
    try:
        return signals.get(timeout=limit_s)
    except Empty:
        return None


def _starts_now(signals: Signals, start: datetime) -> bool:
    """Ask the user: True to start, also without an answer by `start`, False to keep waiting.

    Raises NotStarted.
    """
    write_stderr(f"gramwatt: {QUESTION}")
    while _left_s(start) > 0:
        if not signals.empty():
            write_stderr("\n")
            raise _cancelled(signals.get())
        if not select.select([sys.stdin], [], [], LISTEN_S)[0]:
            continue
        answer = sys.stdin.readline().strip().lower()
        if answer in ("", "l", "leave"):  # also at the end of the input
            raise _cancelled(signal.SIGINT)
        if answer in ("s", "start", "w", "wait"):
            return answer[0] == "s"
        write_stderr(f"gramwatt: {QUESTION}")
    write_stderr("\n")
    return True


def _left_s(start: datetime) -> float:
    return (start - datetime.now(UTC)).total_seconds()


def _clock(left_s: float) -> str:
    minutes, seconds = divmod(round(left_s), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


def _is_terminal(stream: object) -> bool:
    try:
        return bool(stream.isatty())  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):  # closed, or none
        return False


def _cancelled(number: int) -> NotStarted:
    return NotStarted("cancelled while waiting; the command was not started", SIGNAL_BASE + number)
