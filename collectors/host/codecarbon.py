"""codecarbon's process from the meter's side: when it starts, what it reads, and how it fails.

`codecarbon_process` is the other side. It takes 2 to 7 s to start and reads seconds late; the
meter never waits for it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from gramwatt.collectors.common.clock import NS_PER_S, Timeline
from gramwatt.collectors.host.parts import CPU, RAM

START_AFTER_NS = 5 * NS_PER_S
"""Age of the job at which it is started: most jobs that are shorter never need it."""
GIVE_UP_NS = 60 * NS_PER_S
"""Without a reading by then it has failed."""
LONGEST_NS = 3_600 * NS_PER_S
"""A reading over more is none: one comes every 2 s."""
READ_B = 65_536
NOT_OURS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What a line that codecarbon or one of its libraries prints may raise when it is read."""


class HostProcess(Protocol):
    """A codecarbon process: the file descriptor of its output, and its end."""

    fd: int

    def kill(self) -> None:
        """End it and collect it, without waiting for anything it does."""


Spawn = Callable[[], HostProcess]


class Source(NamedTuple):
    """What a part's energy comes from: the meter's name and the kind of its figures."""

    meter: str
    kind: str


class Reading(NamedTuple):
    """Energy of the whole host over [start, end) on the job's timeline [ns], by part [J].

    `load` is the host's mean load (0 to 1) meanwhile, None where it is not known.
    """

    start_ns: int
    end_ns: int
    energy_j: dict[str, float]
    load: float | None


class Codecarbon:
    """Starts codecarbon and parses its lines; `failure` says why it is of no use, once it is."""

    def __init__(self, spawn: Spawn, timeline: Timeline) -> None:
        self.process: HostProcess | None = None
        self.counters: dict[str, Source] = {}
        """The parts for which it reads a counter, as it says when it starts."""
        self.failure: str | None = None
        self._spawn, self._timeline = spawn, timeline
        self._started = self._has_read = False
        self._buffer = b""

    def due_ns(self) -> int | None:
        """When it is to be started [ns]; None when it has been."""
        return None if self._started else self._timeline.start_ns + START_AFTER_NS

    def tick(self) -> None:
        """Start it when the job is old enough. Sets `failure` when it cannot start or is silent."""
        age_ns = self._timeline.now_ns() - self._timeline.start_ns
        if not self._started and age_ns >= START_AFTER_NS:
            self._started = True
            try:
                self.process = self._spawn()
            except OSError as error:
                self.failure = f"codecarbon could not be started ({error})"
        elif self._started and not self._has_read and age_ns >= START_AFTER_NS + GIVE_UP_NS:
            self.failure = "codecarbon gave no reading within a minute"

    def read(self) -> list[Reading]:
        """Readings that have arrived. Sets `failure` when the process cannot measure or ended."""
        if self.process is None:
            return []
        try:
            data = os.read(self.process.fd, READ_B)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        *lines, rest = (self._buffer + data).split(b"\n")
        self._buffer = rest[-READ_B:]
        found = [reading for line in lines if (reading := self._parsed(line))]
        if not data and not self.failure:
            self.failure = "codecarbon ended"
        return found

    def end(self) -> None:
        """End the process, if there is one."""
        process, self.process = self.process, None
        if process is not None:
            with contextlib.suppress(Exception):
                process.kill()

    def _parsed(self, line: bytes) -> Reading | None:
        """The reading in a line; None for another message, and for what is none of ours."""
        try:
            message = json.loads(line)
            return self._understood(message) if isinstance(message, dict) else None
        except NOT_OURS:
            return None

    def _understood(self, message: dict[str, Any]) -> Reading | None:
        if "absent" in message:
            self.failure = str(message["absent"])[:200]
        elif "started" in message:
            for part in (CPU, RAM):
                meter, kind = message["counters"].get(part, ("", ""))
                if kind in ("measured", "integrated"):
                    self.counters[part] = Source(str(meter), kind)
        elif "to_ns" in message:
            start_ns, end_ns = self._at(message["from_ns"]), self._at(message["to_ns"])
            energy_j = {part: float(message[f"{part}_j"]) for part in (CPU, RAM)}
            spans = 0 < end_ns - start_ns <= LONGEST_NS
            if spans and all(0 <= j < math.inf for j in energy_j.values()):
                self._has_read = True
                load = message.get("load")
                known = isinstance(load, float) and 0 <= load <= 1
                return Reading(start_ns, end_ns, energy_j, load if known else None)
        return None

    def _at(self, boot_ns: int) -> int:
        """A boot time as a time on the job's timeline, both [ns], exact to the microsecond."""
        return (int(boot_ns) + self._timeline.offset_ns) // 1000 * 1000
