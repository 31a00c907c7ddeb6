"""The one running job of a training process: who entered it, what it counts, its windows, its forks
and its end; and the process's connection to the job's meter.

All that runs inside the training process. Rules: standard library only, no thread, no signal
handler, no output on stdout, nothing that blocks but `stop`. Nothing is raised unless `strict` asks
for it: what goes wrong is reported once on stderr. Processes and meter share files in memory
(counts.py). A process that sees no meter starts one.
"""

from __future__ import annotations

import atexit
import os
import re
import sys
import threading
import time
from contextvars import ContextVar

from gramwatt.collectors.settings.identity import new_job_id
from gramwatt.collectors.settings.launches import (
    JOB_ID,
    UNIT,
    WITHIN,
    declared_job,
    job_id,
    names,
    within,
)
from gramwatt.collectors.settings.platform import is_set, refused, switched_off
from gramwatt.collectors.settings.proc import environ_of, process_start_ns
from gramwatt.collectors.track.counts import (
    LINES,
    PRINTED,
    JobFolder,
    Totals,
    clock_ns,
    find_above,
    first_line,
    is_alive,
)
from gramwatt.collectors.track.frameworks import loaded_frameworks
from gramwatt.collectors.track.launch import spawn_meter
from gramwatt.collectors.track.messages import print_message, unwritten_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    Place = tuple[str, int]
    """File and line of the code in which a job begins."""

READY_TIMEOUT_S = 8.0
"""How long a command waits for the meter's first reading [s], which waits 5 s for a driver."""
CLOSE_TIMEOUT_S = 2.0
LINES_TIMEOUT_S, LONG_LINES_TIMEOUT_S = 0.3, 2.0
"""How long a job waits at its end for the line about it [s], the latter if it took more than
LONG_NS; its journal is whole before."""
GONE_TIMEOUT_S = 0.2
"""How long it then waits for the meter to let go of the folder in memory [s]."""
LONG_NS = 60_000_000_000
RESTART_WAITS_S = (0.0, 1.0, 5.0, 30.0, 120.0)
"""Pause before each further meter that this process starts; after the last one it starts none."""
LOOK_EVERY_S = 1.0
"""How often a process that counts looks whether the meter lives, and what it says."""
POLL_S, WAKE_S = 0.003, 0.05
"""How often a process that waits looks, and whether the meter still lives [s]."""
WINDOW_BURST, WINDOWS_PER_S = 100, 4.0
"""Boundaries of windows that are written at once, and how many more each second: each is a reading
of the counter and a cut of the journal, which a window around every step of a tight loop is not
worth."""
WINDOW_NS = 1_000_000_000
"""A window that took this long is never left out: they cannot be many."""
LINES_MOST = 64
"""Notices and settings of one process."""
COMMAND, TRACK, WORKER = "command", "track", "worker"
"""What a process is to its job: `gramwatt run`, a script or rank whose `track` began it, or one
that only counts into it. How the job ended is the state of the former two."""
_RANK = "LOCAL_RANK"
_VISIBLE = ("_VISIBLE_", "SLURM_", "GPU_DEVICE_ORDINAL", "CUDA_DEVICE_ORDER", "TPU_", "HABANA_")
_NOT_CLOSED = "the meter did not confirm the end; `gramwatt sync` closes and scores the job"
_NOT_STARTED = "the meter did not start, so this job is not measured; see `gramwatt doctor`"
WINDOWS_LEFT_OUT = "windows follow each other too fast; only some of them are measured."


def quiet() -> bool:
    """Say whether GRAMWATT_QUIET asks for no line at a job's end."""
    return is_set("GRAMWATT_QUIET")


