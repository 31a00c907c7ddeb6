"""CPU and RAM energy of the job's host, with one reader for each part.

A RAPL counter where there is one; else the model, until codecarbon reads a counter of its own. A
model of codecarbon's is only compared with ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from gramwatt.collectors.common.clock import NS_PER_S, Timeline
from gramwatt.collectors.devices.port import Notify
from gramwatt.collectors.host import model, rapl
from gramwatt.collectors.host.codecarbon import Codecarbon, HostProcess, Reading, Source, Spawn
from gramwatt.collectors.host.machine import Machine
from gramwatt.collectors.host.parts import CPU, RAM, Part
from gramwatt.collectors.journal.intervals import Interval, Ledger
from gramwatt.sci.base import host_model, uncertainty

WAIT_S = 60.0
"""How long counters may be silent before the model is used."""
NAMES = {CPU: "processor", RAM: "memory"}
RAPL = Source("rapl", "measured")
MODELS = {
    CPU: Source(host_model.CPU_MODEL, "estimated"),
    RAM: Source(host_model.RAM_MODEL, "estimated"),
}


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
        self._power_w, self._mark_ns = state["power_w"], state.get("mark_ns")
        self._tried_ns = self._last.time_ns

    def state(self) -> dict[str, Any]:
        """The last reading, JSON-ready."""
        last = self._last
        known = {"since_ns": last.time_ns, "values_uj": last.values_uj} if last else {}
        return {**known, "power_w": self._power_w, "mark_ns": self._mark_ns}

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

    def cut(self, mark_ns: int, now_ns: int) -> bool:
        """Read the counters and end the interval here, unless `mark_ns` [ns] was before the last
        reading: windows, and even the job, may end before the first.
        """
        if self._last is not None and mark_ns <= self._last.time_ns:
            return True
        counted = self.add_sample(now_ns, now_ns)
        self.part.ledger.close()
        return counted

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
            if final and model_w is not None and self._mark_ns is not None:
                # The job ended before the first reading.
                self.part.record_before(self._mark_ns, end_ns, model_w)
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
    """Reads one part without a RAPL counter: by the model, until codecarbon reads a counter."""

    def __init__(self, part: Part, source: Source, power: model.PartModel, since_ns: int) -> None:
        """`source` names the model."""
        self.part, self.source = part, source
        self._modelled, self._model = source, power
        self._since_ns = since_ns
        """Until when the part is recorded [ns]."""
        self._last_w: float | None = None
        """Power of codecarbon's last reading [W]; None while the model is used."""

    def start_at(self, mark_ns: int) -> None:
        """Record energy from `mark_ns` [ns] on."""
        self._since_ns = max(self._since_ns, mark_ns)

    def resume(self, state: dict[str, Any]) -> None:
        """Continue where another meter's reader stood."""
        self.start_at(int(state["since_ns"]))

    def state(self) -> dict[str, Any]:
        """Until when the part is recorded, JSON-ready."""
        return {"since_ns": self._since_ns}

    def due_ns(self) -> None:
        """Never by itself."""

    def add_sample(self, time_ns: int, until_ns: int, *, final: bool = False) -> bool:
        """Record the span since the last sample up to `until_ns` [ns].

        Where codecarbon reads a counter its next reading spans it; at the end, and when it is
        silent for a minute, its last power does.
        """
        if not final:
            self._model.observe(self.part.ledger)
        silent = time_ns - self._since_ns >= WAIT_S * NS_PER_S
        if final or silent or self._last_w is None:
            self._estimate(until_ns)
        return True

    def cut(self, mark_ns: int, now_ns: int) -> bool:
        """End the interval at `mark_ns` [ns], unless codecarbon's next reading spans it."""
        if self._last_w is None:
            self._estimate(min(mark_ns, now_ns))
            self.part.ledger.close()
        return True

    def add_reading(
        self, start_ns: int, end_ns: int, energy_j: float, until_ns: int, source: Source
    ) -> None:
        """Record the energy [J] of codecarbon's counter over [start, end), up to `until_ns` [ns].

        What lies before and is not recorded yet is estimated. A counter that stood still is none.
        """
        if energy_j <= 0:
            return
        power_w = energy_j * NS_PER_S / (end_ns - start_ns)
        self._estimate(min(start_ns, until_ns))
        end_ns = min(end_ns, until_ns)
        if end_ns <= self._since_ns:
            return
        energy_j = power_w * (end_ns - self._since_ns) / NS_PER_S
        self.part.record(self._since_ns, end_ns, energy_j, source.kind)
        self._since_ns, self._last_w, self.source = end_ns, power_w, source
        self._model.restart()

    def use_model(self) -> None:
        """Continue with the model: codecarbon has failed."""
        self._last_w, self.source = None, self._modelled

    def _estimate(self, until_ns: int) -> None:
        """Record the span up to `until_ns` [ns] by codecarbon's last power, else by the model."""
        if until_ns <= self._since_ns:
            return
        power_w = self._model.power_w() if self._last_w is None else self._last_w
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
        machine: Machine,
    ) -> None:
        """`readers` are those of CPU and RAM; `codecarbon` is None where none of them uses it."""
        self._timeline, self._readers, self._notify = timeline, readers, notify
        self._codecarbon, self._machine = codecarbon, machine
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

    def settle(self) -> None:
        """Record what can be recorded now."""
        now_ns = self._timeline.now_ns()
        for name, reader in self._readers.items():
            self._report_gap(name, reader.add_sample(now_ns, now_ns))

    def mark(self, mark_ns: int) -> None:
        """A window's boundary [ns]: record what can be recorded, and end the intervals there."""
        now_ns = self._timeline.now_ns()
        for name, reader in self._readers.items():
            self._report_gap(name, reader.cut(mark_ns, now_ns))

    def on_output(self) -> None:
        """Record what codecarbon has written; its end of file is its death."""
        self._read_codecarbon(self._timeline.now_ns())

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

    def _read_codecarbon(self, until_ns: int) -> None:
        """Record its readings up to `until_ns` [ns]; one without a counter is compared, once."""
        codecarbon = self._codecarbon
        if codecarbon is None:
            return
        for reading in codecarbon.read():
            start_ns, end_ns, energy_j, _ = reading
            counted = [name for name in self._models if name in codecarbon.counters]
            for name in counted:
                source = codecarbon.counters[name]
                reader = self._models[name]
                reader.add_reading(start_ns, end_ns, energy_j[name], until_ns, source)
            if not counted:
                self._compare(reading)
                codecarbon.end()
                self._codecarbon = None
                return
        self._check_codecarbon()

    def _compare(self, reading: Reading) -> None:
        """Leave a notice where a model of codecarbon's is outside the range of ours."""
        span_s = (reading.end_ns - reading.start_ns) / NS_PER_S
        threads, memory_b = self._machine.threads_total, self._machine.memory_total_b
        ours_w: dict[str, float] = {}
        if threads and reading.load is not None:
            ours_w[CPU] = host_model.cpu_power_w(threads, reading.load)
        if memory_b:
            ours_w[RAM] = host_model.ram_power_w(memory_b)
        for name in [name for name in ours_w if name in self._models]:
            range_ = uncertainty.relative_range("estimated", MODELS[name].meter)
            low_w, high_w = range_.low * ours_w[name], range_.high * ours_w[name]
            theirs_w = reading.energy_j[name] / span_s
            if not low_w <= theirs_w <= high_w:
                self._notify(
                    "host-cross-check",
                    f"For this host's {NAMES[name]} codecarbon's model gives {theirs_w:.1f} W, "
                    f"the one used {ours_w[name]:.1f} W ({low_w:.1f} to {high_w:.1f}).",
                )

    def _check_codecarbon(self) -> None:
        if self._codecarbon is None or self._codecarbon.failure is None:
            return
        text = f"{self._codecarbon.failure}; the host's energy is the model's."
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
    folder, threads = machine.usage, machine.threads
    load = (lambda: model.cgroup_load(folder, threads)) if folder and threads else None
    powers: dict[str, model.PartModel] = {
        CPU: model.CpuModel(machine.threads_total, load),
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
            readers[name] = ModelReader(part, MODELS[name], powers[name], timeline.start_ns)
    return HostMeter(timeline, readers, notify, codecarbon, machine)
