"""What a meter depends on: clock, environment, devices, host, codecarbon; tests replace each."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gramwatt.collectors.devices.board import DevicePort, Place, ports
from gramwatt.collectors.host.codecarbon import PipedProcess
from gramwatt.collectors.host.machine import Machine, this_machine
from gramwatt.collectors.host.rapl import Counters, find_counters
from gramwatt.collectors.host.share import Reader, read_processes
from gramwatt.collectors.serving.poll import Poller, Polls
from gramwatt.collectors.serving.presets import Server
from gramwatt.collectors.settings.clock import Clock, SystemClock
from gramwatt.collectors.settings.proc import boot_id, process_start_ns


@dataclass(slots=True)
class Dependencies:
    """Everything outside a meter that it reads or starts; the defaults are this machine's."""

    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    clock: Clock = field(default_factory=SystemClock)
    random: random.Random = field(default_factory=random.Random)
    boot: str = field(default_factory=boot_id)
    process_start_ns: Callable[[int], int | None] = process_start_ns
    machine: Callable[[], Machine] = this_machine
    counters: Callable[[], Counters] = find_counters
    ports: Callable[[Mapping[str, str]], list[DevicePort]] = lambda env: ports(Place(environ=env))
    processes: Reader = read_processes
    polls: Callable[[Sequence[Server]], Polls] = Poller
    codecarbon: Callable[[str], PipedProcess] | None = None
    """Starts codecarbon in a folder; None when it is not installed."""
