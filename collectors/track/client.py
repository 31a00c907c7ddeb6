"""A process's part in one job: its file of totals and lines in memory, and its connection to the
job's meter, which it starts where it sees none.

All that runs inside the training process. Rules: standard library only, no thread, no signal
handler, no output on stdout, nothing that blocks but `stop`, and nothing is raised. What goes wrong
is reported once on stderr.
"""

from __future__ import annotations

import os
import time

from gramwatt.collectors.settings.proc import (
    GPU_FILES,
    environ_of,
    openable_gpus,
    process_start_ns,
)
from gramwatt.collectors.track.counts import (
    FOLDERS,
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
_NO_ROOM = f"neither {' nor '.join(FOLDERS)} takes the job's files, so it is not measured"
WINDOWS_LEFT_OUT = "windows follow each other too fast; only some of them are measured."


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
        self.ready = self.closed = self.reports = False
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
        print_message(_NO_ROOM)
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
            # Of processes that end at the same moment one reports the end.
            self.reports = folder.take(PRINTED)
            read = self.lines if self.reports else []
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
    """Return the variables that may decide which devices this process has, and its GPUs' files."""
    names = [name for name in os.environ if any(part in name for part in _VISIBLE)]
    variables = {name: os.environ[name] for name in names if name in os.environ}
    gpus = openable_gpus()
    return {**variables, GPU_FILES: gpus} if gpus else variables


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
