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
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote, urlencode

from gramwatt.collectors.cli.run.measure import UsageError
from gramwatt.collectors.cli.run.timing.greenest import LIMIT_S, Wish, known_zone, usual_hours
from gramwatt.collectors.cli.run.timing.processes import PausableGroup
from gramwatt.collectors.cli.run.timing.queries import NoAnswer, ask_server, ask_store
from gramwatt.collectors.client.client import Client
from gramwatt.collectors.client.messages import print_message
from gramwatt.collectors.common import files
from gramwatt.collectors.common.config import Config

FOLDER = "pauses"
"""Of the home: what is to be known after this process was killed."""
WINDOW = "paused"
"""The name of the windows that hold what the job used while it was paused."""
ASKED_EVERY_S = 900.0
MOST = 5000.0
"""Above what any grid emits [gCO2e/kWh]."""
AHEAD = timedelta(days=1)
"""How far the values that are asked for reach: as long as nobody answers, they are used."""
LONGEST_S = 86_400.0
"""All pauses of a job without a deadline [s]."""
APART_S = 300.0
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
        """When a job that has run and was paused for so long must run on at the latest."""
        if self.deadline is None:
            return now + timedelta(seconds=LONGEST_S - paused_s)
        return self.deadline - timedelta(seconds=max(0.0, self.hours * 3600 - ran_s))


def limits(config: Config, name: str, above: float, wished: Wish | None) -> Limits:
    """The limits of a job with this name; raises UsageError and NoAnswer."""
    if wished is None:
        return Limits(above)
    ends = time.monotonic() + LIMIT_S
    hours = wished.hours or usual_hours(config, name, ends)
    if hours is None:
        text = f"no run of {name!r} in {config.project!r} yet"
        raise UsageError(f"{text}; say how long it takes: --expected-hours")
    return Limits(above, wished.deadline, hours)


class Outlook:
    """A zone's intensity now and in the coming day, asked for again in the background."""

    def __init__(self, config: Config, zone: str) -> None:
        self._config, self.zone = config, zone
        self._values: list[Value] = []
        self._asked_at = time.monotonic()

    def ask(self, limit_s: float = LIMIT_S) -> None:
        """Get the values, within `limit_s` [s]; raises NoAnswer where there is none over time."""
        now = datetime.now(UTC)
        span = {"from": now - OLDEST, "to": now + AHEAD}
        times = {name: f"{moment:%Y-%m-%dT%H:%M:%SZ}" for name, moment in span.items()}
        path = f"/v1/intensity/{quote(self.zone)}?{urlencode(times)}"
        command = ["intensity", self.zone, "--from", times["from"], "--to", times["to"], "--json"]
        if self._config.server:
            answer = ask_server(self._config, path, limit_s)
        else:
            answer = ask_store(self._config, command, limit_s)
        try:
            found = _values(answer)
        except (KeyError, TypeError, ValueError) as error:
            raise NoAnswer(f"the answer cannot be read ({type(error).__name__})") from None
        if not any(value.end > now - OLDEST for value in found):
            text = f"the intensity of {self.zone} over time is not known, only its annual value"
            raise NoAnswer(text)
        self._values = found

    def at(self, moment: datetime) -> float | None:
        """Intensity at a moment [gCO2e/kWh]; None where it is not known."""
        if time.monotonic() - self._asked_at >= ASKED_EVERY_S:
            self._asked_at = time.monotonic()
            Thread(target=self._ask_quietly, daemon=True).start()
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


def _values(answer: Mapping[str, Any]) -> list[Value]:
    """What was stored over time, then what is expected; annual values say nothing about hours."""
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


