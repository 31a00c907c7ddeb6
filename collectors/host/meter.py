"""CPU and RAM energy of the job's host: codecarbon once it runs, a model until then or without it.

codecarbon takes seconds to start and reads seconds late, so the span before its first reading is
filled with its mean power and the tail with its last, both `estimated`. Nothing ever waits for it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from gramwatt.collectors.common.clock import NS_PER_S, Timeline
from gramwatt.collectors.gpu.energy import Notify
from gramwatt.collectors.host import model
from gramwatt.collectors.host.machine import Machine
from gramwatt.collectors.journal.intervals import Interval, Ledger, Schedule

START_AFTER_NS = 5 * NS_PER_S
GIVE_UP_NS = 60 * NS_PER_S
"""A codecarbon without a reading by then is taken as failed; it starts in 2 to 7 s."""
SETTLED_READINGS = 5
"""Readings whose mean power fills the span before the first (10 s at one every 2 s)."""


class HostProcess(Protocol):
    """A codecarbon process: the descriptor of its output, and its end."""

    fd: int

    def kill(self) -> None:
        """End it and collect it, without waiting for anything it does."""


class Part:
    """One device of the host, CPU or RAM: its ledgers and how its energy is billed.

    `share` is the part that is reserved for the job, `fraction` the job's of that while others,
    who have reserved as much, are there too.
    """

    __slots__ = ("_billed_j", "_whole_j", "fill", "fraction", "ledger", "mean_sum_j", "share")

    def __init__(self, device_id: str, share: float, schedule: Schedule, emit: Emit) -> None:
        self.ledger = Ledger(device_id, schedule, emit)
        self.fill = (schedule, emit)
        self.share, self.fraction = share, 1.0
        self.mean_sum_j = 0.0
        self._whole_j = self._billed_j = 0.0

    @property
    def mean_share(self) -> float:
        """The part that was billed so far, weighted by energy."""
        return round(self._billed_j / self._whole_j, 9) if self._whole_j > 0 else self.share

    def billed_j(self, energy_j: float) -> float:
        """The job's part of the host's energy [J], as it is now."""
        billed_j = energy_j * self.share * self.fraction
        self._whole_j += energy_j
        self._billed_j += billed_j
        return billed_j

    def book(self, start_ns: int, end_ns: int, energy_j: float, kind: str) -> None:
        """Book the job's share of the host's energy [J]."""
        whole = self.share * self.fraction >= 1
        label = "attributed" if not whole and kind == "measured" else kind
        billed_j = self.billed_j(energy_j)
        power_w = billed_j * NS_PER_S / (end_ns - start_ns)
        self.ledger.add(start_ns, end_ns, billed_j, label, round(power_w, 3))

    def book_before(self, start_ns: int, end_ns: int, power_w: float) -> None:
        """Book a span that lies before what the ledger has already taken."""
        schedule, emit = self.fill
        before = Ledger(self.ledger.device_id, schedule, emit)
        energy_j = power_w * (end_ns - start_ns) / NS_PER_S
        before.add(start_ns, end_ns, self.billed_j(energy_j), "estimated")
        before.close()


Emit = Callable[[str, Interval], None]
Spawn = Callable[[], HostProcess]
Watts = Sequence[float | None]
"""Power of CPU and RAM [W], None where unknown."""


class HostMeter:
    """The host's meter of one job and node.

    `spawn` starts codecarbon, None when it is not installed. `meter` and `cpu_kind` say what the
    CPU's energy comes from now.
    """

    def __init__(
        self,
        timeline: Timeline,
        machine: Machine,
        parts: tuple[Part, Part],
        notify: Notify,
        spawn: Spawn | None,
    ) -> None:
        self.process: HostProcess | None = None
        self.meter, self.cpu_kind = model.METER, "estimated"
        self._timeline, self._machine, self._notify = timeline, machine, notify
        self._cpu, self._ram = parts
        self._spawn = spawn
        self._load = self._seen_load = model.read_load()
        self._last_w: Watts = (None, None)
        self._since_ns = timeline.start_ns
        self._gap: tuple[int, int] | None = None
        self._readings = 0
        self._read_ns = 0
        self._buffer = b""
        self._until_ns: int | None = None

    @property
    def ledgers(self) -> tuple[Ledger, Ledger]:
        """The ledgers of CPU and RAM."""
        return self._cpu.ledger, self._ram.ledger

    @property
    def sources(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Meter and kind of CPU and RAM, as they are now."""
        return (self.meter, self.cpu_kind), (self.meter.replace("rapl", "model"), "estimated")

    def resume(self, state: dict[str, Any]) -> None:
        """Continue where a dead or ended meter's `state` stood."""
        self._since_ns = max(self._since_ns, int(state["since_ns"]))
        for ledger, known in zip(self.ledgers, state["open"], strict=True):
            ledger.open = Interval.restored(known) if known else None
        if state["gap"]:
            start_ns, end_ns, *watts = state["gap"]
            self._fill(start_ns, end_ns, watts)

    def state(self) -> dict[str, Any]:
        """What a successor needs to continue, JSON-ready."""
        return {
            "since_ns": self._since_ns,
            "gap": [*self._gap, *self._mean_w()] if self._gap else None,
            "open": [led.open.state() if led.open else None for led in self.ledgers],
        }

    def start_at(self, mark_ns: int) -> None:
        """Bill from `mark_ns` [ns] on: a meter that takes over without a state to go by."""
        self._since_ns = max(self._since_ns, mark_ns)

    def due_ns(self) -> int | None:
        """When codecarbon is to be started [ns]; None when there is nothing to do by itself."""
        return self._timeline.start_ns + START_AFTER_NS if self._spawn else None

    def tick(self) -> None:
        """Start codecarbon when the job is old enough, and give up on one that says nothing."""
        now_ns = self._timeline.now_ns()
        age_ns = now_ns - self._timeline.start_ns
        if self._spawn and age_ns >= START_AFTER_NS:
            spawn, self._spawn = self._spawn, None
            try:
                self.process = spawn()
            except OSError as error:
                self._absent(f"codecarbon could not be started ({error})")
        elif self.process and not self._readings and age_ns >= START_AFTER_NS + GIVE_UP_NS:
            self._absent("codecarbon gave no reading within a minute")

    def settle(self) -> list[dict[str, Any]]:
        """Book what the model has to cover so far; returns the provisional intervals instead while
        codecarbon's first readings are still awaited.
        """
        now_ns = self._timeline.now_ns()
        self._observe()
        if self._spawn or (self.process and not self._readings):
            return self._provisional(self._since_ns, now_ns, self._model_w())
        if self._gap:
            return self._provisional(*self._gap, self._mean_w())
        if not self.process:
            self._book_model(now_ns)
        return []

    def mark(self, _mark_ns: int) -> None:
        """A window's edge: book what can be booked now, and cut there."""
        if not (self._spawn or self.process or self._gap):
            self._book_model(self._timeline.now_ns())
            for ledger in self.ledgers:
                ledger.close()

    def on_output(self) -> None:
        """Take what codecarbon has written; its end of file is its death."""
        process = self.process
        if process is None:
            return
        try:
            data = os.read(process.fd, 65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._take(line)
        if not data and self.process:
            self._absent("codecarbon ended")

    def stop(self, stop_ns: int) -> None:
        """Book everything up to `stop_ns` and end codecarbon, without waiting for it."""
        self._until_ns = stop_ns
        self.on_output()
        self._end_process()
        if self._readings:
            self._close_gap()
            if stop_ns > self._since_ns:
                self._book(self._since_ns, stop_ns, self._last_w, "estimated")
        else:
            self._book_model(stop_ns)
        for ledger in self.ledgers:
            ledger.close()

    def _take(self, line: bytes) -> None:
        try:
            said = json.loads(line)
        except ValueError:
            return
        if "absent" in said:
            self._absent(str(said["absent"])[:200])
        elif "started" in said:
            self.cpu_kind = "measured" if said["cpu_kind"] == "measured" else "estimated"
            source = "rapl" if self.cpu_kind == "measured" else "model"
            self.meter = f"codecarbon-{source}"
        elif "to_ns" in said:
            self._take_reading(said)

    def _take_reading(self, said: dict[str, Any]) -> None:
        offset_ns = self._timeline.offset_ns
        start_ns, end_ns = ((int(said[k]) + offset_ns) // 1000 * 1000 for k in ("from_ns", "to_ns"))
        start_ns = max(start_ns, self._since_ns) if not self._readings else self._since_ns
        if end_ns <= start_ns:
            return
        if start_ns > self._since_ns:
            self._gap = (self._since_ns, start_ns)
        scale, seconds = 1.0, (end_ns - start_ns) / NS_PER_S
        if self._until_ns is not None and start_ns < self._until_ns < end_ns:
            scale, end_ns = (self._until_ns - start_ns) / (end_ns - start_ns), self._until_ns
        for part, name, kind in ((self._cpu, "cpu_j", self.cpu_kind), (self._ram, "ram_j", "")):
            part.book(start_ns, end_ns, float(said[name]) * scale, kind or "estimated")
            part.mean_sum_j += float(said[name]) * scale
        self._last_w = float(said["cpu_j"]) / seconds, float(said["ram_j"]) / seconds
        self._read_ns += end_ns - start_ns
        self._since_ns = end_ns
        self._readings += 1
        if self._readings == SETTLED_READINGS:
            self._close_gap()

    def _close_gap(self) -> None:
        gap, self._gap = self._gap, None
        if gap:
            self._fill(*gap, self._mean_w())

    def _fill(self, start_ns: int, end_ns: int, watts: Watts) -> None:
        for part, power_w in zip((self._cpu, self._ram), watts, strict=True):
            if power_w is not None:
                part.book_before(start_ns, end_ns, power_w)

    def _absent(self, why: str) -> None:
        self._notify("meter-source-absent", f"{why}; host energy is estimated from load.")
        self._end_process()
        self._close_gap()
        self._readings = 0
        self.meter, self.cpu_kind = model.METER, "estimated"

    def _end_process(self) -> None:
        process, self.process = self.process, None
        self._spawn = None
        if process is not None:
            with contextlib.suppress(Exception):
                process.kill()

    def _mean_w(self) -> Watts:
        seconds = self._read_ns / NS_PER_S
        return self._cpu.mean_sum_j / seconds, self._ram.mean_sum_j / seconds

    def _model_w(self) -> Watts:
        """Power of the whole host by the model [W], at the load since the last booking."""
        load = model.mean_load(self._load, model.read_load())
        threads, memory_b = self._machine.threads_total, self._machine.memory_total_b
        cpu_w = model.cpu_power_w(threads, load) if threads and load is not None else None
        return cpu_w, model.ram_power_w(memory_b) if memory_b else None

    def _book_model(self, until_ns: int) -> None:
        if until_ns > self._since_ns:
            self._book(self._since_ns, until_ns, self._model_w(), "estimated")
            self._since_ns = until_ns
            self._load = model.read_load()

    def _book(self, start_ns: int, end_ns: int, watts: Watts, kind: str) -> None:
        span_s = (end_ns - start_ns) / NS_PER_S
        for part, power_w in zip((self._cpu, self._ram), watts, strict=True):
            if power_w is None:
                part.ledger.close()  # unknown, and so no interval: the engine says unmeasured
            else:
                part.book(start_ns, end_ns, power_w * span_s, kind)

    def _provisional(self, start_ns: int, end_ns: int, watts: Watts) -> list[dict[str, Any]]:
        """Open intervals that stand in for a span until it is booked for good."""
        found = []
        for part, power_w in zip((self._cpu, self._ram), watts, strict=True):
            if power_w is not None and end_ns > start_ns:
                interval = Interval(start_ns, "estimated")
                interval.end_ns = end_ns
                host_j = power_w * (end_ns - start_ns) / NS_PER_S
                interval.energy_j = host_j * part.share * part.fraction
                found.append(interval.fields(part.ledger.device_id))
        return found

    def _observe(self) -> None:
        before, self._seen_load = self._seen_load, model.read_load()
        load = model.mean_load(before, self._seen_load) if before else None
        self._cpu.ledger.observe(None if load is None else round(load, 4), None)
        self._ram.ledger.observe(None, model.memory_used_b())
