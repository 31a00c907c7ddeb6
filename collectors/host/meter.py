"""CPU and RAM energy of the job's host, with one reader for each part.

A RAPL counter where there is one, else codecarbon once it runs, else the model. Memory without a
counter stays with codecarbon, or with the model without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from gramwatt.collectors.common.clock import NS_PER_S, Timeline
from gramwatt.collectors.devices.base import Notify
from gramwatt.collectors.host import model, rapl
from gramwatt.collectors.host.codecarbon import Codecarbon, HostProcess, Spawn
from gramwatt.collectors.host.machine import Machine
from gramwatt.collectors.host.parts import CPU, RAM, Part
from gramwatt.collectors.journal.intervals import Interval, Ledger

SETTLED_READINGS = 5
"""Number of codecarbon's readings whose mean power fills the span before the first; one comes
every 2 s."""
WAIT_S = 60.0
"""How long counters may be silent before the model is used."""


class Source(NamedTuple):
    """What a part's energy comes from: the meter's name and the kind of its figures."""

    meter: str
    kind: str


RAPL = Source("rapl", "measured")
MODEL = Source("gramwatt-model", "estimated")
CODECARBON_RAPL = Source("codecarbon-rapl", "measured")
CODECARBON_MODEL = Source("codecarbon-model", "estimated")


class CounterReading(NamedTuple):
    """Values of a part's counters [uJ] by domain at one moment of the timeline [ns]."""

    time_ns: int
    values_uj: dict[str, int]


class RaplReader:
    """Reads one part from its RAPL counters."""

    def __init__(
        self, part: Part, domains: tuple[rapl.Domain, ...], power: model.PartModel, mark_ns: int
    ) -> None:
        self.part, self.source = part, RAPL
        self._last: CounterReading | None = None
        self._domains, self._model = domains, power
        self._mark_ns: int | None = mark_ns
        self._power_w: float | None = None
        self._tried_ns = 0

    def start_at(self, mark_ns: int) -> None:
        """Record from `mark_ns` [ns] on; the span before the first reading is extrapolated."""
        self._mark_ns = mark_ns

    def resume(self, state: dict[str, Any]) -> None:
        """Continue from another meter's last reading: the counters span the gap. After a meter
        that had none the gap is extrapolated.
        """
        if "values_uj" not in state:
            self._mark_ns = int(state["since_ns"])
            return
        self._last = CounterReading(int(state["since_ns"]), dict(state["values_uj"]))
        self._power_w, self._mark_ns = state["power_w"], None
        self._tried_ns = self._last.time_ns

    def state(self) -> dict[str, Any]:
        """The last reading, JSON-ready."""
        last = self._last
        known = {"since_ns": last.time_ns, "values_uj": last.values_uj} if last else {}
        return {**known, "power_w": self._power_w}

    def due_ns(self) -> int:
        """When the counters must be read again, so that no wrap is missed [ns]."""
        return self._tried_ns + int(rapl.POLL_S * NS_PER_S)

    def add_sample(self, time_ns: int, until_ns: int, *, final: bool = False) -> bool:
        """Record the span since the last reading up to `until_ns`. Returns False when the model's
        power was used instead of the counters'.

        Counters that cannot be read now continue to count, so that their next value spans this
        one; the model is used only after a minute, or at the end.
        """
        model_w = self._model.power_w()
        self._model.restart()
        self._tried_ns = time_ns
        counted = self._add_reading(time_ns, until_ns, model_w, final=final)
        self._model.observe(self.part.ledger)
        return counted

    def cut(self, now_ns: int) -> bool:
        """Read the counters and end the interval here."""
        counted = self.add_sample(now_ns, now_ns)
        self.part.ledger.close()
        return counted

    def provisional(self, now_ns: int) -> None:
        """Nothing: counters are recorded up to their last reading."""

    def _add_reading(
        self, time_ns: int, until_ns: int, model_w: float | None, *, final: bool
    ) -> bool:
        now = CounterReading(time_ns, rapl.read_counters(self._domains))
        last, end_ns = self._last, min(time_ns, until_ns)
        if last is None:
            self._last = now
            return True
        span_s = (time_ns - last.time_ns) / NS_PER_S
        silent = len(now.values_uj) < len(self._domains)
        if end_ns <= last.time_ns or (silent and span_s < WAIT_S and not final):
            return True
        each_w = self._power_w / len(self._domains) if self._power_w else None
        step = rapl.energy_step(self._domains, last.values_uj, now.values_uj, span_s, each_w)
        self._last = now
        power_w = step.energy_j / span_s if step else model_w
        if power_w is None:
            self.part.ledger.close()
            return False
        if self._mark_ns is not None and self._mark_ns < last.time_ns:
            self.part.record_before(self._mark_ns, last.time_ns, power_w)
        self._mark_ns = None
        kind = "estimated"
        if step is not None and step.sure:
            self._power_w, kind = power_w, "measured"
        energy_j = power_w * (end_ns - last.time_ns) / NS_PER_S
        self.part.record(last.time_ns, end_ns, energy_j, kind)
        return step is not None