class RateLimit:
    """A token bucket: `burst` at once, and `per_s` more each second."""

    def __init__(self, burst: float, per_s: float) -> None:
        self._burst = burst
        self._per_s = per_s
        self._tokens = burst
        self._filled_at = time.monotonic()

    def take(self) -> bool:
        """Take one from what is allowed now; False where nothing is."""
        now = time.monotonic()
        earned = (now - self._filled_at) * self._per_s
        self._tokens = min(self._tokens + earned, self._burst)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class Client:
    """This process's part in one job. Every method is safe after a fork and after the end.

    `role` is COMMAND, TRACK or WORKER; `args` are the user's own settings; a worker has
    the job's. `folder` is the folder of a job that runs already; a worker has one.
    """

    def __init__(
        self,
        job_id: str,
        role: str,
        args: Mapping[str, Any],
        *,
        verbose: bool = False,
        folder: JobFolder | None = None,
        job_role: str | None = None,
    ) -> None:
        self.job_id = job_id
        self.role = role
        self.job_role = job_role or role
        """By whom the job was begun: COMMAND or TRACK."""
        self.args = dict(args)
        self.began = False
        """Whether this process is the first one of the job on this node."""
        self.ready = self.closed = False
        self.home: str | None = None
        """Where the job is journaled; None while that is not known."""
        self.unwritten = ""
        """Why the journal of the closed job is not whole; empty where it is."""
        self.lines: list[str] | None = None
        """What the user reads about the closed job; None while it is not known."""
        self.see = "" if role == WORKER else f"`gramwatt job {job_id}`"
        """Where the report is: a command, or an address of the server once the job is closed."""
        self.servers: Mapping[str, Sequence[str]] = {}
        """Servers whose counters the meter reads: `addresses` and `metrics`, as `run` was given."""
        self._comes_up = False
        """Whether a meter runs, which may wait for its first reading still."""
        self._verbose = verbose
        self.folder = folder
        """The job's folder in memory; None where there is none."""
        self._totals: Totals | None = None
        self._over = False
        self.patience_s = 0.0
        """How long at least an end with lines waits for them [s]: longer where a person looks."""
        self._pid = os.getpid()
        self._window_rate = RateLimit(WINDOW_BURST, WINDOWS_PER_S)
        self._sent: set[str] = set()
        self._start_mark = marks()
        self._cpu_before_s = sum(os.times()[:4])
        """Processor time of this process and its ended children before the job [s]."""
        self._started = 0
        self._start_at = 0.0
        self._meter_lock: int | None = None
        """The meter's lock while this process passes it on."""
        self._look_at = 0.0

    @classmethod
    def find(cls, pid: int | None = None) -> Client | None:
        """Return a worker's client for the running job of a process above this one.

        With `pid` of that process, or one above it. None without one, and in a rank that another
        rank of the same job has started, as Lightning's first one does.
        """
        job = find_above(pid)
        if job is None:
            return None
        folder, first, above = job
        if pid is None and first.get("job_role") == TRACK and _is_rank(above):
            return None
        args, role = first.get("args") or {}, first.get("job_role")
        return cls(first["job_id"], WORKER, args, folder=folder, job_role=role)

    @property
    def alive(self) -> bool:
        """Return whether the job runs, as far as is known, and takes what this process counts."""
        if self._over or self.folder is None:
            return False
        return not (self._totals.ended if self._totals else self.folder.closed)

    def start(self) -> bool:
        """Enter the job and start its meter, if there is none; False where that cannot be."""
        while (entered := JobFolder.enter(self.job_id)) is not None:
            folder, self.began = entered
            self._totals = Totals.make(folder, self._first())
            if self._totals is not None:
                self.folder = folder
                return folder.wake() or self._start_meter(folder)
            if not folder.closed:  # else it has ended meanwhile, and there is another one
                break
        print_message(_NOT_STARTED)
        return False

    def count(self, amount: float, unit: str | None = None, phase: str | None = None) -> None:
        """Add `amount` functional units [R]; `unit` None means the declared one. Never blocks."""
        # After a fork it is the client of `in_child` that counts.
        totals = self._totals or self._enter()
        if totals is None or not totals.count(amount, unit, phase):
            text = f"job {self.job_id} has ended, does not run on this machine or has no room"
            print_message(f"{text}: what this process counts is left out [argument-ignored]")
        elif time.monotonic() >= self._look_at:
            self.poll()

    def send_begin(self, pid: int) -> None:
        """Say that the command that is measured begins now, and its process id."""
        self._send({"cmd": "begin", "pid": pid, "at_ns": clock_ns()})

    def send_notice(self, code: str, text: str) -> None:
        """Leave a notice with the job, once."""
        self._send_once({"cmd": "notice", "code": code, "text": text[:512]})

    def send_settings(self, args: Mapping[str, Any]) -> None:
        """Send the settings of a `track` in a command, and what is loaded and visible here."""
        line = {"cmd": "settings", "args": dict(args), "software": loaded_frameworks()}
        self._send_once({**line, "visible": visible_variables()})

    def enter_window(self, name: str, start_ns: int) -> None:
        """Send the begin of the window `name` at `start_ns` [ns], unless windows are too many."""
        if self._window_rate.take():
            self._send({"cmd": "window", "name": name, "start_ns": start_ns})

    def leave_window(self, name: str, start_ns: int, counts: Mapping[str | None, float]) -> None:
        """Send the end of the window that began at `start_ns` [ns], with what it counted."""
        end_ns = clock_ns()
        if self._window_rate.take() or end_ns - start_ns >= WINDOW_NS:
            line = {"cmd": "window", "name": name, "start_ns": start_ns, "end_ns": end_ns}
            self._send({**line, "counts": list(counts.items())})
        else:
            self.send_notice("windows-left-out", WINDOWS_LEFT_OUT)

    def poll(self) -> None:
        """Read what the meter says, and start one where none is."""
        if self._ours() and self.folder and not self._over:
            self._look(self.folder)

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> bool:
        """Wait until the meter has taken its first reading; False when it has not in time."""
        if self.role == WORKER:
            return self.alive
        self._wait(lambda: self.ready or self.closed, time.monotonic() + timeout_s)
        return self.ready

    def stop(
        self,
        state: str,
        exit_code: int | None = None,
        signal: int | None = None,
        *,
        lines: bool = False,
    ) -> bool:
        """End this process's part, and wait where it is the last one of the job on this node.

        At most CLOSE_TIMEOUT_S for the final reading to be journaled, and READY_TIMEOUT_S from its
        begin on for the first one; with `lines` also for those about the job, up to LINES_TIMEOUT_S
        after the call, or LONG_LINES_TIMEOUT_S. False where the end was not confirmed.
        """
        folder = self.folder
        if self._over or folder is None or self.role == WORKER or not self._ours():
            return self.closed
        now_ns, now = clock_ns(), time.monotonic()
        lasted_ns = now_ns - self._start_mark["at_ns"]
        line: dict[str, Any] = {"cmd": "stop", "state": state, "at_ns": now_ns}
        line |= {"exit_code": exit_code, "signal": signal}
        line |= {"software": loaded_frameworks()} if self.role == TRACK else {}
        line |= {"lines": True} if lines else {}
        self._send(line)
        self._over = True
        if self._totals is not None:
            self._totals.close()
        if _others_run(folder):
            return True
        self._start_at = now  # where the meter died just now: nobody will start one later
        self._wait(lambda: self.closed, now + CLOSE_TIMEOUT_S)
        if self._comes_up and not self.ready:  # a driver is waited for
            self._wait(lambda: self.closed, now - lasted_ns / 1e9 + READY_TIMEOUT_S)
            now = time.monotonic()
        if self.closed:
            limit_s = LONG_LINES_TIMEOUT_S if lasted_ns > LONG_NS else LINES_TIMEOUT_S
            limit_s = max(limit_s, self.patience_s)
            if lines:
                self._wait(lambda: self.lines is not None, now + limit_s)
            # Another process that ended at the same moment may have taken it and prints them.
            read = self.lines if folder.take(PRINTED) else []
            if not self.unwritten:  # else what was counted is in memory alone
                # A meter that still makes the lines deletes the folder itself.
                makes_lines = lines and self.lines is None
                limit_s = 0.0 if makes_lines else GONE_TIMEOUT_S
                self._wait(folder.discard, time.monotonic() + limit_s)
            self.lines = read  # what the folder said, before the meter deleted it
        else:
            print_message(_NOT_CLOSED if self.ready else _NOT_STARTED)
        return self.closed

    def end_lines(self) -> list[str]:
        """Return what the user reads about the closed job: nothing where it runs elsewhere."""
        if self.lines is not None or not self.closed:
            return self.lines or []
        if self.unwritten:  # known with the end, though the figures are not yet
            return [unwritten_text(self.job_id, self.unwritten)]
        return [f"{self.job_id} has ended and is being scored. More: {self.see}"]

    def in_child(self) -> Client:
        """Return the client of a forked child, which counts into the job with a file of its own."""
        if self._meter_lock is not None:  # a thread of the parent was just starting a meter
            os.close(self._meter_lock)
        job_role, folder = self.job_role, self.folder
        return Client(self.job_id, WORKER, self.args, folder=folder, job_role=job_role)

    def _ours(self) -> bool:
        return self._pid == os.getpid()

    def _first(self) -> dict[str, Any]:
        """Return the first line of this process's file."""
        pid = self._pid
        line: dict[str, Any] = {"job_id": self.job_id, "role": self.role}
        line |= {"job_role": self.job_role, "args": self.args, "pid": pid, **self._start_mark}
        line |= {"began_ns": process_start_ns(pid), "visible": visible_variables()}
        line |= {"servers": self.servers} if self.servers else {}
        line |= {"verbose": True} if self._verbose else {}
        line |= {"cpu_s": self._cpu_before_s} if self.role == TRACK else {}
        return line

    def _enter(self) -> Totals | None:
        """Return this process's file; a worker makes it when it has something to write."""
        if self._totals is None and self.folder and self.role == WORKER and self.alive:
            self._pid = os.getpid()
            self._totals = Totals.make(self.folder, self._first())
        return self._totals if self._pid == os.getpid() and not self._over else None

    def _send(self, message: dict[str, Any]) -> None:
        totals = self._enter()
        if totals is not None and totals.append(message) and self.folder:
            self._wake(self.folder)

    def _send_once(self, message: dict[str, Any]) -> None:
        text = repr(message)
        if text not in self._sent and len(self._sent) < LINES_MOST:
            self._sent.add(text)
            self._send(message)

    def _look(self, folder: JobFolder) -> None:
        self._look_at = time.monotonic() + LOOK_EVERY_S
        self._wake(folder)
        if self.role != WORKER:
            self._read(folder)

    def _wake(self, folder: JobFolder) -> None:
        if not folder.wake() and not self.closed:
            self._start_meter(folder)

    def _start_meter(self, folder: JobFolder) -> bool:
        """Start a meter, unless another process does, or this one has started too many."""
        now = time.monotonic()
        if now < self._start_at or self._started >= len(RESTART_WAITS_S):
            return False
        lock = folder.lock()
        if lock is None:
            return True
        self._meter_lock = lock
        try:
            if folder.finished:
                return False
            folder.reopen()
            self._started += 1
            following = min(self._started, len(RESTART_WAITS_S) - 1)
            self._start_at = now + RESTART_WAITS_S[following]
            spawn_meter(lock, folder.path)
        except OSError as error:
            print_message(f"the meter could not be started ({error}); this job is not measured")
            return False
        finally:
            self._meter_lock = None
            os.close(lock)
        return True

    def _read(self, folder: JobFolder) -> None:
        status = folder.status()
        if not status and self._over and folder.closed:  # another process has read it and gone
            status = {"closed": True, "lines": []}
        self._comes_up = self._comes_up or "pid" in status
        self.ready = self.ready or bool(status.get("ready"))
        self.closed = self.closed or bool(status.get("closed"))
        self.home = status.get("home", self.home)
        self.unwritten = status.get("unwritten", self.unwritten)
        self.lines = status.get("lines", self.lines)
        self.see = status.get("see", self.see)
        for code, text in status.get("notices") or () if self.began else ():
            print_message(f"{text} [{code}]")  # one process of the job says it

    def _wait(self, done: Callable[[], bool], deadline: float) -> bool:
        """Wait until `done()`, at most until `deadline` [s] (monotonic); start a meter if none."""
        folder, wake_at = self.folder, time.monotonic() + WAKE_S
        while folder is not None:
            self._read(folder)
            now = time.monotonic()
            if done() or now >= deadline:
                break
            if now >= wake_at:
                wake_at = now + WAKE_S
                self._wake(folder)
            time.sleep(POLL_S)
        return done()


