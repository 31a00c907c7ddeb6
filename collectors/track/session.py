"""The jobs of a training process: who entered them, what they count, their windows, forks and end.

Runs inside the training process by the rules of `client`; only `strict` has something raised.
"""

from __future__ import annotations

import atexit
import os
import re
import sys
import threading
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
from gramwatt.collectors.settings.platform import refused, switched_off
from gramwatt.collectors.track.client import COMMAND, TRACK, WORKER, Client
from gramwatt.collectors.track.counts import JobFolder, clock_ns
from gramwatt.collectors.track.messages import print_message, quiet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Place = tuple[str, int]
    """File and line of the code in which a job begins."""

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
