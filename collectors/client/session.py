"""The one running job of a training process: who entered it, its windows, its end, its forks.

Nothing here raises into the user's code unless `strict` asks for it; what goes wrong is reported
once on stderr.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from contextvars import ContextVar

from gramwatt.collectors.client.client import Client, quiet, switched_off
from gramwatt.collectors.client.messages import print_message
from gramwatt.collectors.client.pausing import PausePoint, pause_point
from gramwatt.collectors.common.identity import JOB_ID, UNIT, WITHIN, job_id
from gramwatt.collectors.common.platform import refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

SIGINT = 2
PATH_LENGTH = 512
"""Longest name of a window with those around it: as long as a text of a record may be."""
JOB_SETTINGS = ("project", "name", "region", "zone", "kind")
"""Settings of which a job has one value; a unit is counted beside others."""
SETTINGS_LENGTH = 200
JOBS_REPORTED = 10
"""Jobs of one process that end with a line: a decorated function may be called a thousand times."""
_gate = threading.Lock()
_current: Session | None = None
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
        self.start_ns = time.monotonic_ns()
        self.counts: dict[str | None, float] = {}
        self.path = window_path([*session.windows(), self])


def window_path(windows: list[OpenWindow]) -> str:
    """Return the name of the innermost of these windows with those around it."""
    return "/".join(window.name for window in windows)[:PATH_LENGTH]


_windows: ContextVar[tuple[OpenWindow, ...]] = ContextVar("gramwatt_windows", default=())
"""The windows that are open here: each thread and each asyncio task has its own."""


class Session:
    """A job that this process runs; nested and concurrent entries share it.

    `by_start`: `start()` began it, so that another `start()` ends it.
    """

    def __init__(self, args: Mapping[str, Any], *, by_start: bool = False) -> None:
        self.id, origin = job_id()
        self.by_start = by_start
        self._args = dict(args)
        self.client = Client(self.id, "track", args)
        self._pause_point: PausePoint | None = None
        self._depth = 0
        self._outcome: tuple[str, int | None, int | None] | None = None
        self._exported = {WITHIN: self.id}
        if origin != "environment":
            self._exported[JOB_ID] = self.id
        unit = args.get("unit")
        if isinstance(unit, str):
            self._exported[UNIT] = unit
        self._before: dict[str, str | None] = {}
        self._error_before = _last_error()

    def begin(self) -> None:
        """Start the meter and let child processes join the job and count its unit."""
        self._before = {name: os.environ.get(name) for name in self._exported}
        os.environ.update(self._exported)
        self.client.start()

    def may_pause(
        self, on_pause: Callable[[], object] | None, on_resume: Callable[[], object] | None
    ) -> None:
        """Have the job paused where it counts, with these callbacks; the first entry's count."""
        if self._pause_point is None:
            self._pause_point = pause_point(on_pause, on_resume)

    def enter(self) -> bool:
        """Add one entry; True for the one that owns the job."""
        self._depth += 1
        return self._depth == 1

    def report_joined(self, args: Mapping[str, Any]) -> None:
        """Report the settings of an inner entry that the job has otherwise, and keeps."""
        given = {key: args[key] for key in JOB_SETTINGS if key in args}
        unused = [f"{k}={v!r}" for k, v in given.items() if v != self._args.get(k)]
        if unused:
            text = f"track({', '.join(unused)})"[:SETTINGS_LENGTH]
            text += f" joins job {self.id}, which runs already, and its settings are not used; "
            text += "to measure it by itself, end that job first"
            print_message(f"{text} [argument-ignored]")
            self.client.send_notice(f"argument-ignored: {text}")

    def leave(self, owner: bool, outcome: tuple[str, int | None, int | None]) -> bool:
        """Remove one entry; the owner's outcome is the job's. True when none is left."""
        self._depth -= 1
        if owner or self._outcome is None:
            self._outcome = outcome
        return self._depth <= 0

    def count(self, amount: float, unit: str | None) -> None:
        """Add an amount [R] to the job and to every window that is open here."""
        opened = self.windows()
        for window in opened:
            window.counts[unit] = window.counts.get(unit, 0.0) + amount
        self.client.count(amount, unit, window_path(opened) or None)
        if self._pause_point is not None:
            self._pause_point.check()

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
        """Close a window; windows may overlap, so it need not be the innermost."""
        window.ended = True  # for the thread that opened it, if this is another
        _windows.set(tuple(other for other in _windows.get() if not other.ended))
        self.client.leave_window(window.path, window.start_ns, window.counts)

    @property
    def runs(self) -> bool:
        """Whether this is the job that runs in this process."""
        return self is _current

    def end(self) -> None:
        """Close the job and take its id and unit back out of the environment."""
        if self._pause_point is not None:
            self._pause_point.close()
        for name, value in self._exported.items():
            before = self._before.get(name)
            if os.environ.get(name) != value:
                continue  # changed since, by the user's code
            if before is None:
                del os.environ[name]
            else:
                os.environ[name] = before
        state, exit_code, signal = self._outcome or ("completed", None, None)
        reported = not quiet() and _job_ended() <= JOBS_REPORTED
        self.client.stop(state, exit_code, signal, lines=reported)
        for text in self.client.end_lines() if reported else ():
            print_message(text)

    def end_at_exit(self) -> None:
        """Close a job that was not ended: as failed when the interpreter ends with an error."""
        error = _last_error()
        died = error is not None and error is not self._error_before
        failed = died and not hasattr(sys, "ps1")  # at a prompt an error ends nothing
        self._outcome = ("failed" if failed else "completed", None, None)
        self.end()


def open_session(
    args: Mapping[str, Any], strict: bool = False, *, by_start: bool = False
) -> tuple[Session | None, bool]:
    """Enter the running job, or start one: the session, and whether this entry owns the job.

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
            if _current is not None:
                _current.report_joined(args)
                return _current, _current.enter()
            session = Session(args, by_start=by_start)
            owner = session.enter()
            session.begin()
            _current = session
            return session, owner
    except Exception as error:
        went_on = "" if strict else "; the job goes on unmeasured"
        _give_up(f"measuring could not start ({error!r}){went_on}", strict)
        return None, False


def _end_started() -> None:
    global _current
    with _gate:
        session = _current
        if session is None or not session.by_start:
            return
        _current = None
    session.end()


def _give_up(why: str, strict: bool) -> None:
    if strict:
        raise RuntimeError(why)
    print_message(why)


def close_session(session: Session | None, owner: bool, error: BaseException | None) -> None:
    """Leave the job; the last one to leave ends it and waits for the final reading."""
    global _current
    if session is None or session is not _current:
        return  # off, ended already, or a forked child that leaves its parent's block
    try:
        with _gate:
            if not session.leave(owner, outcome_of(error)):
                return
            _current = None
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
    global _current
    session, _current = _current, None
    if session is not None:
        try:
            session.end_at_exit()
        except Exception as problem:
            print_message(f"measuring could not be ended ({problem!r})")


def _in_child() -> None:
    global _current, _gate
    session, _current, _gate = _current, None, threading.Lock()
    if session is not None:
        session.client.abandon()
