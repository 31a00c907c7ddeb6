"""The host's meter where RAPL can be read: counters of the packages, and of memory where there are.

Memory without a counter stays with codecarbon, or with the model without it. A span in which the
counters cannot be believed is the model's, `estimated`.
"""

from __future__ import annotations

from typing import Any

from gramwatt.collectors.common.clock import NS_PER_S, Timeline
from gramwatt.collectors.gpu.energy import Notify
from gramwatt.collectors.host import model, rapl
from gramwatt.collectors.host.machine import Machine
from gramwatt.collectors.host.meter import HostMeter, Part, Spawn
from gramwatt.collectors.journal.intervals import Ledger, Schedule

METER = "rapl"
WAIT_S = 60.0
"""How long counters may be silent before the model stands in."""


class Counted:
    """One part of the host read from counters: what is booked, and the last reading."""

    __slots__ = ("domains", "last", "mark_ns", "part", "power_w")

    def __init__(self, part: Part, domains: tuple[rapl.Domain, ...]) -> None:
        self.part, self.domains = part, domains
        self.last: tuple[int, dict[str, int]] | None = None
        self.mark_ns: int | None = None
        self.power_w: float | None = None

    def take(
        self, time_ns: int, until_ns: int, model_w: float | None, *, final: bool = False
    ) -> bool:
        """Read the counters and book the span since their last reading, up to `until_ns`.

        Counters that cannot be read now go on, so that their next value spans this one; only after
        a minute, or at the end, does the model's power [W] stand in. Whether it did not have to.
        """
        values = rapl.read(self.domains)
        if self.last is None:
            self.last = (time_ns, values)
            return True
        last_ns, before = self.last
        span_s = (time_ns - last_ns) / NS_PER_S
        silent = len(values) < len(self.domains)
        if min(time_ns, until_ns) <= last_ns or (silent and span_s < WAIT_S and not final):
            return True
        each_w = self.power_w / len(self.domains) if self.power_w else None
        step = rapl.step(self.domains, before, values, span_s, each_w)
        self.last = (time_ns, values)
        power_w = step.energy_j / span_s if step else model_w
        if power_w is None:
            self.part.ledger.close()
            return False
        if self.mark_ns is not None and self.mark_ns < last_ns:
            self.part.book_before(self.mark_ns, last_ns, power_w)
        self.mark_ns = None
        sure = step is not None and step.sure
        self.power_w = power_w if sure else self.power_w
        end_ns = min(time_ns, until_ns)
        kind = "measured" if sure else "estimated"
        self.part.book(last_ns, end_ns, power_w * (end_ns - last_ns) / NS_PER_S, kind)
        return step is not None


