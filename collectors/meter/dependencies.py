"""What a meter depends on: clock, environment, devices, host, codecarbon; tests replace each."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec

from gramwatt.collectors.common.clock import Clock, SystemClock, boot_id, process_start_ns
from gramwatt.collectors.devices.port import DevicePort, Place
from gramwatt.collectors.host.codecarbon import HostProcess
from gramwatt.collectors.host.machine import Machine, this_machine
from gramwatt.collectors.host.rapl import Counters, find_counters, readable
from gramwatt.collectors.sources.vendors import ports

HOST_SOURCE = "GRAMWATT_HOST_SOURCE"
"""Set to `model`, neither counters nor codecarbon are used, for machines where its 90 MB matter and
for tests; set to `codecarbon`, the counters are left to it."""
HOST_NICENESS = 10
"""codecarbon gives way to the job: it is late rather than in the way."""


@dataclass(slots=True)
class Dependencies:
    """Everything outside a meter that it reads or starts; the defaults are this machine's."""

    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    clock: Clock = field(default_factory=SystemClock)
    random: random.Random = field(default_factory=random.Random)
    boot: str = field(default_factory=boot_id)
    process_start_ns: Callable[[int], int | None] = process_start_ns
    machine: Callable[[], Machine] = this_machine
    rapl: Callable[[], bool] = readable
    counters: Callable[[], Counters] = find_counters
    ports: Callable[[Mapping[str, str]], list[DevicePort]] = lambda env: ports(Place(environ=env))
    host_command: list[str] | None = None
    """How codecarbon's process is started; None when it is not installed."""


def rapl_counters(dependencies: Dependencies) -> Counters | None:
    """Return the host's energy counters, where they can be read and are not switched off."""
    if dependencies.environ.get(HOST_SOURCE) in ("model", "codecarbon") or not dependencies.rapl():
        return None
    return dependencies.counters()


class PipedProcess:
    """codecarbon's process, its output on a pipe that never blocks the reader."""

    def __init__(self, command: list[str], environ: Mapping[str, str], folder: str) -> None:
        import subprocess  # most jobs end before they need it

        self.fd, writer = os.pipe()
        try:
            self._process = subprocess.Popen(  # gramwatt's interpreter and module
                command,
                stdin=subprocess.DEVNULL,
                stdout=writer,
                stderr=subprocess.DEVNULL,
                env=dict(environ),
                cwd=folder if os.path.isdir(folder) else "/",
            )
        except OSError:
            os.close(self.fd)
            raise
        finally:
            os.close(writer)
        os.set_blocking(self.fd, False)
        os.setpriority(os.PRIO_PROCESS, self._process.pid, HOST_NICENESS)

    def kill(self) -> None:
        """End it and collect it; its CPU time then counts as the meter's."""
        self._process.kill()
        os.close(self.fd)
        self._process.wait(timeout=1)


def host_command(environ: Mapping[str, str]) -> list[str] | None:
    """Return how codecarbon is started here; None when it is not installed or switched off."""
    try:
        installed = find_spec("codecarbon") is not None  # without importing it
    except (ImportError, ValueError):
        installed = False
    if not installed or environ.get(HOST_SOURCE) == "model":
        return None
    return [sys.executable, "-P", "-m", "gramwatt.collectors.host.codecarbon_process"]


def starter(dependencies: Dependencies, folder: str) -> Callable[[], HostProcess] | None:
    """Return a function that starts codecarbon in `folder`; None when it is not installed."""
    command = dependencies.host_command
    if command is None:
        return None
    from gramwatt.collectors.host.codecarbon_process import environment

    environ = environment(dict(dependencies.environ))
    return lambda: PipedProcess(command, environ, folder)