def marks() -> dict[str, int]:
    """Return the clocks now [ns]: that of all marks, and Unix time."""
    return {"at_ns": clock_ns(), "wall_ns": time.time_ns()}


def visible_variables() -> dict[str, str]:
    """Return the variables that may decide which devices this process has."""
    names = [name for name in os.environ if any(part in name for part in _VISIBLE)]
    return {name: os.environ[name] for name in names if name in os.environ}


def _is_rank(above: int) -> bool:
    """Say whether this process is a rank that was launched by the process `above`, itself one."""
    if os.environ.get(_RANK, "0") == "0":
        return False
    return not any(text.startswith(f"{_RANK}=") for text in environ_of(above))


def _others_run(folder: JobFolder) -> bool:
    """Say whether another process whose state is the job's has not ended."""
    for name in folder.names():
        path = folder.at(name + LINES)
        if first_line(path).get("role") != WORKER and is_alive(name) and not _stopped(path):
            return True
    return False


def _stopped(path: str) -> bool:
    try:
        with open(path, "rb") as stream:
            return any(line.startswith(b'{"cmd":"stop"') for line in stream)
    except OSError:
        return True


SIGINT = 2
UNIT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9 _.\-]{0,63}")
"""A unit's name, as sci.records.records.UNIT_PATTERN has it (not imported: it costs 20 ms)."""
PATH_LENGTH = 512
"""Longest name of a window with those around it: as long as a text of a record may be."""
JOB_SETTINGS = ("project", "name", "region", "zone", "kind")
"""Settings of which a job has one value; a unit is counted beside others."""
SETTINGS_LENGTH = 200
JOBS_REPORTED = 10
"""Jobs of one process that end with a line: a decorated function may be called a thousand times."""
_gate = threading.Lock()
_current: Session | None = None
"""The innermost running job that this process has begun; those around it by `Session.around`."""
_joined: dict[str, Session] = {}
"""Jobs of other processes into which this one counts, by id; the last one is the outer job here."""
_begun: dict[str, int] = {}
"""How many jobs each place of the code has begun: in the ranks of a launch alike."""
_hooked = False
_ended = 0


