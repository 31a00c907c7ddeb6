"""The first questions to a vendor's native library, so that no driver takes the meter with it.

They are asked in a thread: a driver that hangs holds the job up for no longer than LIMIT_S. A
library that crashes ends its process. Until the machine restarts, every later meter, of this job or
another, asks the library in a child process first.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
import warnings
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

from gramwatt.collectors.devices.board import DevicePort, SourceAbsent, offered

LIMIT_S = 5.0
"""How long a job waits for a driver before it begins [s]: without persistence mode NVML takes 1 to
4 s to open, and with many boards longer."""
CHILD_LIMIT_S, POLL_S = 60.0, 0.01
"""How long a child process may take, and how often it is looked at [s]."""
MOST_DESCRIPTORS = 1 << 20


class Crashes:
    """Which libraries are asked in a child process first.

    `folder`, in memory, has a file of each that has crashed since the machine started. All are
    where `after_death`: a meter of this job has died, and its driver may be why.
    """

    def __init__(self, folder: Path, *, after_death: bool = False) -> None:
        self._folder, self._after_death = folder, after_death

    def look(self, port: DevicePort) -> str | None:
        """Return how a library ends a child process that asks it; None if it does not, or is not
        suspected.
        """
        mark = self._folder / f"crashed-{port.meter}"
        if not (port.native and (self._after_death or mark.exists())):
            return None
        crash = crash_of(port)
        with suppress(OSError):
            mark.touch() if crash else mark.unlink(missing_ok=True)
        return crash


class Opening:
    """A port that is being opened: in a thread, where its library is native code."""

    def __init__(self, port: DevicePort, crashes: Crashes) -> None:
        self._port, self._crashes = port, crashes
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._ask, daemon=True)
        if port.native:
            self._thread.start()
            self._thread.join(LIMIT_S)
        else:
            self._ask()

    @property
    def done(self) -> bool:
        """Whether the library has answered; raises what opening it has raised."""
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self._error
        return True

    def _ask(self) -> None:
        try:
            if crash := self._crashes.look(self._port):
                raise SourceAbsent(crash, seen=True)
            self._port.open()
        except Exception as error:
            self._error = error
            return
        if self._port.native:
            ask_all(self._port)


def ask_all(port: DevicePort) -> None:
    """Ask an open port what a meter asks, each device once."""
    offered(port.driver)
    offered(port.remarks)
    for index in range(offered(port.count) or 0):
        for call in (port.board, port.read, port.read_power, port.limit_w, port.users):
            offered(partial(call, index))
        offered(partial(port.power_samples, index, 0))
        offered(partial(port.profile, index, full=True))


def crash_of(port: DevicePort) -> str | None:
    """Return how a child process ends that asks a native library what a meter asks; None for well,
    or where none can be started.
    """
    if not port.native or sys.platform != "linux":
        return None
    offered(port.prepare)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of threads: the child uses none
            child = os.fork()
    except OSError:
        return None
    if child == 0:
        _ask_and_exit(port)
    name, deadline = port.library or port.meter, time.monotonic() + CHILD_LIMIT_S
    while (outcome := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:  # one that hangs in the driver is not waited for
            os.kill(child, signal.SIGKILL)
            return f"{name} does not answer within {CHILD_LIMIT_S:.0f} s"
        time.sleep(POLL_S)
    code = os.waitstatus_to_exitcode(outcome[1])
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"{name} crashes when it is asked ({how})" if code else None


def _ask_and_exit(port: DevicePort) -> NoReturn:
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the meter may be gone before it
        signal.alarm(math.ceil(CHILD_LIMIT_S))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        os.closerange(3, MOST_DESCRIPTORS)  # locks of the meter are not the child's
        with suppress(Exception):
            port.open()
            ask_all(port)
    finally:
        os._exit(0)
