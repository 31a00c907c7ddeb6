"""`gramwatt run --pause-above`: pause a command in hours of high intensity, and resume it in time.

The command is paused where the zone's intensity over time is known and above the limit; never past
the moment from which it needs all time until the deadline. Its energy while it is paused is
measured, and stands in windows named "paused" of the job.
"""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gramwatt.collectors.cli.exit_codes import NotStarted
from gramwatt.collectors.cli.run.greenest import LIMIT_S, WaitOptions, known_zone, usual_hours
from gramwatt.collectors.cli.run.processes import PausableGroup
from gramwatt.collectors.cli.run.questions import Document, NoAnswer, Questions
from gramwatt.collectors.common import files
from gramwatt.collectors.common.background import in_background
from gramwatt.collectors.tracking.client import Client
from gramwatt.collectors.tracking.messages import print_message

FOLDER = "pauses"
"""Of the home: what is to be known after this process was killed."""
WINDOW = "paused"
"""The name of the windows that hold what the job used while it was paused."""
ASKED_EVERY_S = 900.0
AHEAD = timedelta(days=1)
"""How far the values that are asked for reach: as long as nobody answers, they are used."""
LONGEST_S = 86_400.0
"""All pauses of a job without a deadline [s]."""
MIN_RUN_S = 300.0
"""How long a job runs between two pauses at least [s]: no grid signal is finer."""
LOOK_S = 1.0
OLDEST = timedelta(hours=1)
"""Where nothing covers the present, a value that ended no longer ago stands for it."""


@dataclass(frozen=True, slots=True)
class Value:
    """Intensity [gCO2e/kWh] of a zone over [start, end)."""

    start: datetime
    end: datetime
    g_per_kwh: float


@dataclass(frozen=True, slots=True)
class Limits:
    """Above which intensity [gCO2e/kWh] a job is paused, and until when it must be done.

    `hours` is its expected length [h], known where there is a deadline.
    """

    above: float
    deadline: datetime | None = None
    hours: float = 0.0

    def latest_resume(self, now: datetime, ran_s: float, paused_s: float) -> datetime:
        """Return when a job that ran and was paused for so long must be resumed at the latest."""
        if self.deadline is None:
            return now + timedelta(seconds=LONGEST_S - paused_s)
        return self.deadline - timedelta(seconds=max(0.0, self.hours * 3600 - ran_s))


class IntensityCache:
    """A zone's intensity now and in the coming day, asked for again in the background."""

    def __init__(self, questions: Questions, zone: str) -> None:
        self._questions, self.zone = questions, zone
        self._values: list[Value] = []
        self._asked_at = time.monotonic()

    def ask(self) -> None:
        """Get the values; raises NoAnswer where there is none over time."""
        now = datetime.now(UTC)
        answer = self._questions.intensity(self.zone, now - OLDEST, now + AHEAD, LIMIT_S)
        try:
            found = _values(answer)
        except (KeyError, TypeError, ValueError) as error:
            raise NoAnswer(f"the answer cannot be read ({type(error).__name__})") from None
        if not any(value.end > now - OLDEST for value in found):
            text = f"the intensity of {self.zone} over time is not known, only its annual value"
            raise NoAnswer(text)
        self._values = found

    def at(self, moment: datetime) -> float | None:
        """Return the intensity at a moment [gCO2e/kWh]; None where it is not known."""
        if time.monotonic() - self._asked_at >= ASKED_EVERY_S:
            self._asked_at = time.monotonic()
            in_background(self._ask_quietly)
        for value in self._values:
            if value.start <= moment < value.end:
                return value.g_per_kwh
        ended = [value for value in self._values if moment - OLDEST <= value.end <= moment]
        return max(ended, key=lambda value: value.end).g_per_kwh if ended else None

    def _ask_quietly(self) -> None:
        try:
            self.ask()
        except NoAnswer as error:  # what is known of the coming day still counts
            print_message(f"--pause-above: {error}")


def _values(answer: Document) -> list[Value]:
    """Return what was stored over time, then what is expected.

    Annual values say nothing about hours.
    """
    rows = [*answer["points"], *answer["forecast"]]
    return [
        Value(
            datetime.fromisoformat(row["start"]),
            datetime.fromisoformat(row["end"]),
            float(row["intensity_g_per_kwh"]["value"]),
        )
        for row in rows
        if row["quality"] not in ("annual", "world")
    ]