class ModelReader:
    """Reads one part without a counter: codecarbon's readings once they come, else the model.

    The span before codecarbon's first reading is filled with its mean power and the span after
    the last with its last power, both `estimated`.
    """

    def __init__(
        self, part: Part, power: model.PartModel, since_ns: int, *, by_codecarbon: bool
    ) -> None:
        """`by_codecarbon` says that codecarbon is expected to read this part."""
        self.part, self.source = part, MODEL
        self._since_ns = since_ns
        """Until when the part is recorded [ns]."""
        self._gap: tuple[int, int] | None = None
        """The span before codecarbon's first reading [ns] while it is not recorded."""
        self._model, self._by_codecarbon = power, by_codecarbon
        self._readings = self._read_ns = 0
        self._read_j = self._last_w = 0.0

    def start_at(self, mark_ns: int) -> None:
        """Record energy from `mark_ns` [ns] on."""
        self._since_ns = max(self._since_ns, mark_ns)

    def resume(self, state: dict[str, Any]) -> None:
        """Continue where another meter's reader stood."""
        self.start_at(int(state["since_ns"]))
        if state.get("gap"):
            self.part.record_before(*state["gap"])

    def state(self) -> dict[str, Any]:
        """Until when the part is recorded, and the gap with its power [W], JSON-ready."""
        gap = [*self._gap, self._mean_w()] if self._gap else None
        return {"since_ns": self._since_ns, "gap": gap}

    def due_ns(self) -> None:
        """Never by itself."""

    def add_sample(self, time_ns: int, until_ns: int, *, final: bool = False) -> bool:
        """Record the span since the last sample up to `until_ns` [ns], unless codecarbon does.

        At the end its last power, or without a reading the model's, covers the rest.
        """
        if not final:
            self._model.observe(self.part.ledger)
        if final and self._readings:
            self._fill_gap()
            self._record(until_ns, self._last_w)
        elif final or not self._by_codecarbon:
            self._record(until_ns, self._model.power_w())
        return True

    def cut(self, now_ns: int) -> bool:
        """End the interval here, unless codecarbon's next reading spans this moment."""
        if not self._by_codecarbon:
            self._record(now_ns, self._model.power_w())
            self.part.ledger.close()
        return True

    def provisional(self, now_ns: int) -> Interval | None:
        """An interval for the span that waits for codecarbon's first readings."""
        span = self._gap
        power_w = self._mean_w() if span else None
        if self._by_codecarbon and not self._readings:
            span, power_w = (self._since_ns, now_ns), self._model.power_w()
        if span is None or power_w is None or span[1] <= span[0]:
            return None
        return self.part.provisional(*span, power_w)

    def add_reading(
        self, start_ns: int, end_ns: int, energy_j: float, until_ns: int | None
    ) -> None:
        """Record codecarbon's energy [J] over [start, end), cut at `until_ns` [ns]."""
        start_ns = self._since_ns if self._readings else max(start_ns, self._since_ns)
        if end_ns <= start_ns:
            return
        if start_ns > self._since_ns:
            self._gap = (self._since_ns, start_ns)
        self._last_w = energy_j * NS_PER_S / (end_ns - start_ns)
        if until_ns is not None and start_ns < until_ns < end_ns:
            energy_j *= (until_ns - start_ns) / (end_ns - start_ns)
            end_ns = until_ns
        self.part.record(start_ns, end_ns, energy_j, self.source.kind)
        self._read_j += energy_j
        self._read_ns += end_ns - start_ns
        self._since_ns = end_ns
        self._readings += 1
        if self._readings == SETTLED_READINGS:
            self._fill_gap()

    def use_model(self) -> None:
        """Continue with the model: codecarbon has failed."""
        self._fill_gap()
        self._by_codecarbon, self._readings = False, 0
        self.source = MODEL

    def _mean_w(self) -> float:
        return self._read_j * NS_PER_S / self._read_ns

    def _fill_gap(self) -> None:
        gap, self._gap = self._gap, None
        if gap:
            self.part.record_before(*gap, self._mean_w())

    def _record(self, until_ns: int, power_w: float | None) -> None:
        if until_ns <= self._since_ns:
            return
        if power_w is None:
            self.part.ledger.close()  # unknown, and so no interval: the engine says unmeasured
        else:
            energy_j = power_w * (until_ns - self._since_ns) / NS_PER_S
            self.part.record(self._since_ns, until_ns, energy_j, "estimated")
        self._since_ns = until_ns
        self._model.restart()


