"""A vendor's library is asked in a child process first: where it crashes, the meter goes on.

Libraries of drivers are native code, and one that crashes ends the process that called it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from gramwatt.collectors.devices.board import DevicePort, offered

LIMIT_S = 60.0
"""How long the child may take; NVML is known to open in 30 s without persistence mode."""
_DONE = b"."


@contextmanager
def tried(port: DevicePort) -> Iterator[str | None]:
    """Yield how a child process ended that asked a native library what a meter asks; None for well.

    The child holds the library open until the block ends, so that opening it again is quick.
    """
    if not port.native or sys.platform != "linux":
        yield None
        return
    offered(port.prepare)
    ready, report = os.pipe()
    hold, release = os.pipe()
    child = _fork()
    if child == 0:
        _ask_all(port, report, hold)
    os.close(report)
    os.close(hold)
    outcome = _outcome(port, ready, child) if child else None
    try:
        yield outcome
    finally:
        os.close(ready)
        os.close(release)
        if child:
            with suppress(ChildProcessError):  # one that hangs in the driver is not waited for
                os.waitpid(child, os.WNOHANG if outcome else 0)


def _fork() -> int | None:
    """Return the child's id, in the child 0; None where no process may be started any more."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads: the child uses none
        try:
            return os.fork()
        except OSError:
            return None


def _ask_all(port: DevicePort, report: int, hold: int) -> None:
    """Ask everything once, say so, wait for the parent, and end; it never returns."""
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        for name in os.listdir("/proc/self/fd"):  # locks of the meter are not the child's
            if int(name) > 2 and int(name) not in (report, hold):
                with suppress(OSError):
                    os.close(int(name))
        with suppress(Exception):
            port.open()
            for index in range(port.count()):
                for call in (port.board, port.read, port.limit_w):
                    offered(partial(call, index))
                offered(partial(port.profile, index, full=True))
        os.write(report, _DONE)
        os.read(hold, 1)
    finally:
        os._exit(0)


def _outcome(port: DevicePort, ready: int, child: int) -> str | None:
    name = port.library or port.meter
    if not select.select([ready], [], [], LIMIT_S)[0]:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        return f"{name} did not answer within {LIMIT_S:.0f} s"
    if os.read(ready, 1) == _DONE:
        return None
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"{name} crashes when it is asked ({how})"
