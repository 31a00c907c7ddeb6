"""Time, the queue of events, and who is acting; one generator of random numbers decides all."""

from __future__ import annotations

import heapq
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random

NS_PER_S = 1_000_000_000
DEEPEST = 3
"""How many acts may wait for each other: a sync for its answer, during which another begins."""


class Death(BaseException):
    """The end of a process, as by SIGKILL: no code may catch it."""


class Broken(AssertionError):
    """An invariant does not hold."""


@dataclass(eq=False)
class Process:
    """A process that may die at one of its next system calls; the dead do nothing more."""

    name: str
    doom: int | None = None
    dead: bool = False
    descriptors: set[int] = field(default_factory=set)
    on_saved: Callable[[bool], None] = lambda synced: None
    """Called when an open file has replaced the one before, with whether it was synced."""

    def die(self) -> None:
        """Everything it holds is released, as the kernel does."""
        self.dead = True
        for descriptor in self.descriptors:
            with suppress(OSError):
                os.close(descriptor)
        self.descriptors.clear()


@dataclass(eq=False)
class Machine:
    """A host with a home on its disk, a clock that may be wrong, and a way to the server."""

    name: str
    home: Path
    skew_ns: int = 0
    booted_ns: int = 0
    boots: int = 1
    full: bool = False
    partitioned: bool = False
    release: str = "this"
    """Release of the product that runs there: `older` writes less, `newer` more than this one."""
    alive: dict[int, int] = field(default_factory=dict)
    """Processes by number, with when they began by the boot clock [ns]."""
    syncs: list[Process] = field(default_factory=list)
    """Every `gramwatt sync` that ran there."""

    @property
    def memory(self) -> Path:
        """What stands for its memory: jobs' folders, which a power cut takes."""
        return self.home.parent / f"{self.name}-memory"

    @property
    def boot(self) -> str:
        """The kernel's id of this boot."""
        return f"boot-{self.name}-{self.boots}"

    @property
    def node(self) -> str:
        """The id of the node that it is until its next boot."""
        return f"{self.name}.{self.boots}"


class World:
    """One seed's world; `at` plans an event, `run_until` lets time pass."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self.folder = folder
        self.draw = Random(seed)
        self.now_ns = 0
        self.trace: list[str] = []
        self.faults: Counter[str] = Counter()
        self.calm = False
        """No more faults: the story is over, and everything must come to rest."""
        self.machine: Machine | None = None
        self.process: Process | None = None
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()
        self._depth = 0
        self._began_ns = 0

    def begin(self, start_ns: int) -> None:
        """Set the time at which the story begins [ns]."""
        self.now_ns = self._began_ns = start_ns

    def log(self, text: str) -> None:
        """Add a line to the trace."""
        who = self.machine.name if self.machine else "-"
        self.trace.append(f"{(self.now_ns - self._began_ns) / NS_PER_S:10.3f} {who:3} {text}")

    def fault(self, kind: str, text: str = "") -> None:
        """Note that a fault was injected."""
        self.faults[kind] += 1
        self.log(f"! {kind} {text}".rstrip())

    def chance(self, share: float) -> bool:
        """Whether something happens that does so in this share of cases; nothing while calm."""
        return not self.calm and self.draw.random() < share

    def at(self, time_ns: int, action: Callable[[], None]) -> None:
        """Plan an event."""
        heapq.heappush(self._queue, (max(time_ns, self.now_ns), next(self._numbers), action))

    def after(self, duration_s: float, action: Callable[[], None]) -> None:
        """Plan an event so many seconds from now."""
        self.at(self.now_ns + round(duration_s * 1e6) * 1000, action)

    def pass_s(self, duration_s: float) -> None:
        """Let time pass for whoever waits; what is due meanwhile happens, unless too deep."""
        self.run_until(self.now_ns + round(duration_s * 1e6) * 1000)

    def run_until(self, time_ns: int) -> None:
        """Let everything happen that is due by then."""
        if self._depth < DEEPEST:
            self._depth += 1
            mine = self.machine, self.process
            try:
                while self._queue and self._queue[0][0] <= time_ns:
                    at_ns, _, action = heapq.heappop(self._queue)
                    self.now_ns = max(self.now_ns, at_ns)
                    self.machine = self.process = None
                    action()
            finally:
                self._depth -= 1
                self.machine, self.process = mine
        self.now_ns = max(self.now_ns, time_ns)

    def drain(self) -> None:
        """Let everything happen that is planned."""
        while self._queue:
            self.run_until(self._queue[0][0])

    @contextmanager
    def acting(self, machine: Machine | None, process: Process | None) -> Iterator[None]:
        """Whose system calls those in the block are."""
        before = self.machine, self.process
        self.machine, self.process = machine, process
        try:
            yield
        finally:
            self.machine, self.process = before

    def lives(self, machine: Machine, process: Process, action: Callable[[], object]) -> bool:
        """Whether a process survives an act; a dead one has let go of all it held."""
        try:
            with self.acting(machine, process):
                action()
        except Death:
            process.die()
            self.log(f"{process.name} is dead")
            return False
        return True