Reader = RaplReader | ModelReader


class HostMeter:
    """The host's meter of one job and node: it asks each part's reader when it is due."""

    def __init__(
        self,
        timeline: Timeline,
        readers: Mapping[str, Reader],
        notify: Notify,
        codecarbon: Codecarbon | None,
    ) -> None:
        """`readers` are those of CPU and RAM; `codecarbon` is None where none of them uses it."""
        self._timeline, self._readers, self._notify = timeline, readers, notify
        self._codecarbon = codecarbon
        self._models = {n: r for n, r in readers.items() if isinstance(r, ModelReader)}

    @property
    def process(self) -> HostProcess | None:
        """The codecarbon process while it runs."""
        return self._codecarbon.process if self._codecarbon else None

    @property
    def ledgers(self) -> tuple[Ledger, Ledger]:
        """The ledgers of CPU and RAM."""
        return self._readers[CPU].part.ledger, self._readers[RAM].part.ledger

    @property
    def sources(self) -> tuple[Source, Source]:
        """What the energy of CPU and of RAM comes from now."""
        return self._readers[CPU].source, self._readers[RAM].source

    def resume(self, state: Mapping[str, Any]) -> None:
        """Continue from the `state` of a meter that died or ended; a part it lacks begins now."""
        for name, reader in self._readers.items():
            if name not in state:
                reader.start_at(self._timeline.now_ns())
                continue
            reader.part.ledger.open = Interval.restored(state[name]["open"])
            reader.resume(state[name])

    def state(self) -> dict[str, Any]:
        """What the next meter needs to continue, for JSON."""
        found = {}
        for name, reader in self._readers.items():
            opened = reader.part.ledger.open
            found[name] = {**reader.state(), "open": opened.state() if opened else None}
        return found

    def start_at(self, mark_ns: int) -> None:
        """Record energy from `mark_ns` [ns] on: the job's start, or a takeover without a state."""
        for reader in self._readers.values():
            reader.start_at(mark_ns)

    def due_ns(self) -> int | None:
        """When counters or codecarbon are due [ns]; None when nothing is due by itself."""
        dues = [reader.due_ns() for reader in self._readers.values()]
        dues += [self._codecarbon.due_ns()] if self._codecarbon else []
        return min((due_ns for due_ns in dues if due_ns is not None), default=None)

    def tick(self) -> None:
        """Read the counters that are due; start codecarbon, or give up on a silent one."""
        now_ns = self._timeline.now_ns()
        if self._codecarbon:
            self._codecarbon.tick()
            self._check_codecarbon()
        for name, reader in self._readers.items():
            due_ns = reader.due_ns()
            if due_ns is not None and now_ns >= due_ns:
                self._report_gap(name, reader.add_sample(now_ns, now_ns))

    def settle(self) -> list[dict[str, Any]]:
        """Record what can be recorded now; returns the provisional intervals of the rest."""
        now_ns, found = self._timeline.now_ns(), []
        for name, reader in self._readers.items():
            self._report_gap(name, reader.add_sample(now_ns, now_ns))
            if interval := reader.provisional(now_ns):
                found.append(interval.fields(reader.part.ledger.device_id))
        return found

    def mark(self, _mark_ns: int) -> None:
        """A window's boundary: record what can be recorded now, and end the intervals there."""
        now_ns = self._timeline.now_ns()
        for name, reader in self._readers.items():
            self._report_gap(name, reader.cut(now_ns))

    def on_output(self) -> None:
        """Record what codecarbon has written; its end of file is its death."""
        self._read_codecarbon(None)

    def stop(self, stop_ns: int) -> None:
        """Record everything up to `stop_ns` [ns] and end codecarbon, without waiting for it."""
        self._read_codecarbon(stop_ns)
        if self._codecarbon:
            self._codecarbon.end()
            self._codecarbon = None
        now_ns = self._timeline.now_ns()
        for name, reader in self._readers.items():
            self._report_gap(name, reader.add_sample(now_ns, stop_ns, final=True))
            reader.part.ledger.close()

    def _read_codecarbon(self, until_ns: int | None) -> None:
        codecarbon = self._codecarbon
        if codecarbon is None:
            return
        readings = codecarbon.read()
        if codecarbon.cpu_kind:
            self._set_sources(codecarbon.cpu_kind)
        for start_ns, end_ns, energy_j in readings:
            for name, reader in self._models.items():
                reader.add_reading(start_ns, end_ns, energy_j[name], until_ns)
        self._check_codecarbon()

    def _set_sources(self, cpu_kind: str) -> None:
        for name, reader in self._models.items():
            counted = name == CPU and cpu_kind == "measured"
            reader.source = CODECARBON_RAPL if counted else CODECARBON_MODEL

    def _check_codecarbon(self) -> None:
        if self._codecarbon is None or self._codecarbon.failure is None:
            return
        text = f"{self._codecarbon.failure}; host energy is estimated from load."
        self._notify("meter-source-absent", text)
        self._codecarbon.end()
        self._codecarbon = None
        for reader in self._models.values():
            reader.use_model()

    def _report_gap(self, name: str, counted: bool) -> None:
        if not counted:
            self._notify("meter-gap", f"RAPL gave no {name} energy for a while.")


def host_meter(
    timeline: Timeline,
    machine: Machine,
    parts: Mapping[str, Part],
    notify: Notify,
    spawn: Spawn | None,
    found: rapl.Counters | None,
) -> HostMeter:
    """The meter of this host, with the best reader for each part.

    RAPL is used where every package can be read; `spawn` starts codecarbon, None without it.
    """
    powers: dict[str, model.PartModel] = {
        CPU: model.CpuModel(machine.threads_total),
        RAM: model.RamModel(machine.memory_total_b),
    }
    readers: dict[str, Reader] = {}
    uncounted = [name for name in parts if not (found and found.usable and found.of(name))]
    codecarbon = Codecarbon(spawn, timeline) if spawn and uncounted else None
    for name, part in parts.items():
        if found and name not in uncounted:
            readers[name] = RaplReader(part, found.of(name), powers[name], timeline.start_ns)
            readers[name].add_sample(timeline.now_ns(), timeline.now_ns())
        else:
            readers[name] = ModelReader(
                part, powers[name], timeline.start_ns, by_codecarbon=codecarbon is not None
            )
    return HostMeter(timeline, readers, notify, codecarbon)