class PauseRecord:
    """The deadline and the pauses [s] of a job, for a start after this process was killed.

    `12h` then still means 12 hours after the first start.
    """

    def __init__(self, home: Path, job_id: str) -> None:
        self._path = home / FOLDER / f"{job_id}.json"

    def recall(self, rule: Limits) -> tuple[Limits, float]:
        """Return the limits with the first start's deadline, and the length of all pauses [s]."""
        try:
            kept = json.loads(files.text_of(self._path) or "{}")
            deadline = kept.get("deadline")
            if deadline and rule.deadline:
                first = datetime.fromisoformat(deadline)
                rule = replace(rule, deadline=min(first, rule.deadline))
            return rule, float(kept.get("paused_s", 0.0))
        except (AttributeError, TypeError, ValueError):
            return rule, 0.0

    def keep(self, rule: Limits, paused_s: float) -> None:
        """Note both; a home that cannot be written takes no note."""
        deadline = rule.deadline.isoformat() if rule.deadline else None
        with suppress(OSError):
            files.folder(self._path.parent)
            files.replace_text(self._path, json.dumps({"deadline": deadline, "paused_s": paused_s}))

    def forget(self) -> None:
        """Remove the record: the job has ended."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


class Pauses:
    """Pauses and resumes one command; `measure` calls it while it waits for the command's end."""

    def __init__(self, questions: Questions, rule: Limits, job_id: str) -> None:
        """Ask for the zone's intensity; raises NoAnswer where nothing over time is known."""
        self._record = PauseRecord(questions.config.home, job_id)
        self._rule, self._paused_s = self._record.recall(rule)
        self._intensity = IntensityCache(questions, known_zone(questions.config))
        self._group = PausableGroup()
        self._client: Client
        self._began = self._changed = 0.0
        self._earlier_s = 0.0
        self._paused_ns: int | None = None
        self._released = False
        self._intensity.ask()
        if os.environ.get("SLURM_JOB_ID"):
            print_message("--pause-above: a paused job keeps its Slurm allocation")

    def environment(self) -> dict[str, str]:
        """Return the variables by which trackers with callbacks learn of a pause."""
        return self._group.environment()

    def begin(self, pid: int, client: Client) -> None:
        """Take over the command `pid`, the leader of its own process group."""
        self._client = client
        self._began = time.monotonic()
        self._changed = self._began - MIN_RUN_S
        self._earlier_s = self._paused_s
        self._record.keep(self._rule, self._paused_s)
        self._group.begin(pid)

    def step(self) -> float:
        """Pause or resume the command as is due; returns after how long to look again [s]."""
        now = datetime.now(UTC)
        running = self._paused_ns is None
        paused_s = self._paused_s + (0.0 if running else time.monotonic() - self._changed)
        ran_s = time.monotonic() - self._began - (paused_s - self._earlier_s)
        latest = self._rule.latest_resume(now, ran_s, paused_s)
        value = self._intensity.at(now)
        high = value is not None and value > self._rule.above and now < latest
        if running and high and time.monotonic() - self._changed >= MIN_RUN_S:
            self._pause(value or 0.0, latest)
        elif not high and not running:
            self._resume(self._why(value, now >= latest))
        elif not high:
            self._group.withdraw()
        return LOOK_S

    def forward(self, number: int) -> None:
        """Pass a signal on to the command's group, which gets it even if it is paused."""
        if number == signal.SIGTSTP:
            self._suspend()
            return
        self._group.send(number)
        if self._paused_ns is not None:
            self._resume("it was sent a signal")
        if number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            self._released = True

    def end(self) -> None:
        """Close an open pause: the command has ended."""
        if self._paused_ns is not None:
            self._resume("the command has ended")
        self._group.end()
        self._record.forget()

    def _pause(self, value: float, latest: datetime) -> None:
        if self._released or not self._group.pause():
            return
        self._changed, self._paused_ns = time.monotonic(), time.monotonic_ns()
        self._client.enter_window(WINDOW, self._paused_ns)
        print_message(
            f"paused: {value:.0f} gCO2e/kWh in {self._intensity.zone} is above "
            f"{self._rule.above:g}; resumes at {latest:%Y-%m-%d %H:%M:%S} UTC at the latest"
        )

    def _resume(self, why: str) -> None:
        if self._paused_ns is None:
            return
        self._group.resume()
        start_ns, self._paused_ns = self._paused_ns, None
        length_s = time.monotonic() - self._changed
        self._paused_s += length_s
        self._changed = time.monotonic()
        self._record.keep(self._rule, self._paused_s)
        self._client.leave_window(WINDOW, start_ns, {})
        print_message(f"resumed after a pause of {_length(length_s)}: {why}")

    def _suspend(self) -> None:
        """Stop the command and this process for a Ctrl-Z, until a shell continues it."""
        self._group.send(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        if self._paused_ns is None:
            self._group.send(signal.SIGCONT)

    def _why(self, value: float | None, must: bool) -> str:
        if must:
            return (
                "it needs the time until the deadline"
                if self._rule.deadline
                else ("its pauses have come to 24 h")
            )
        if value is None:
            return f"the intensity of {self._intensity.zone} is not known any more"
        return f"{value:.0f} gCO2e/kWh in {self._intensity.zone}"


def _length(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def pauses_of(
    questions: Questions, options: WaitOptions, name: str, job_id: str, strict: bool
) -> Pauses | None:
    """Return what pauses the command; None, and a line that says so, where nothing can.

    Raises UsageError, and with `strict` NotStarted for an intensity that is not known.
    """
    if options.pause_above is None:
        return None
    try:
        rule = Limits(options.pause_above)
        if options.deadline:
            ends = time.monotonic() + LIMIT_S
            hours = options.hours or usual_hours(questions, name, ends)
            rule = Limits(options.pause_above, options.deadline, hours)
        return Pauses(questions, rule, job_id)
    except NoAnswer as error:
        if strict:
            text = f"--pause-above: {error}; the command is not started (--strict)"
            raise NotStarted(text) from None
        print_message(f"--pause-above: {error}; the command is not paused")
        return None
