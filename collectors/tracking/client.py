"""The meter's client: the only part of the product that runs inside the training process.

It starts the meter, sends marks to it and reads its replies when it is called anyway. Rules:
standard library only, no thread, no signal handler, no output on stdout, nothing raised, nothing
that blocks but `stop`, and nothing that a forked child could repeat.
"""

from __future__ import annotations

import os
import threading
import time

from gramwatt.collectors.common.json_lines import encoded
from gramwatt.collectors.tracking.channel import Channel
from gramwatt.collectors.tracking.count_file import CountFile
from gramwatt.collectors.tracking.count_lines import CountLines
from gramwatt.collectors.tracking.frameworks import loaded_frameworks
from gramwatt.collectors.tracking.messages import print_message, print_notice, unwritten_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

READY_TIMEOUT_S = 3.0
CLOSE_TIMEOUT_S = 2.0
LINES_TIMEOUT_S, LONG_LINES_TIMEOUT_S = 0.3, 2.0
"""How long a job waits at its end for the line about it [s], the latter if it took more than
LONG_NS; its journal is whole before."""
LONG_NS = 60_000_000_000
RESTART_WAITS_S = (0.0, 1.0, 5.0, 30.0, 120.0)
"""Pause before each restart of a meter that died; after the last one the job goes on without."""
POLL_INTERVAL_S = 1.0
BURST_LINES = 100
LINES_PER_S = 10.0
"""Totals that go out at once, and how many more each second: what comes faster is merged, so that
a tight loop neither fills the channel nor wakes the meter all the time."""
WINDOW_BURST, WINDOWS_PER_S = 100, 4.0
"""Boundaries of windows that go out at once, and how many more each second: each is a reading of
the counter and a cut of the journal, which a window around every step of a tight loop is not
worth."""
WINDOW_NS = 1_000_000_000
"""A window that took this long is never left out: they cannot be many."""
WAITING_MAX = 1_000
"""Lines kept for a meter that does not read."""
_NOT_CLOSED = "the meter did not confirm the end; `gramwatt sync` closes and scores the job"
_NOT_STARTED = "the meter did not start, so this job is not measured; see `gramwatt doctor`"
WINDOWS_LEFT_OUT = (
    "windows-left-out: windows follow each other too fast; only some of them are measured."
)


def switched_off() -> bool:
    """Say whether GRAMWATT_OFF asks that nothing at all happens."""
    return is_set("GRAMWATT_OFF")


def quiet() -> bool:
    """Say whether GRAMWATT_QUIET asks for no line at a job's end."""
    return is_set("GRAMWATT_QUIET")


def is_set(name: str) -> bool:
    """Say whether a variable switches something on."""
    return os.environ.get(name, "").strip().lower() not in ("", "0", "false", "no", "off")


class RateLimit:
    """A token bucket: `burst` at once, and `per_s` more each second."""

    def __init__(self, burst: float, per_s: float) -> None:
        self._burst = burst
        self._per_s = per_s
        self._tokens = burst
        self._filled_at = time.monotonic()

    def allows(self) -> bool:
        """Say whether one more may go out now."""
        now = time.monotonic()
        earned = (now - self._filled_at) * self._per_s
        self._tokens = min(self._tokens + earned, self._burst)
        self._filled_at = now
        return self._tokens >= 1

    def use(self) -> None:
        """Take one from what is allowed."""
        self._tokens -= 1


class WindowRate(RateLimit):
    """The limit of a process's boundaries of windows."""

    def __init__(self) -> None:
        super().__init__(WINDOW_BURST, WINDOWS_PER_S)

    def end_line(
        self, name: str, start_ns: int, counts: Mapping[str | None, float]
    ) -> dict[str, Any] | None:
        """Return the line of a window that began at `start_ns` [ns] and ends now.

        With what it counted; None for one of too many.
        """
        mono_ns = time.monotonic_ns()
        if self.allows():
            self.use()
        elif mono_ns - start_ns < WINDOW_NS:
            return None
        line = {"cmd": "window", "name": name, "start_ns": start_ns, "mono_ns": mono_ns}
        return {**line, "counts": list(counts.items())}