class Memory:
    """The deadline and the pauses [s] of a job, for a start after this process was killed.

    `12h` then still means 12 hours after the first start.
    """

    def __init__(self, home: Path, job_id: str) -> None:
        self._path = home / FOLDER / f"{job_id}.json"

    def recall(self, rule: Limits) -> tuple[Limits, float]:
        """The limits with the deadline of the first start, and how long the job was paused [s]."""
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
            files.write_text(self._path, json.dumps({"deadline": deadline, "paused_s": paused_s}))

    def forget(self) -> None:
        """The job has ended."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


class Pauses:
    """Pauses and resumes one command; what `run.measure` calls while it waits for its end."""

    def __init__(self, config: Config, rule: Limits, job_id: str) -> None:
        self._memory = Memory(config.home, job_id)
        self._rule, self._paused_s = self._memory.recall(rule)
        self._outlook = Outlook(config, known_zone(config))
        self._group: PausableGroup | None = None
        self._client: Client | None = None
        self._began = self._changed = 0.0
        self._earlier_s = 0.0
        self._paused_ns: int | None = None
        self._released = False

    def prepare(self) -> None:
        """Ask for the zone's intensity; raises NoAnswer where nothing over time is known."""
        self._outlook.ask()
        if os.environ.get("SLURM_JOB_ID"):
            print_message("--pause-above: a paused job keeps its Slurm allocation")

    def environment(self) -> dict[str, str]:
        """Variables by which trackers with callbacks learn of a pause."""
        self._group = PausableGroup()
        return self._group.environment()

    def begin(self, pid: int, client: Client | None) -> None:
        """Take over the command `pid`, the leader of its own process group."""
        self._client = client
        self._began = time.monotonic()
        self._changed = self._began - APART_S
        self._earlier_s = self._paused_s
        self._memory.keep(self._rule, self._paused_s)
        if self._group is not None:
            self._group.begin(pid)

    def step(self) -> float:
        """Pause or resume the command as is due; returns after how long to look again [s]."""
        now = datetime.now(UTC)
        running = self._paused_ns is None
        paused_s = self._paused_s + (0.0 if running else time.monotonic() - self._changed)
        ran_s = time.monotonic() - self._began - (paused_s - self._earlier_s)
        latest = self._rule.latest_resume(now, ran_s, paused_s)
        value = self._outlook.at(now)
        high = value is not None and value > self._rule.above and now < latest
        if running and high and time.monotonic() - self._changed >= APART_S:
            self._pause(value or 0.0, latest)
        elif not high and not running:
            self._resume(self._why(value, now >= latest))
        elif not high and self._group is not None:
            self._group.withdraw()
        return LOOK_S

    def forward(self, number: int) -> None:
        """Pass a signal on to the command's group, which gets it even if it is paused."""
        if self._group is None:
            return
        if number == signal.SIGTSTP:
            self._suspend(self._group)
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
        if self._group is not None:
            self._group.end()
        self._memory.forget()

    def _pause(self, value: float, latest: datetime) -> None:
        if self._released or self._group is None or not self._group.pause():
            return
        self._changed, self._paused_ns = time.monotonic(), time.monotonic_ns()
        if self._client is not None:
            self._client.enter_window(WINDOW, self._paused_ns)
        print_message(
            f"paused: {value:.0f} gCO2e/kWh in {self._outlook.zone} is above "
            f"{self._rule.above:g}; runs on at {latest:%Y-%m-%d %H:%M:%S} UTC at the latest"
        )

    def _resume(self, why: str) -> None:
        if self._group is None or self._paused_ns is None:
            return
        self._group.resume()
        start_ns, self._paused_ns = self._paused_ns, None
        length_s = time.monotonic() - self._changed
        self._paused_s += length_s
        self._changed = time.monotonic()
        self._memory.keep(self._rule, self._paused_s)
        if self._client is not None:
            self._client.leave_window(WINDOW, start_ns, {})
        print_message(f"runs on after a pause of {_length(length_s)}: {why}")

    def _suspend(self, group: PausableGroup) -> None:
        """Ctrl-Z: stop the command and this process, until a shell continues it."""
        group.send(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        if self._paused_ns is None:
            group.send(signal.SIGCONT)

    def _why(self, value: float | None, must: bool) -> str:
        if must:
            return (
                "it needs the time until the deadline"
                if self._rule.deadline
                else ("its pauses have come to 24 h")
            )
        if value is None:
            return f"the intensity of {self._outlook.zone} is not known any more"
        return f"{value:.0f} gCO2e/kWh in {self._outlook.zone}"


def _length(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
