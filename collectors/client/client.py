"""The meter's client: the only part of the product that runs inside somebody's training process.

It starts the meter, writes marks to it and reads its replies when it is touched anyway. Rules:
standard library only, no thread, no signal handler, no output on stdout, nothing raised, nothing
that blocks but `stop`, and nothing that a forked child could repeat.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import threading
import time

from gramwatt.collectors.client.count_totals import CountTotals
from gramwatt.collectors.client.frameworks import loaded
from gramwatt.collectors.client.launch import spawn_meter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

READY_TIMEOUT_S = 3.0
CLOSE_TIMEOUT_S = 2.0
RESTART_WAITS_S = (0.0, 1.0, 5.0, 30.0, 120.0)
"""Pause before each restart of a meter that died; after the last one the job goes on without."""
POLL_INTERVAL_S = 1.0
BURST_LINES = 100
LINES_PER_S = 10.0
"""Count lines that go out at once, and how many more each second: what comes faster is merged, so
that a tight loop neither fills the channel nor wakes the meter all the time."""
WINDOW_BURST, WINDOWS_PER_S = 100.0, 4.0
"""Edges of windows that go out at once, and how many more each second: each is a reading of the
counter and a cut of the journal, which a window around every step of a tight loop is not worth."""
WINDOW_NS = 1_000_000_000
"""A window that took this long is never left out: they cannot be many."""
WAITING_MAX = 1_000
"""Lines kept for a meter that does not read."""
LINE_MAX_B = 32_000
"""Longest line [B]. Linux passes up to 32 KiB through a unix socket as one piece (UNIX_SKB_FRAGS_SZ
in net/unix/af_unix.c), so that a line is sent whole or not at all."""
_DONTWAIT = getattr(socket, "MSG_DONTWAIT", 0)  # Windows has none, and must be able to import this
_SEND_FLAGS = _DONTWAIT | getattr(socket, "MSG_NOSIGNAL", 0)
_NOT_CLOSED = "the meter did not confirm the end; `gramwatt sync` closes and scores the job"
_NOT_STARTED = "the meter did not start, so this job is not measured; see `gramwatt doctor`"
_LEFT_OUT = "windows-left-out: windows follow each other too fast; only some of them are measured."
_printed: set[str] = set()


def switched_off(environ: Mapping[str, str] | None = None) -> bool:
    """Whether GRAMWATT_OFF says that nothing at all may happen."""
    value = (os.environ if environ is None else environ).get("GRAMWATT_OFF", "")
    return value.strip().lower() not in ("", "0", "false", "no", "off")


def say(text: str) -> None:
    """One line for people on stderr, once per process; silent where stderr is gone."""
    if text in _printed:
        return
    _printed.add(text)
    try:
        sys.stderr.write(f"gramwatt: {text}\n")
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        pass


class Client:
    """One job's channel to its meter. Every method is safe after a fork and after the end.

    `args` are the user's own settings as the meter's start line takes them; `role` is "command"
    or "track". `alive` turns False for good when the job is closed or no meter can be had.
    """

    def __init__(self, job_id: str, role: str, args: Mapping[str, Any]) -> None:
        self.job_id = job_id
        self.alive = False
        self.ready = False
        self.closed = False
        self.notices: list[str] = []
        self._role, self._args = role, dict(args)
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._counts = CountTotals()
        self._lines: list[bytes] = []
        self._socket: socket.socket | None = None
        self._inode = 0
        self._received = b""
        self._started_ns = (time.monotonic_ns(), time.time_ns(), _boot_ns())
        self._restarts = 0
        self._retry_at = 0.0
        self._credit, self._credit_at = float(BURST_LINES), time.monotonic()
        self._edges, self._edges_at = WINDOW_BURST, time.monotonic()
        self._left_out = False
        self._polled_at = time.monotonic()

    def start(self) -> bool:
        """Launch the meter and hand it the start line; False when it could not be launched."""
        self.alive = True
        with self._lock:
            return self._launch()

    def count(self, amount: float, unit: str | None = None, phase: str | None = None) -> None:
        """Add `amount` functional units [R]; `unit` None means the declared one. Never blocks."""
        if not self._mine():
            return
        self._counts.add(unit, amount, phase)  # atomic, so that no amount waits for the lock
        self._touch()

    def child(self, pid: int) -> None:
        """Tell the meter the process id of the command it measures."""
        self._tell({"cmd": "child", "pid": pid})

    def note(self, text: str) -> None:
        """Leave a "code: sentence" notice with the job."""
        self._tell({"cmd": "notice", "text": text})

    def enter_window(self, name: str, start_ns: int) -> None:
        """Tell that the window `name` began at `start_ns` [ns], where that can be read at all."""
        if self._mine() and self._afford_edge():
            self._tell({"cmd": "window", "name": name, "start_ns": start_ns})

    def leave_window(self, name: str, start_ns: int, counts: Mapping[str | None, float]) -> None:
        """Tell that the window which began at `start_ns` [ns] ends now, with what it counted."""
        if not self._mine():
            return
        mono_ns = time.monotonic_ns()
        if not self._afford_edge() and mono_ns - start_ns < WINDOW_NS:
            if not self._left_out:
                self._left_out = True
                self.note(_LEFT_OUT)
            return
        line = {"cmd": "window", "name": name, "start_ns": start_ns, "mono_ns": mono_ns}
        self._tell({**line, "counts": list(counts.items())})

    def poll(self) -> None:
        """Read what the meter has said, and bring it back when it has died."""
        if self._mine():
            self._polled_at = 0.0
            self._touch()

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> bool:
        """Wait until the meter has taken its first reading; False when it has not in time."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            while self._mine() and not self.ready and not self.closed and self._socket is not None:
                if not self._wait_for_reply(deadline):
                    break
        return self.ready

    def stop(self, state: str, exit_code: int | None = None, signal: int | None = None) -> bool:
        """End the job and wait, at most CLOSE_TIMEOUT_S, for the final reading to be journaled."""
        if not self._mine():
            return self.closed
        locked = self._lock.acquire(timeout=CLOSE_TIMEOUT_S)
        try:
            line: dict[str, Any] = {"cmd": "stop", "state": state}
            line |= {"exit_code": exit_code, "signal": signal}
            line |= {"software": loaded()} if self._role == "track" else {}
            self._close_meter({**line, "mono_ns": time.monotonic_ns()})
        finally:
            self.alive = False
            self._hang_up()
            if locked:
                self._lock.release()
        if not self.closed:
            say(_NOT_CLOSED if self.ready else _NOT_STARTED)
        return self.closed

    def abandon(self) -> None:
        """Forget the meter without a word to it: what a forked child does with its copy."""
        self.alive = False
        self._lock = threading.Lock()  # the parent's thread may have held it during the fork
        self._hang_up()

    def _mine(self) -> bool:
        return self.alive and self._pid == os.getpid()

    def _afford_edge(self) -> bool:
        now = time.monotonic()
        earned = (now - self._edges_at) * WINDOWS_PER_S
        self._edges, self._edges_at = min(self._edges + earned, WINDOW_BURST), now
        if self._edges < 1:
            return False
        self._edges -= 1
        return True

    def _tell(self, message: dict[str, Any]) -> None:
        if self._mine() and len(self._lines) < WAITING_MAX:
            self._lines.append(_encode(message))
            self._touch()

    def _touch(self) -> None:
        # Whoever finds the lock taken leaves its amount behind; the holder looks again.
        for _ in range(2):
            if not self._lock.acquire(blocking=False):
                return
            try:
                now = time.monotonic()
                if now - self._polled_at >= POLL_INTERVAL_S:
                    self._polled_at = now
                    self._read_replies()
                    if self._socket is None:
                        self._relaunch(now)
                self._flush(now)
            finally:
                self._lock.release()
            if not self._lines and not self._counts.unsent:
                return
            if self._credit < 1 or self._socket is None:
                return

    def _launch(self) -> bool:
        try:
            ours, theirs = socket.socketpair()
        except OSError:
            return False
        try:
            spawn_meter(theirs.fileno())
        except OSError as error:
            ours.close()
            say(f"the meter could not be started ({error}); this job is not measured")
            return False
        finally:
            theirs.close()
        self._socket, self._received = ours, b""
        self._counts.reset()
        self._inode = os.fstat(ours.fileno()).st_ino
        return self._send(_encode(self._start_line()))

    def _start_line(self) -> dict[str, Any]:
        mono_ns, wall_ns, boot_ns = self._started_ns
        line = {"cmd": "start", "job_id": self.job_id, "role": self._role, "parent_pid": self._pid}
        line |= {"mono_ns": mono_ns, "wall_ns": wall_ns, "args": self._args}
        line |= {"boot_ns": boot_ns} if boot_ns else {}
        return line | ({"restart": self._restarts} if self._restarts else {})

    def _relaunch(self, now: float) -> None:
        if self.closed or now < self._retry_at or self._restarts >= len(RESTART_WAITS_S):
            return
        self._restarts += 1
        following = min(self._restarts, len(RESTART_WAITS_S) - 1)
        self._retry_at = now + RESTART_WAITS_S[following]
        self._launch()

    def _flush(self, now: float) -> None:
        while self._lines and self._send(self._lines[0]):
            del self._lines[0]
        earned = (now - self._credit_at) * LINES_PER_S
        self._credit, self._credit_at = min(self._credit + earned, float(BURST_LINES)), now
        if self._credit >= 1 and self._counts.add_up():
            self._credit -= 1
        if not self._lines:
            self._counts.send(self._send)

    def _send(self, line: bytes) -> bool:
        if self._socket is None or not self._still_ours():
            return False
        if len(line) > LINE_MAX_B:
            say("a mark longer than 32 kB was left out")
            return True
        try:
            return self._socket.send(line, _SEND_FLAGS) == len(line)
        except BlockingIOError:
            return False
        except OSError:
            self._read_replies()  # what it said last counts
            self._hang_up()
            return False

    def _still_ours(self) -> bool:
        # A process that daemonises closes every descriptor, and the number may be another file's.
        try:
            if self._socket is not None and os.fstat(self._socket.fileno()).st_ino == self._inode:
                return True
        except OSError:
            pass
        if self._socket is not None:
            self._socket.detach()
            self._socket = None
        return False

    def _hang_up(self) -> None:
        if self._still_ours() and self._socket is not None:
            self._socket.close()
            self._socket = None

    def _wait_for_reply(self, deadline: float) -> bool:
        left_s = deadline - time.monotonic()
        if left_s <= 0 or self._socket is None:
            return False
        waiter = select.poll()
        waiter.register(self._socket.fileno(), select.POLLIN)
        if waiter.poll(left_s * 1000):
            self._read_replies()
        return True

    def _read_replies(self) -> None:
        while self._socket is not None and self._still_ours():
            try:
                data = self._socket.recv(65536, _DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._hang_up()
                return
            *lines, self._received = (self._received + data).split(b"\n")
            for line in lines:
                self._take_reply(line)

    def _take_reply(self, line: bytes) -> None:
        try:
            reply = json.loads(line)
            kind, notices = reply.get("reply"), [str(text) for text in reply.get("notices") or ()]
        except (ValueError, AttributeError):
            return
        self.ready = self.ready or kind == "ready"
        self.closed = self.closed or kind == "closed"
        total = reply.get("total")
        if kind == "saved" and isinstance(total, float | int):
            self._counts.saved(reply.get("unit"), reply.get("phase"), total)
        for text in notices:
            if text not in self.notices:
                self.notices.append(text)
                say(_readable(text))

    def _close_meter(self, stop_line: dict[str, Any]) -> None:
        for _ in range(2):  # a meter that died is brought back once, to read the counters' end
            if self._socket is None and not self.closed:
                if self._restarts >= len(RESTART_WAITS_S) or (self._restarts and not self.ready):
                    return
                self._restarts += 1
                self._launch()
            if self._say_goodbye(_encode(stop_line), time.monotonic() + CLOSE_TIMEOUT_S):
                return

    def _say_goodbye(self, stop_line: bytes, deadline: float) -> bool:
        sent = False
        while self._socket is not None and not self.closed and time.monotonic() < deadline:
            self._credit = float(BURST_LINES)
            self._flush(time.monotonic())
            sent = sent or (not self._lines and not self._counts.unsent and self._send(stop_line))
            if sent:
                self._wait_for_reply(deadline)
            else:
                self._wait_for_room(deadline)
        return self.closed or self._socket is not None

    def _wait_for_room(self, deadline: float) -> None:
        if self._socket is not None:
            waiter = select.poll()
            waiter.register(self._socket.fileno(), select.POLLOUT)
            waiter.poll(max(0.0, min(0.1, deadline - time.monotonic())) * 1000)


def _boot_ns() -> int | None:
    """Time since boot, suspended time included [ns]; None where there is no such clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return None if clock is None else time.clock_gettime_ns(clock)


def _encode(message: dict[str, Any]) -> bytes:
    text = json.dumps(message, separators=(",", ":"), default=str)
    return text.encode("utf-8", "replace") + b"\n"


def _readable(text: str) -> str:
    code, colon, sentence = text.partition(": ")
    return f"{sentence} [{code}]" if colon and " " not in code else text