class Client:
    """One job's connection to its meter. Every method is safe after a fork and after the end.

    `args` are the user's own settings as the meter's start line takes them; `role` is "command"
    or "track"; `verbose` asks for every notice. `alive` turns False for good when the job is closed
    or no meter can be had.
    """

    def __init__(
        self, job_id: str, role: str, args: Mapping[str, Any], *, verbose: bool = False
    ) -> None:
        self.job_id = job_id
        self.alive = False
        self.ready = False
        self.closed = False
        self.notices: list[str] = []
        self.home: str | None = None
        """Where the closed job is journaled."""
        self.unwritten = ""
        """Why the journal of the closed job is not whole; empty where it is."""
        self.lines: list[str] | None = None
        """What the user reads about the closed job; None while it is not known."""
        self.see = f"`gramwatt job {job_id}`"
        """Where the report is: a command, or an address of the server once the job is closed."""
        self._verbose = verbose
        self.role = role
        self.args = dict(args)
        self.servers: Mapping[str, Sequence[str]] = {}
        """Servers whose counters the meter reads: `addresses` and `metrics`, as `run` was given."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._channel = Channel()
        self._count_rate = RateLimit(BURST_LINES, LINES_PER_S)
        self._window_rate = WindowRate()
        self._windows_left_out = False
        self._lines: list[bytes] = []
        self._count_file: CountFile | None = None
        self._id = os.urandom(6).hex()
        self._start_mark = {"mono_ns": time.monotonic_ns(), "wall_ns": time.time_ns()}
        if boot_ns := _boot_ns():
            self._start_mark["boot_ns"] = boot_ns
        self._cpu_before_s = sum(os.times()[:4])
        """Processor time of this process and its ended children before the job [s]."""
        self._counts = CountLines(self._now_ns)
        self._restarts = 0
        self._retry_at = 0.0
        self._polled_at = time.monotonic()
        self._quiet_until = 0.0
        """Until then no total may go out, and a count costs as little as can be."""

    @property
    def counts_path(self) -> str | None:
        """The file through which child processes count; None where it could not be made."""
        return self._count_file.path if self._count_file else None

    def start(self) -> bool:
        """Launch the meter and send it the start line; False when it could not be launched."""
        self.alive = True
        about = {"job_id": self.job_id, "role": self.role, "args": self.args}
        self._count_file = CountFile.make(about)
        with self._lock:
            return self._launch()

    def count(self, amount: float, unit: str | None = None, phase: str | None = None) -> None:
        """Add `amount` functional units [R]; `unit` None means the declared one. Never blocks."""
        if not self._usable():
            return
        self._counts.add(unit, amount, phase)  # atomic, so that no amount waits for the lock
        if time.monotonic() >= self._quiet_until:
            self._exchange()

    def send_child(self, pid: int) -> None:
        """Send the meter the process id of the command it measures."""
        self._send({"cmd": "child", "pid": pid})

    def send_notice(self, text: str) -> None:
        """Leave a "code: sentence" notice with the job."""
        self._send({"cmd": "notice", "text": text})

    def enter_window(self, name: str, start_ns: int) -> None:
        """Send the begin of the window `name` at `start_ns` [ns], unless windows are too many."""
        if self._usable() and self._window_rate.allows():
            self._window_rate.use()
            self._send({"cmd": "window", "name": name, "start_ns": start_ns})

    def leave_window(self, name: str, start_ns: int, counts: Mapping[str | None, float]) -> None:
        """Send the end of the window that began at `start_ns` [ns], with what it counted."""
        if line := self._window_rate.end_line(name, start_ns, counts):
            self._send(line)
        elif not self._windows_left_out:
            self._windows_left_out = True
            self.send_notice(WINDOWS_LEFT_OUT)

    def poll(self) -> None:
        """Read the meter's replies, and start it again when it has died."""
        if self._usable():
            self._polled_at = 0.0
            self._exchange()

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> bool:
        """Wait until the meter has taken its first reading; False when it has not in time."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            while self._usable() and not self.ready and not self.closed:
                if not self._channel.wait_for_reply(deadline):
                    break
                self._read_replies()
        return self.ready

    def stop(
        self,
        state: str,
        exit_code: int | None = None,
        signal: int | None = None,
        *,
        lines: bool = False,
    ) -> bool:
        """End the job and wait, at most CLOSE_TIMEOUT_S, for the final reading to be journaled.

        With `lines` also for those about the job, up to LINES_TIMEOUT_S after the call, or
        LONG_LINES_TIMEOUT_S.
        """
        if not self._usable():
            return self.closed
        is_long = time.monotonic_ns() - self._start_mark["mono_ns"] > LONG_NS
        deadline = time.monotonic() + (LONG_LINES_TIMEOUT_S if is_long else LINES_TIMEOUT_S)
        locked = self._lock.acquire(timeout=CLOSE_TIMEOUT_S)
        try:
            line: dict[str, Any] = {"cmd": "stop", "state": state}
            line |= {"exit_code": exit_code, "signal": signal}
            line |= {"software": loaded_frameworks()} if self.role == "track" else {}
            line |= {"lines": True} if lines else {}
            self._close_meter({**line, "mono_ns": time.monotonic_ns()})
            while lines and self.closed and self.lines is None:
                if not self._channel.wait_for_reply(deadline):
                    break
                self._read_replies()
        finally:
            self.alive = False
            if self._count_file:
                if self.closed or not self._channel.connected:
                    self._count_file.remove()  # no meter will
                self._count_file.close()
            self._channel.close()
            if locked:
                self._lock.release()
        if not self.closed:
            print_message(_NOT_CLOSED if self.ready else _NOT_STARTED)
        return self.closed

    def end_lines(self) -> list[str]:
        """Return what the user reads about the closed job: nothing where it runs elsewhere."""
        if self.lines is not None or not self.closed:
            return self.lines or []
        if self.unwritten:  # known with the end, though the figures are not yet
            return [unwritten_text(self.job_id, self.unwritten)]
        from pathlib import Path

        from gramwatt.collectors.common.files import first_notice_today  # most jobs need neither

        told = f"{self.job_id} has ended; its figures are not ready yet: see {self.see}"
        if self.home and not first_notice_today(Path(self.home), told):
            return []  # another process of the job has
        return [told]

    def abandon(self) -> None:
        """Close a forked child's copy of the connection; the meter is sent nothing."""
        self.alive = False
        self._lock = threading.Lock()  # the parent's thread may have held it during the fork
        self._channel.close()

    def _usable(self) -> bool:
        return self.alive and self._pid == os.getpid()

    def _send(self, message: dict[str, Any]) -> None:
        if self._usable() and len(self._lines) < WAITING_MAX:
            self._lines.append(encoded(message))
            self._exchange()

    def _exchange(self) -> None:
        """Send what waits and, once a second, read replies; does nothing while another call does.

        The call that finds the lock taken leaves its line or amount to the one that holds it, which
        looks once more before it returns.
        """
        for _ in range(2):
            if not self._lock.acquire(blocking=False):
                return
            try:
                now = time.monotonic()
                if now - self._polled_at >= POLL_INTERVAL_S:
                    self._polled_at = now
                    self._read_replies()
                    if not self._channel.connected:
                        self._relaunch(now)
                self._flush()
            finally:
                self._lock.release()
            if not self._lines and not self._counts.unsent:
                return
            if not self._count_rate.allows():
                self._quiet_until = now + 1 / LINES_PER_S
                return
            if not self._channel.connected:
                return

    def _launch(self) -> bool:
        if not self._channel.launch():
            return False
        self._counts.resend()
        line: dict[str, Any] = {"cmd": "start", "job_id": self.job_id, "role": self.role}
        line["client"] = self._id
        line |= {"parent_pid": self._pid, **self._start_mark, "args": self.args}
        line["cpu_s"] = self._cpu_before_s
        line |= {"counts_path": self.counts_path} if self.counts_path else {}
        line |= {"servers": self.servers} if self.servers else {}
        line |= {"restart": self._restarts} if self._restarts else {}
        line |= {"verbose": True} if self._verbose else {}
        return self._channel.send(encoded(line))

    def _relaunch(self, now: float) -> None:
        if self.closed or now < self._retry_at or self._restarts >= len(RESTART_WAITS_S):
            return
        self._restarts += 1
        following = min(self._restarts, len(RESTART_WAITS_S) - 1)
        self._retry_at = now + RESTART_WAITS_S[following]
        self._launch()

    def _flush(self, *, unlimited: bool = False) -> None:
        while self._lines and self._channel.send(self._lines[0]):
            del self._lines[0]
        if unlimited:
            self._counts.add_up()
        elif self._count_rate.allows() and self._counts.add_up():
            self._count_rate.use()
        if not self._lines:
            self._counts.send(lambda message: self._channel.send(encoded(message)))

    def _read_replies(self) -> None:
        for reply in self._channel.replies():
            kind = reply.get("reply")
            self.ready = self.ready or kind == "ready"
            self.closed = self.closed or kind == "closed"
            self.home = reply.get("home", self.home)
            self.unwritten = reply.get("unwritten", self.unwritten)
            self.lines = reply.get("lines", self.lines)
            self.see = reply.get("see", self.see)
            if kind == "saved":
                self._counts.saved(int(reply["seq"]))
            for notice in map(str, reply.get("notices") or ()):
                if notice not in self.notices:
                    self.notices.append(notice)
                    print_notice(notice)

    def _close_meter(self, stop_line: dict[str, Any]) -> None:
        for _ in range(2):  # a meter that died is started once more, to read the counters' end
            self._read_replies()
            if not self._channel.connected and not self.closed:
                if self._restarts >= len(RESTART_WAITS_S) or (self._restarts and not self.ready):
                    return
                self._restarts += 1
                self._launch()
            if self._send_stop(encoded(stop_line), time.monotonic() + CLOSE_TIMEOUT_S):
                return

    def _send_stop(self, stop_line: bytes, deadline: float) -> bool:
        """Send everything and the stop line; False when the meter dies before it confirms."""
        sent = False
        while self._channel.connected and not self.closed and time.monotonic() < deadline:
            self._flush(unlimited=True)
            waiting = self._lines or self._counts.unsent
            sent = sent or (not waiting and self._channel.send(stop_line))
            if sent:
                self._channel.wait_for_reply(deadline)
            else:
                self._channel.wait_for_room(deadline)
            self._read_replies()
        return self.closed or self._channel.connected

    def _now_ns(self) -> int:
        """Return Unix time on the job's timeline, whatever the clock is set to meanwhile [ns]."""
        mark = self._start_mark
        if "boot_ns" in mark:
            return mark["wall_ns"] + (_boot_ns() or 0) - mark["boot_ns"]
        return mark["wall_ns"] + time.monotonic_ns() - mark["mono_ns"]


def _boot_ns() -> int | None:
    """Return the time since boot, suspended time included [ns]; None without such a clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return None if clock is None else time.clock_gettime_ns(clock)
