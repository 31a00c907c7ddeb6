"""A process that is measured on a machine, its meters one after the other, and `gramwatt sync`.

The meter here does what `collectors/meter/job_meter.py` does with journal, ledger, counts and
states, over devices whose energy is a known sum; that module has its own seeded tests.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from gramwatt.collectors.settings import files
from gramwatt.collectors.settings.clock import Timeline
from gramwatt.collectors.settings.config import Config
from gramwatt.collectors.spool.counts import CountedSoFar, Processes
from gramwatt.collectors.spool.intervals import Interval, Ledger, Schedule, moment
from gramwatt.collectors.spool.send import SyncResult, sync
from gramwatt.collectors.spool.spool import SpoolFolder, remember_server, spool_root
from gramwatt.collectors.spool.writer import Journal
from gramwatt.collectors.track.counts import JobFolder, Totals
from gramwatt.sci.records.records import (
    CountRecord,
    DeviceRecord,
    EndRecord,
    IntervalRecord,
    JobRecord,
)
from tests.collectors.memory import file_of
from tests.simulation.ledger import Job
from tests.simulation.surroundings import WRITTEN_BACK_NS, wall_ns
from tests.simulation.world import NS_PER_S, Machine, Process, World

SAVE_EVERY_NS = SYNC_EVERY_NS = 10 * NS_PER_S
POWERS_W = (80, 133, 250, 417, 700)


class MachineClock:
    """The clocks of a machine, as a meter reads them."""

    def __init__(self, world: World, machine: Machine) -> None:
        self._world, self._machine = world, machine

    def now_ns(self) -> int:
        """Time since boot [ns]."""
        return self._world.now_ns - self._machine.booted_ns

    mono_ns = now_ns

    def wall_ns(self) -> int:
        """Unix time [ns]."""
        return wall_ns(self._machine)

    def sleep(self, duration_s: float) -> None:
        """Nothing waits here."""
        raise AssertionError(duration_s)


@dataclass(eq=False)
class Gpu:
    """A device whose power changes every 7 s; its energy counter is exact [uJ]."""

    device_id: str
    steps: tuple[int, ...]

    def counter_uj(self, time_ns: int) -> int:
        """Energy since the epoch [uJ], for times of whole microseconds."""
        time_us = time_ns // 1000
        rounds, rest_us = divmod(time_us, 7_000_000 * len(self.steps))
        step, rest_us = divmod(rest_us, 7_000_000)
        whole_w = rounds * sum(self.steps) + sum(self.steps[:step])
        return whole_w * 7_000_000 + self.steps[step] * rest_us


@dataclass(eq=False)
class Client:
    """One measured process: what it did, and how far its meters have saved that."""

    world: World
    machine: Machine
    job: Job
    number: int
    role: str
    gpus: list[Gpu]
    config: Config
    state: str = "completed"
    exit_code: int | None = 0
    totals: Totals = field(init=False)
    memory: JobFolder = field(init=False)
    counted: float = 0.0
    writers: list[str] = field(default_factory=list)
    node: str = ""
    start: dict[str, Any] = field(default_factory=dict)
    meter: Meter | None = None
    meters: list[Meter] = field(default_factory=list)
    """All that it had."""
    over: bool = False
    ended_ns: int = 0
    first_uj: dict[str, int] = field(default_factory=dict)
    saved_uj: dict[str, int] = field(default_factory=dict)
    """Counters up to which the journal has the energy, by device."""
    saved_count: float = 0.0
    writing: tuple[dict[str, int], dict[str, int]] | None = None
    """First and last counters of a write in which a meter died: any part of it may be there."""
    forgotten: bool = False
    """Whether a power cut took from memory what it had counted, after its death."""
    cut_ns: int | None = None
    """When its machine first lost power [ns], so that it may have lost what was saved last."""

    @property
    def cut(self) -> bool:
        """Whether its machine lost power while it ran."""
        return self.cut_ns is not None

    @property
    def has_saved(self) -> bool:
        """Whether one of its meters has written an open file."""
        return any(meter.saves for meter in self.meters)

    def least_uj(self, name: str) -> int:
        """The energy of a device that must be in the journal [uJ]."""
        if self.cut_ns is None:
            return self.saved_uj[name] - self.first_uj[name]
        return sum(meter.kept_uj(name, self.cut_ns) for meter in self.meters)

    def most_uj(self, name: str) -> int:
        """The energy of a device that may be in the journal [uJ]."""
        first_uj, last_uj = self.first_uj[name], self.saved_uj[name]
        if self.writing and name in self.writing[0]:
            first_uj = min(first_uj, self.writing[0][name])
            last_uj = max(last_uj, self.writing[1].get(name, 0))
        return last_uj - first_uj

    def begin(self) -> None:
        """Start, with a meter."""
        if self.number in self.machine.alive:
            return
        boot_ns = self.world.now_ns - self.machine.booted_ns
        self.machine.alive[self.number] = boot_ns
        self.node = self.machine.node
        wall = wall_ns(self.machine)
        name = f"{self.number}-{boot_ns}-1"
        self.memory = JobFolder(f"{self.machine.memory}/{self.job.job_id}.{name}")
        os.makedirs(self.memory.path)
        self.start = {"job_id": self.job.job_id, "role": self.role, "pid": self.number}
        self.start |= {"began_ns": boot_ns, "at_ns": boot_ns, "wall_ns": wall}
        self.totals = file_of(self.memory, name, self.start)
        self.job.clients.append(self)
        self.world.log(f"client {self.number} of {self.job.job_id} begins")
        self.launch()

    def launch(self) -> None:
        """Start a meter, the first or one more."""
        if self.over or self.meter is not None:
            return
        meter = Meter(self)
        self.meter = meter
        self.meters.append(meter)
        if self._survives(meter.begin):
            self._tick(meter)

    def count(self, amount: float) -> None:
        """Count units; the meter reads the total when it saves."""
        self.counted += amount
        self.totals.count(amount, "image", None)

    def kill_meter(self) -> None:
        """Kill the meter; the client starts another one."""
        if self.meter is not None:
            self.world.fault("kill", f"meter of {self.number}")
            self.meter.process.die()
            self._meter_died()

    def doom(self, calls: int) -> None:
        """The meter dies at one of its next system calls."""
        if self.meter is not None:
            self.meter.process.doom = calls

    def die(self) -> None:
        """Client and meter are killed."""
        if self.over or not self.start:
            return
        self.world.fault("kill", f"client {self.number} and its meter")
        meter, self.meter = self.meter, None
        if meter is not None:
            meter.process.die()
        self._gone("lost")

    def power_cut(self) -> None:
        """The machine lost power, perhaps before the end of the journal was on its disk."""
        shutil.rmtree(self.memory.path, ignore_errors=True)
        self.forgotten = self.forgotten or self.state == "lost"
        now_ns = self.world.now_ns
        if self.cut_ns is None and not (self.over and now_ns - self.ended_ns > WRITTEN_BACK_NS):
            self.cut_ns = now_ns
        self.die()

    def end(self) -> None:
        """End in its state; a meter that dies now is replaced once."""
        if self.over or not self.start:
            return
        for _ in range(2):
            if self.meter is None:
                self.launch()
            meter = self.meter
            if meter is None:
                continue
            if self._survives(meter.close):
                self.meter = None
                meter.process.die()
                self.memory.close()
                self._gone("lost" if meter.unwritten else self.state)
                return
        self._gone("lost")

    def _gone(self, state: str) -> None:
        self.over = True
        self.ended_ns = self.world.now_ns
        self.machine.alive.pop(self.number, None)
        if state == "lost":
            self.state, self.exit_code = "lost", None
        self.world.log(f"client {self.number} of {self.job.job_id} is {state}")

    def _survives(self, action: Callable[[], object]) -> bool:
        meter = self.meter
        assert meter is not None
        if self.world.lives(self.machine, meter.process, action):
            return True
        self._meter_died()
        return False

    def _meter_died(self) -> None:
        self.meter = None
        self.world.after(self.world.draw.uniform(0.1, 30), self.launch)

    def _tick(self, meter: Meter) -> None:
        if self.over or self.meter is not meter:
            return
        if self._survives(meter.tick):
            self.world.after(self.world.draw.uniform(2, 9), lambda: self._tick(meter))


class Meter:
    """One meter process of a client: readings into a journal."""

    def __init__(self, client: Client) -> None:
        self.client = client
        world, machine, job_id = client.world, client.machine, client.job.job_id
        self.world = world
        self.process = Process(f"meter of {client.number}")
        self.process.on_saved = self._saved
        self.received = 0.0
        self.folder = spool_root(machine.home) / job_id / client.node
        before = client.writers[-1] if client.writers else ""
        is_left = before and (self.folder / f"{before}.jsonl").exists()
        writer = before if is_left else f"{world.draw.getrandbits(48):012x}"
        self._replaces = before if before and not is_left else None
        self.counter = client.writers[0] if client.writers else writer
        if writer != before:
            client.writers.append(writer)
        state = (SpoolFolder(self.folder).state(writer) or {}) if is_left else {}
        self._state_before = state if state.get("boot") == machine.boot else {}
        base = {"job_id": job_id, "node": client.node, "writer": writer}
        self.journal = Journal(self.folder, base, lambda text: world.log(f"journal: {text}"))
        clock = MachineClock(world, machine)
        self.timeline = Timeline.from_mark(clock, client.start["at_ns"], client.start["wall_ns"])
        schedule = Schedule(self.timeline.start_ns)
        start_ns = self.timeline.start_ns
        self.counts = CountedSoFar(("image",), lambda code, text: None, start_ns)
        self._processes = Processes(client.memory, lambda pid: machine.alive.get(pid))
        self._schedule = schedule
        self._ledgers: dict[str, Ledger] = {}
        self._at_ns: dict[str, int] = {}
        self._uj: dict[str, int] = {}
        self._first_uj: dict[str, int] = {}
        self.saves: list[tuple[int, dict[str, int]]] = []
        self._began_ns = self._ended_ns = world.now_ns
        self._saving: tuple[dict[str, int], float] = ({}, 0.0)
        self._save_at_ns = 0
        self._takes_lines = True
        self.unwritten = False
        """The disk did not take the end."""

    def kept_uj(self, name: str, cut_ns: int) -> int:
        """The energy that it saved of a device and that survives a power cut [uJ].

        What a save has written is on the disk after the meter's next one that comes 10 s later or
        more, also where the disk takes nothing more then, and all when the kernel has written back.
        """
        last_ns = self._ended_ns - SYNC_EVERY_NS
        if cut_ns - self._began_ns > WRITTEN_BACK_NS:
            last_ns = cut_ns
        first_uj = self._first_uj.get(name, 0)
        kept = (counters[name] for at_ns, counters in self.saves if at_ns <= last_ns)
        return max(kept, default=first_uj) - first_uj

    def begin(self) -> None:
        """Open the journal, take over from an earlier meter, and take the first reading."""
        files.folder(self.folder)
        self.journal.open()
        self._put_job(self._replaces)
        self._continue(self._state_before)
        self.save()

    def tick(self) -> None:
        """Read every device, and save when it is time."""
        self._read()
        if self.timeline.now_ns() >= self._save_at_ns:
            self.save()

    def save(self) -> None:
        """Write the open file, then the final lines (docs/journal.md, "Order of writing")."""
        self._began_ns = self.world.now_ns
        self._save()
        self._ended_ns = self.world.now_ns

    def _save(self) -> None:
        now_ns = self.timeline.now_ns()
        self._save_at_ns = (now_ns // SAVE_EVERY_NS + 1) * SAVE_EVERY_NS
        if self.client.config.server:
            remember_server(self.folder, self.client.config.server)
        self._read_counts()
        if self._takes_lines:
            self._put_counts()
        if not self._write_open():
            self._takes_lines = False
            self._save_at_ns = now_ns + NS_PER_S
            return
        self._takes_lines = self._flush()

    def close(self) -> None:
        """The last reading, the end record and whole files, when the disk has room."""
        self._began_ns = self.world.now_ns
        self._read()
        for ledger in self._ledgers.values():
            ledger.close()
        self._read_counts()
        self._put_counts(ended=True)
        client = self.client
        self.journal.put(
            EndRecord,
            ended_at=moment(self.timeline.now_ns()),
            state=client.state,
            exit_code=client.exit_code,
        )
        self._write_open()
        if self._flush():
            self._saved(False)
            self._write_open()
        else:
            self.unwritten = True
        self._ended_ns = self.world.now_ns

    def _flush(self) -> bool:
        before = self.client.writing
        self.client.writing = dict(self.client.first_uj), self._saving[0]
        written = self.journal.flush()
        self.client.writing = before  # an earlier meter may have died in its write
        return written

    def _write_open(self) -> bool:
        opened = [(name, ledger.open) for name, ledger in self._ledgers.items()]
        drafts: list[Any] = [
            (IntervalRecord, iv.fields(name))
            for name, iv in opened
            if iv and iv.end_ns > iv.start_ns
        ]
        drafts += [(CountRecord, {"counter": self.counter, **f}) for f in self.counts.open()]
        self._saving = dict(self._uj), self.received
        return self.journal.write_open(self._state(), drafts)

    def _read_counts(self) -> None:
        self._processes.enter()
        for process in self._processes:
            list(process.messages())
        totals = self._processes.totals()
        self.counts.update(totals, self.timeline.now_ns())
        self.received = sum(totals.values())

    def _put_counts(self, *, ended: bool = False) -> None:
        for fields in self.counts.final(ended=ended):
            self.journal.put(CountRecord, counter=self.counter, **fields)

    def _saved(self, synced: bool) -> None:
        del synced
        counters, count = self._saving
        self.saves.append((self.world.now_ns, counters))
        self.client.saved_uj.update(counters)
        self.client.saved_count = max(self.client.saved_count, count)

    def _state(self) -> dict[str, Any]:
        client, machine = self.client, self.client.machine
        devices = {
            name: [self._uj[name], self._at_ns[name], ledger.open]
            for name, ledger in self._ledgers.items()
        }
        return {
            "boot": machine.boot,
            "machine": machine.name,
            "memory": client.memory.path,
            "start_ns": self.timeline.start_ns,
            "offset_ns": self.timeline.offset_ns,
            "now_ns": self.timeline.now_ns(),
            "counter": self.counter,
            "units": ["image"],
            "devices": devices,
        }

    def _put_job(self, resumes: str | None) -> None:
        config = self.client.config
        self.journal.put(
            JobRecord,
            started_at=moment(self.timeline.start_ns),
            role=self.client.role,
            resumes=resumes,
            project=config.project,
            name=config.name,
            units=config.units,
            zone=config.zone,
            versions={"gramwatt": "0"},
        )

    def _continue(self, state: dict[str, Any]) -> None:
        """Go on with the readings of the last meter, or begin."""
        known = state.get("devices", {})
        if state:
            offset_ns, start_ns = int(state["offset_ns"]), int(state["start_ns"])
            self.timeline = Timeline(self.timeline.clock, offset_ns, start_ns)
        else:
            self._after_earlier_runs()
        for gpu in self.client.gpus:
            name = gpu.device_id
            ledger = self._ledgers[name] = Ledger(name, self._schedule, self._emit)
            self.journal.put(
                DeviceRecord,
                device_id=name,
                device_class="gpu",
                name="NVIDIA H100 80GB HBM3",
                meter="nvml-counter",
                kind="measured",
                units_total=8.0,
            )
            if name in known:
                self._uj[name], self._at_ns[name] = known[name][0], known[name][1]
                ledger.open = Interval.restored(known[name][2])
                # The last meter may have been that of a client before this one.
                self.client.first_uj.setdefault(name, self._uj[name])
                self.client.saved_uj.setdefault(name, self._uj[name])
            else:
                self._at_ns[name] = self.timeline.now_ns()
                self._uj[name] = gpu.counter_uj(self.world.now_ns)
                if not self.client.has_saved:  # else what the last meter had saved is continued
                    self.client.first_uj[name] = self._uj[name]
                    self.client.saved_uj[name] = self._uj[name]
            self._first_uj[name] = self._uj[name]

    def _after_earlier_runs(self) -> None:
        """Where the wall clock was set back since an earlier run, go on from that run's time."""
        boot = self.client.machine.boot
        states = [s for s in SpoolFolder(self.folder).states() if s.get("boot") == boot]
        last = max(states, key=lambda s: int(s["now_ns"]) - int(s["offset_ns"]), default=None)
        if last is not None and self.timeline.start_ns < int(last["now_ns"]):
            offset_ns = int(last["offset_ns"])
            start_ns = self.client.start["at_ns"] + offset_ns
            self.timeline = Timeline(self.timeline.clock, offset_ns, start_ns)

    def _read(self) -> None:
        now_ns = self.timeline.now_ns()
        for gpu in self.client.gpus:
            name, counter_uj = gpu.device_id, gpu.counter_uj(self.world.now_ns)
            joules = (counter_uj - self._uj[name]) / 1e6
            self._ledgers[name].add(self._at_ns[name], now_ns, joules, "measured")
            self._at_ns[name], self._uj[name] = now_ns, counter_uj

    def _emit(self, device_id: str, interval: Interval) -> None:
        self.journal.put(IntervalRecord, **interval.fields(device_id))


def run_sync(world: World, config: Config, machine: Machine, job_id: str | None = None) -> None:
    """`gramwatt sync` on a machine; it may be killed at any of its system calls."""
    process = Process(f"sync on {machine.name}")
    machine.syncs.append(process)
    if world.chance(0.15):
        process.doom = world.draw.randrange(60)
    store: Any = SimpleNamespace(ingest=lambda home, job: [], document=lambda home, job: None)
    results: list[SyncResult] = []

    def act() -> None:
        try:
            results.append(sync(config, store if config.server is None else None, job_id))
        except OSError as error:  # a full disk; the command reports it
            world.log(f"sync failed: {error}")

    world.lives(machine, process, act)
    process.die()
    for done in results:
        world.log(f"sync: sent {done.sent} closed {done.closed} {done.problems} {done.remarks}")