class RaplHost(HostMeter):
    """A host meter whose CPU, and RAM where it has a counter, come from RAPL.

    What it inherits books the parts without a counter; those with one it books into nothing.
    """

    def __init__(
        self,
        timeline: Timeline,
        machine: Machine,
        parts: tuple[Part, Part],
        notify: Notify,
        spawn: Spawn | None,
        domains: tuple[rapl.Domain, ...],
    ) -> None:
        by_part = {name: tuple(d for d in domains if d.part == name) for name in ("cpu", "ram")}
        names = zip(("cpu", "ram"), parts, strict=True)
        self._counted = {n: Counted(part, by_part[n]) for n, part in names if by_part[n]}
        self._real = parts
        kept = (_mute(parts[0]), _mute(parts[1]) if "ram" in self._counted else parts[1])
        spawn = None if "ram" in self._counted else spawn
        super().__init__(timeline, machine, kept, notify, spawn)
        self._rapl_load = model.read_load()
        self.start_at(timeline.start_ns)
        self._take_counters(timeline.now_ns(), timeline.now_ns())

    @property
    def ledgers(self) -> tuple[Ledger, Ledger]:
        """The ledgers of CPU and RAM."""
        return self._real[0].ledger, self._real[1].ledger

    @property
    def sources(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Meter and kind of CPU and RAM."""
        ram = (METER, "measured") if "ram" in self._counted else super().sources[1]
        return (METER, "measured"), ram

    def resume(self, state: dict[str, Any]) -> None:
        """Continue where a dead or ended meter's `state` stood; counters span the gap."""
        super().resume(state)
        known = state.get("rapl", {})
        for name, counted in self._counted.items():
            if name in known:
                time_ns, values, counted.power_w = known[name]
                counted.last, counted.mark_ns = (int(time_ns), dict(values)), None
            else:
                counted.mark_ns = int(state["since_ns"])

    def state(self) -> dict[str, Any]:
        """What a successor needs to continue, JSON-ready."""
        known = {
            name: [*counted.last, counted.power_w]
            for name, counted in self._counted.items()
            if counted.last
        }
        return {**super().state(), "rapl": known}

    def start_at(self, mark_ns: int) -> None:
        """Bill from `mark_ns` [ns] on; what lies before the first reading is extrapolated."""
        super().start_at(mark_ns)
        for counted in self._counted.values():
            counted.mark_ns = mark_ns

    def due_ns(self) -> int | None:
        """When the counters or codecarbon are due [ns]."""
        last_ns = max(c.last[0] if c.last else 0 for c in self._counted.values())
        due_ns = last_ns + int(rapl.POLL_S * NS_PER_S)
        inner_ns = super().due_ns()
        return due_ns if inner_ns is None else min(due_ns, inner_ns)

    def tick(self) -> None:
        """Read counters that nobody has asked for in half a minute."""
        super().tick()
        now_ns = self._timeline.now_ns()
        if any(
            counted.last and now_ns - counted.last[0] >= rapl.POLL_S * NS_PER_S
            for counted in self._counted.values()
        ):
            self._take_counters(now_ns, now_ns)

    def settle(self) -> list[dict[str, Any]]:
        """Book what the counters tell so far; provisional intervals of the parts without any."""
        now_ns = self._timeline.now_ns()
        self._take_counters(now_ns, now_ns)
        mine = {counted.part.ledger.device_id for counted in self._counted.values()}
        return [item for item in super().settle() if item["device_id"] not in mine]

    def mark(self, mark_ns: int) -> None:
        """A window's edge: read the counters and cut there."""
        now_ns = self._timeline.now_ns()
        self._take_counters(now_ns, now_ns)
        for counted in self._counted.values():
            counted.part.ledger.close()
        super().mark(mark_ns)

    def stop(self, stop_ns: int) -> None:
        """The final readings, booked up to `stop_ns`."""
        self._take_counters(self._timeline.now_ns(), stop_ns, final=True)
        super().stop(stop_ns)
        for ledger in self.ledgers:
            ledger.close()

    def _take_counters(self, time_ns: int, until_ns: int, *, final: bool = False) -> None:
        load = model.mean_load(self._rapl_load, after := model.read_load())
        self._rapl_load = after
        threads, memory_b = self._machine.threads_total, self._machine.memory_total_b
        models = {
            "cpu": model.cpu_power_w(threads, load) if threads and load is not None else None,
            "ram": model.ram_power_w(memory_b) if memory_b else None,
        }
        for name, counted in self._counted.items():
            if not counted.take(time_ns, until_ns, models[name], final=final):
                self._notify("meter-gap", f"RAPL gave no {name} energy for a while.")
        cpu, ram = self.ledgers
        cpu.observe(None if load is None else round(load, 4), None)
        if "ram" in self._counted:
            ram.observe(None, model.memory_used_b())


def _mute(part: Part) -> Part:
    """A part of the same name that books into nothing."""
    return Part(part.ledger.device_id, part.share, Schedule(0), lambda *_: None)


def host_meter(
    timeline: Timeline,
    machine: Machine,
    parts: tuple[Part, Part],
    notify: Notify,
    spawn: Spawn | None,
    found: rapl.Finding | None,
) -> HostMeter:
    """The best meter of this host: RAPL where all packages can be read, else codecarbon's."""
    if found and found.usable:
        return RaplHost(timeline, machine, parts, notify, spawn, found.domains)
    return HostMeter(timeline, machine, parts, notify, spawn)