class OpenWindow:
    """One entry of a window of a session: its path and begin [ns], and what was counted since [R].

    `path` is its name with those of the windows around it: "epoch-3/validation".
    """

    __slots__ = ("counts", "ended", "name", "path", "session", "start_ns")

    def __init__(self, session: Session, name: str) -> None:
        self.session = session
        self.name = name
        self.ended = False
        self.start_ns = clock_ns()
        self.counts: dict[str | None, float] = {}
        names = [*(window.name for window in session.windows()), name]
        self.path = "/".join(names)[:PATH_LENGTH]


_windows: ContextVar[tuple[OpenWindow, ...]] = ContextVar("gramwatt_windows", default=())
"""The windows that are open here: each thread and each asyncio task has its own."""


class Session:
    """A job into which this process counts by its `client`; nested and concurrent entries share it.

    `by_start`: `start()` began it, so that another `start()` ends it. `around` is the job inside
    which it runs in this process. A copy is the same session; so is what another process unpickles,
    if it can reach the job.
    """

    def __init__(
        self, client: Client, *, by_start: bool = False, around: Session | None = None
    ) -> None:
        self.id = client.job_id
        self.client = client
        self.by_start = by_start
        self.around = around
        self._depth = 0
        self._ended = False
        self._outcome: tuple[str, int | None, int | None] | None = None
        self._exported: dict[str, str] = {}
        self._before: dict[str, str | None] = {}
        self._error_before = _last_error()

    def begin(self) -> None:
        """Start the meter and let child processes join the job and count its unit."""
        self._exported = {JOB_ID: self.id, WITHIN: within(self.id)}
        unit = self.client.args.get("unit")
        if isinstance(unit, str) and UNIT_NAME.fullmatch(unit):
            self._exported[UNIT] = unit
        self._before = {name: os.environ.get(name) for name in self._exported}
        os.environ.update(self._exported)
        self.client.start()

    def enter(self) -> bool:
        """Add one entry; True for the one that owns the job."""
        self._depth += 1
        return self._depth == 1

    def report_joined(self, args: Mapping[str, Any]) -> None:
        """Report the settings of an inner entry that the job has otherwise, and keeps.

        A command has no other than its own `track` gives it, in a child process too.
        """
        client = self.client
        if client.role == WORKER and client.job_role == COMMAND:
            client.send_settings(args)
            return
        settings = {key: args[key] for key in JOB_SETTINGS if key in args}
        unused = [f"{k}={v!r}" for k, v in settings.items() if v != client.args.get(k)]
        if unused:
            text = f"track({', '.join(unused)})"[:SETTINGS_LENGTH]
            text += f" joins job {self.id}, which runs already, and its settings are not used; "
            text += "to measure it by itself, end that job first"
            self.report_ignored(text)

    def report_ignored(self, text: str) -> None:
        """Leave a notice on a wrong argument with the job, and print it where the job runs."""
        if self.client.role != WORKER:  # else the process that began the job prints it
            print_message(f"{text} [argument-ignored]")
        self.client.send_notice("argument-ignored", text)

    def leave(self, owner: bool, outcome: tuple[str, int | None, int | None]) -> bool:
        """Remove one entry; the owner's outcome is the job's. True when none is left."""
        self._depth -= 1
        if owner or self._outcome is None:
            self._outcome = outcome
        return self._depth <= 0

    def count(self, amount: float, unit: str | None) -> None:
        """Add an amount [R] to the job and to every window that is open here."""
        if self._ended:
            text = f"what is counted after the end of job {self.id} is left out"
            print_message(f"{text} [argument-ignored]")
            return
        phase = None
        for window in _windows.get():  # the outermost first
            if window.session is self and not window.ended:
                window.counts[unit] = window.counts.get(unit, 0.0) + amount
                phase = window.path
        self.client.count(amount, unit, phase)

    def windows(self) -> list[OpenWindow]:
        """Return the job's windows that are open in this thread or task, the outermost first."""
        return [item for item in _windows.get() if item.session is self and not item.ended]

    def enter_window(self, name: str) -> OpenWindow:
        """Open a window inside those that are open here."""
        window = OpenWindow(self, name)
        _windows.set((*_windows.get(), window))
        self.client.enter_window(window.path, window.start_ns)
        return window

    def leave_window(self, window: OpenWindow) -> None:
        """Close a window; windows may overlap, so it need not be the innermost.

        One that was open when this process was forked ends in the process before.
        """
        if window.ended:
            return
        window.ended = True  # for the thread that opened it, if this is another
        _windows.set(tuple(other for other in _windows.get() if not other.ended))
        self.client.leave_window(window.path, window.start_ns, window.counts)

    @property
    def runs(self) -> bool:
        """Return whether the job runs, in this process or in one that this one counts for."""
        counts_for = self.client.role == WORKER and self.client.alive
        return counts_for or self in _running()

    def count_for_parent(self) -> None:
        """Go on in a forked child: as one that counts into the job of the process before."""
        self.by_start = False
        self.client = self.client.in_child()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle what another process needs to count into the job."""
        client = self.client
        return _reconnected, (self.id, client.folder, client.job_role, client.args)

    def __deepcopy__(self, _memo: object) -> Session:
        """Return the session itself: a copy of a job is the same job."""
        return self

    def end(self) -> None:
        """Close the job and take its id and unit back out of the environment."""
        client = self.client
        self._ended = True
        self._restore_environment()
        state, exit_code, signal = self._outcome or ("completed", None, None)
        reported = not quiet() and _job_ended() <= JOBS_REPORTED
        client.stop(state, exit_code, signal, lines=reported)
        for text in client.end_lines() if reported else ():
            print_message(text)

    def _restore_environment(self) -> None:
        for name, value in self._exported.items():
            before = self._before.get(name)
            inner = [s for s in _running() if s._before.get(name) == value]
            if inner:  # a job that began in this one goes on: it puts back what was before both
                inner[-1]._before[name] = before
            elif os.environ.get(name) != value:
                continue  # changed since, by the user's code
            elif before is None:
                del os.environ[name]
            else:
                os.environ[name] = before

    def end_at_exit(self) -> None:
        """Close a job that was not ended: as failed when the interpreter ends with an error."""
        error = _last_error()
        died = error is not None and error is not self._error_before
        failed = died and not hasattr(sys, "ps1")  # at a prompt an error ends nothing
        self._outcome = ("failed" if failed else "completed", None, None)
        self.end()


def open_session(
    args: Mapping[str, Any], strict: bool = False, *, by_start: bool = False, place: Place | None
) -> tuple[Session | None, bool]:
    """Enter the running job, or start one: the session, and whether this entry owns the job.

    `place` is where in the code the job begins; None makes it a job of its own, whatever runs.
    With `by_start` a job that `start()` began is ended first: a cell of a notebook was run again.
    (None, False) when measuring is off or impossible; with `strict` the latter raises RuntimeError.
    Off is the user's own wish and never an error.
    """
    global _current
    if switched_off():
        return None, False
    if text := refused():
        _give_up(text, strict)
        return None, False
    try:
        _hook()
        if by_start:
            _end_started()
        with _gate:
            if _current is not None and place is not None:
                _current.report_joined(args)
                return _current, _current.enter()
            if place is not None and (outer := _outer()) is not None:
                outer.report_joined(args)
                return outer, False
            client = Client(_new_id(place, args), TRACK, args)
            session = Session(client, by_start=by_start, around=_current)
            owner = session.enter()
            session.begin()
            _current = session
            return session, owner
    except Exception as error:
        went_on = "" if strict else "; the job goes on unmeasured"
        _give_up(f"measuring could not start ({error!r}){went_on}", strict)
        return None, False


def joined_session() -> Session | None:
    """Return the running job of another process that this one counts into already, if any."""
    if _current is None:
        for session in reversed(_joined.values()):
            if session.client.alive:
                return session
    return None


def _outer() -> Session | None:
    """Return the running job of another process that this one counts into; None without one."""
    if (session := joined_session()) is not None:
        return session
    client = Client.find()
    if client is None:
        return None
    own = os.environ.get(JOB_ID, "").strip()
    if declared_job(os.environ) and not names(own, client.job_id):
        return None
    return _join(client)


def _join(client: Client) -> Session:
    global _joined
    _joined = {name: other for name, other in _joined.items() if other.runs}
    session = _joined[client.job_id] = Session(client)
    return session


def _reconnected(
    name: str, folder: JobFolder | None, job_role: str, args: Mapping[str, Any]
) -> Session | None:
    """Return the session of a job that was pickled, perhaps in another process."""
    if switched_off():
        return None
    _hook()
    for session in (*_running(), _joined.get(name)):
        if session is not None and session.id == name and session.runs:
            return session
    return _join(Client(name, WORKER, args, folder=folder, job_role=job_role))


def running_session() -> Session | None:
    """Return the session of the job that this process counts into; None without any."""
    return _current or (None if switched_off() else _outer())


def _running() -> list[Session]:
    """Return the running jobs of this process, the innermost first."""
    sessions, session = list[Session](), _current
    while session is not None:
        sessions.append(session)
        session = session.around
    return sessions


def _remove(session: Session) -> None:
    """Take a job out of those that run; one may end before another that began in it."""
    global _current
    if session is _current:
        _current = session.around
    for other in _running():
        if other.around is session:
            other.around = session.around


def _new_id(place: Place | None, args: Mapping[str, Any]) -> str:
    """Return the id of a job that begins at this place of the code; None for one of its own."""
    if place is None:
        return new_job_id()
    text = f"{os.path.basename(place[0])}:{place[1]}"  # the folder differs between machines
    _begun[text] = number = _begun.get(text, -1) + 1

    def project() -> str:
        from gramwatt.collectors.settings.config import resolve  # most jobs begin without it

        return resolve(args).project

    return job_id(f"{text} {number}", project=project)[0]


def _end_started() -> None:
    with _gate:
        session = _current
        if session is None or not session.by_start:
            return
        _remove(session)
    session.end()


def _give_up(why: str, strict: bool) -> None:
    if strict:
        raise RuntimeError(why)
    print_message(why)


def close_session(session: Session | None, owner: bool, error: BaseException | None) -> None:
    """Leave the job; the last one to leave ends it and waits for the final reading."""
    if session is None or session not in _running():
        return  # off, ended already, or a forked child that leaves its parent's block
    try:
        with _gate:
            if not session.leave(owner, outcome_of(error)):
                return
            _remove(session)
        session.end()
    except Exception as problem:
        print_message(f"measuring could not be ended ({problem!r}); the job goes on")


def outcome_of(error: BaseException | None) -> tuple[str, int | None, int | None]:
    """Return state, exit code and signal of a block that was left with `error`."""
    if error is None or isinstance(error, GeneratorExit):
        return "completed", None, None
    if isinstance(error, KeyboardInterrupt):
        return "killed", None, SIGINT
    if isinstance(error, SystemExit):
        code = error.code
        number = code if isinstance(code, int) else int(code is not None)
        return ("failed" if number else "completed"), int(number), None
    return "failed", None, None


def _job_ended() -> int:
    """Count a job that this process ends; returns how many there are, and reports the limit."""
    global _ended
    _ended += 1
    if _ended == JOBS_REPORTED + 1:
        print_message("further jobs of this process end without a line; see `gramwatt jobs`")
    return _ended


def _last_error() -> BaseException | None:
    # Set before sys.excepthook runs, so that atexit sees what the interpreter dies of.
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return error if isinstance(error, BaseException) else None


def _hook() -> None:
    global _hooked
    if not _hooked:
        _hooked = True
        atexit.register(_at_exit)
        os.register_at_fork(after_in_child=_in_child)


def _at_exit() -> None:
    for session in _running():
        try:
            _remove(session)
            session.end_at_exit()
        except Exception as problem:
            print_message(f"measuring could not be ended ({problem!r})")


def _in_child() -> None:
    global _current, _gate
    running, _current, _gate = _running(), None, threading.Lock()
    _joined.update((session.id, session) for session in reversed(running))
    for other in _joined.values():
        other.count_for_parent()
    for window in _windows.get():
        window.ended = True
    _windows.set(())
