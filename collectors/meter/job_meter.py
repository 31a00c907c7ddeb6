"""The meter of one job on one node: what its processes have written in, a journal out.

It neither waits nor listens: `main` drives it with real time, the tests with a virtual clock.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gramwatt import __version__
from gramwatt.collectors.devices.board import selecting_variables
from gramwatt.collectors.devices.library import Crashes
from gramwatt.collectors.devices.sampler import NodeJob
from gramwatt.collectors.devices.visibility import reserves
from gramwatt.collectors.meter.device_manager import Dependencies, DeviceManager
from gramwatt.collectors.serving.count import ServerCounts
from gramwatt.collectors.serving.presets import from_start
from gramwatt.collectors.settings import files, identity
from gramwatt.collectors.settings.catalogs import place_problems
from gramwatt.collectors.settings.clock import NEVER_NS, NS_PER_S, Clock, Timeline
from gramwatt.collectors.settings.config import Config, resolve
from gramwatt.collectors.settings.files import first_notice_today
from gramwatt.collectors.settings.launches import REPORTER, declared_job, launched_elsewhere
from gramwatt.collectors.settings.orchestrators import rank, scheduler_ids, scheduler_tags
from gramwatt.collectors.spool.counts import CountedSoFar, Process, Processes, WindowRecorder
from gramwatt.collectors.spool.intervals import Schedule, moment
from gramwatt.collectors.spool.score import Requests
from gramwatt.collectors.spool.spool import (
    LEAST_FREE_B,
    SpoolFolder,
    remember_server,
    size_b,
    spool_root,
    usable_home,
    why_unusable,
)
from gramwatt.collectors.spool.writer import Journal
from gramwatt.collectors.track.client import COMMAND
from gramwatt.sci.figures.notices import CODES, FOR_USER
from gramwatt.sci.figures.unit_names import misspelt
from gramwatt.sci.records.records import (
    REPORTERS,
    CountRecord,
    EndRecord,
    IntervalRecord,
    JobRecord,
)

NOTICES_MAX = 64
LOG_MOST_B = 1_000_000
B_PER_MAXRSS = 1024.0
"""getrusage gives the largest resident set in KiB on Linux (getrusage(2))."""
OPEN_EVERY_NS = 10 * NS_PER_S
SETTLE_NS = NS_PER_S * 3 // 10
"""How long after a boundary its readings are complete [ns]: the search for a counter's update."""
RETRY_EVERY_NS = NS_PER_S
LOOK_EVERY_NS, LOOK_EARLY_NS = NS_PER_S * 3 // 2, NS_PER_S * 6 // 10
"""How often the job's processes are looked at [ns], and how much earlier with a reading: so that
with one each second every reading has its look, wherever in the second the last look was. Where the
end of each process wakes the meter, as each of their lines does, only before each save."""
SIZE_EVERY_NS = 600 * NS_PER_S
PROCESSES_MAX = 100
"""Processes that may enter before what those that have ended counted is saved, at the latest."""
PENDING_MAX = 256
"""Lines that wait for a disk that does not take them before further ones are made coarser."""
_SAME_NAME = (
    "another machine of the job has this one's name, so that their processors count as one; "
    "unset GRAMWATT_ALLOW_HOST_NAMES"
)


class _Start(NamedTuple):
    """What a meter begins with: its names, and what an earlier one of the job has left.

    `writer` is the name of its lines, `counter` that of the job's cumulative counts on this node.
    `state` is the earlier one's, to go on from, empty where there is none; `after_death`: there was
    an earlier one; `replaces` is its name, where its journal was delivered while no meter lived.
    """

    writer: str
    counter: str
    state: dict[str, Any]
    after_death: bool
    replaces: str | None

    @classmethod
    def of(cls, status: Mapping[str, Any], spooled: Path, boot: str) -> _Start:
        """Return it by what the earlier meter has said in memory, and left in its spool folder."""
        counter = str(status.get("counter") or os.urandom(6).hex())
        before = str(status.get("writer") or "")
        if not before:
            return cls(counter, counter, {}, after_death=False, replaces=None)
        if not (spooled / f"{before}.jsonl").exists():
            return cls(os.urandom(6).hex(), counter, {}, after_death=True, replaces=before)
        state = SpoolFolder(spooled).state(before) or {}
        if state.get("boot") != boot:
            state = {}
        return cls(before, counter, state, after_death=True, replaces=None)


class JobMeter:
    """The meter of a job: `start` once, then `look` and `tick`, until it is `closed`.

    It goes on where an earlier one, which was killed, had saved.
    """

    def __init__(self, dependencies: Dependencies, config: Config, processes: Processes) -> None:
        """One of the `processes` at least has entered the job's folder in memory."""
        self.dependencies = dependencies
        self.config = config
        self.processes, self.memory = processes, processes.folder
        self.running: list[int] = []
        """The processes whose end is the job's, as of the last look, or their commands."""
        first = self.first = self.processes.deciding()[0].first
        self.job_id = identity.safe_id(str(first["job_id"]))
        self.node = identity.node_id(config.allow_host_names)
        self.role = str(first["role"])
        self.watched = False
        """Whether the end of each of them wakes the meter."""
        self.closed = False
        self.wants_lines = False
        self.devices: DeviceManager | None = None
        """None where they could not be asked at all."""
        self.notices: list[str] = []
        self.advice: list[tuple[str, str]] = []
        """Notices for the user now: code and sentence."""
        self.unwritten = ""
        """Why the journal of a closed job is not whole; empty where it is."""
        self.home, elsewhere = writable_home(config.home)
        spooled = spool_root(self.home) / self.job_id / self.node
        self.log = Log(spooled / "meter.log", dependencies.clock)
        begin = self._start = _Start.of(self.memory.status(), spooled, dependencies.boot)
        self._state = begin.state
        base = {"job_id": self.job_id, "node": self.node, "writer": begin.writer}
        self.timeline = self._timeline(spooled)
        self._schedule = Schedule(self.timeline.start_ns)
        self.job_start_ns = int(self._state.get("begin_ns") or 0)
        """When the job began on this node [ns]; 0 while a command waits for the first reading."""
        if self.role != COMMAND:
            self.job_start_ns = self.job_start_ns or self.timeline.start_ns
        self._say(writer=begin.writer, counter=begin.counter, pid=os.getpid())
        self.journal = Journal(spooled, base, self.log.write)
        self._requests = Requests(spooled)
        started_ns = self.timeline.start_ns
        self._units = list(config.units)
        """The declared units, of which the first counts what has no name; a `track` in a command
        adds its own where the command has none."""
        self.counts = CountedSoFar(self._units, self.notify, started_ns)
        self.server_counts = ServerCounts(from_start(None), self.notify, started_ns)
        self._of_servers = CountedSoFar(self._units, self.notify, started_ns)
        self.windows = WindowRecorder(self._units, begin.counter, self.journal.put, self.notify)
        self._began_ns = dependencies.process_start_ns(os.getpid())
        self._machine = identity.machine_id()
        self._declared: list[dict[str, Any]] = [first.get("args") or {}]
        self._adopted = {self._visible(first)}
        self._chosen: dict[str, dict[str, str]] = {}
        """The variables that each `track` in the command has seen, by its process."""
        self._disk_takes_lines = True
        self._open_at_ns = self._looked_ns = self._newly_entered = 0
        self._reads_at_ns = NEVER_NS
        """When a reading is due, as of the last `due_ns`."""
        self._size_at_ns = started_ns + 5 * NS_PER_S
        self.place_unchecked = self.role != COMMAND and bool(config.zone or config.region)
        if elsewhere:
            self.notify("spool-elsewhere", elsewhere)

    def start(self) -> None:
        """Take the first reading, and let the job's processes know that the meter is ready."""
        for notice in self.config.notices:
            self.notify(notice.code, notice.message)
        for text in filter(None, map(misspelt, self.config.units)):
            self.notify("unit-misspelt", f"The unit {text}.")
        self.journal.open()  # from here on nobody delivers and deletes what is read of the folder
        if self._state:
            self.notices += self._state.get("notices", ())
            self.notify("meter-replaced", CODES["meter-replaced"])
        self._look_for_same_name()
        lines = self._new_lines()
        self._guarded("the first reading", self._begin_devices)
        lines += self._new_lines()
        if not self.job_start_ns:  # now, or with a command that did not wait for the reading
            self.job_start_ns = self._at(self.processes.deciding()[0].begin_ns)
            self._schedule.begin_ns = self.job_start_ns
        self._say(ready=True, home=str(self.home))
        self._put_job()
        for process, line in lines:
            self._guarded("a line of a process", self.handle, process, line)
        if not self._state:
            self._report_joined()
        self._welcome(list(self.processes))
        self._save(settled=bool(self._state))
        self.save_soon()  # with the reading that spans the gap after the last meter
        self.wake()
        self.log.write(f"measures {self.job_id} for process {self.first.get('pid')}")

    def wake(self) -> None:
        """Have the next tick look at what the processes have written."""
        self._looked_ns = 0

    def save_soon(self) -> None:
        """Journal everything at the next tick: the end may be near."""
        self._open_at_ns = 0

    def due_ns(self) -> int:
        """Return when `tick` is due next, on the timeline [ns]."""
        due_ns = min(self._look_at_ns(), self._open_at_ns)
        self._reads_at_ns = self.devices.due_ns() if self.devices else NEVER_NS
        return min(due_ns, self._reads_at_ns)

    def tick(self) -> None:
        """Do what is due: look, read, journal; the latter also after something that raises."""
        now_ns = self.timeline.now_ns()
        try:
            # A look goes along with a reading, so that the meter wakes once for both.
            early_ns = LOOK_EARLY_NS if now_ns >= self._reads_at_ns else 0
            if now_ns >= min(self._look_at_ns() - early_ns, self._open_at_ns):
                self._look(now_ns)
            if self.devices is not None and not self.closed:
                self.devices.tick()
        finally:
            if now_ns >= self._open_at_ns and not self.closed:
                self._watch_size(now_ns)
                self._save()

    def handle(self, process: Process, message: dict[str, Any]) -> None:
        """Act on a line of a process; an unknown one is ignored, for newer clients."""
        name = message.get("cmd")
        if name == "window":
            self._window(process, message)
        elif name == "notice":
            self.notify(str(message.get("code")), str(message.get("text")))
        elif name == "settings":
            self._declare(message)
            self._choose(process, message)

    def check_place(self) -> None:
        """Report a zone or region that the catalog does not know, once.

        `run` checks them before it starts a command; here it is done when there is time for it.
        """
        self.place_unchecked = False
        for key, text in place_problems(self.config).items():
            self.notify("argument-ignored", f"{key} is not used: {text}")

    def close(self, stop: dict[str, Any]) -> None:
        """End the job as `stop` says: final reading, end record, whole files."""
        self.closed = True
        stop_ns = self._at(stop.get("at_ns"))
        if self.devices is not None:
            self._guarded("the final reading", self._stop_devices, self.devices, stop_ns)
        self.processes.end()
        self._read_counts(stop_ns, last=True)
        self._put_counts(ended=True)
        self.windows.close(self._at, stop_ns)
        if software := stop.get("software"):
            self._guarded("the list of software", self._put_job, software)
        if self.place_unchecked:
            self._guarded("the check of the zone", self.check_place)
        cpu_s, rss_b = own_usage()
        self.journal.put(
            EndRecord,
            ended_at=moment(max(stop_ns, self.job_start_ns)),
            state=stop.get("state", "killed"),
            exit_code=stop.get("exit_code"),
            signal=stop.get("signal"),
            meter_cpu_s=cpu_s,
            meter_rss_b=rss_b,
            notices=tuple(self.notices),
        )
        self.journal.write_open(self._saved_state(), [])
        if self.journal.flush():
            self.journal.write_open(self._saved_state(), [])  # its intervals are final lines now
        else:
            self.unwritten = self.journal.failure
        self.log.write(f"closed as {stop.get('state')}, {cpu_s:.3f} s of processor time")

    def release(self) -> None:
        """Give up the locks: the folder is no longer live."""
        self.journal.close()

    def notify(self, code: str, message: str) -> None:
        """Leave a notice with the job, once; the user reads it now if it is advice."""
        text = f"{code}: {message}"[:512]
        if text not in self.notices and len(self.notices) < NOTICES_MAX:
            self.notices.append(text)
            self.log.write(text)
            verbose = bool(self.first.get("verbose"))
            if verbose or (code in FOR_USER and first_notice_today(self.home, text)):
                self._advise(code, message)

    def say_closed(self, **more: Any) -> None:
        """Let whoever waits know that the job is closed."""
        self._say(closed=True, unwritten=self.unwritten, **more)

    def _advise(self, code: str, message: str) -> None:
        """Have the process that began the job print a notice."""
        self.advice.append((code, message))
        self._say(notices=self.advice)

    def _report_joined(self) -> None:
        """Say that this node joins a job that was begun before."""
        name, environ = self.job_id, self.dependencies.environ
        if launched_elsewhere(name, environ):
            self._advise("joined", f"joins job {name}, as its other nodes do")
        elif declared_job(environ) and not first_notice_today(self.home, f"began {name}"):
            self._advise("joined", f"joins job {name}, which GRAMWATT_JOB_ID names")

    def _say(self, **more: Any) -> None:
        with contextlib.suppress(OSError):
            self.memory.say({**self.memory.status(), **more})

    def _timeline(self, spooled: Path) -> Timeline:
        """Return the job's time, as the meter before had it.

        Where the wall clock was set back between two runs of the job on this node, it goes on
        from the earlier one: their intervals must not overlap.
        """
        clock, state = self.dependencies.clock, self._state
        if state:
            return Timeline(clock, int(state["offset_ns"]), int(state["start_ns"]))
        at_ns = int(self.first.get("at_ns") or clock.now_ns())
        wall_ns = int(self.first.get("wall_ns") or clock.wall_ns())
        timeline = Timeline.from_mark(clock, at_ns, wall_ns)
        states = [
            s for s in SpoolFolder(spooled).states() if s.get("boot") == self.dependencies.boot
        ]
        last = max(states, key=lambda s: int(s["now_ns"]) - int(s["offset_ns"]), default=None)
        if last is None or timeline.start_ns >= int(last["now_ns"]):
            return timeline
        offset_ns = int(last["offset_ns"])
        return Timeline(clock, offset_ns, at_ns + offset_ns)

    def _look_for_same_name(self) -> None:
        for state in SpoolFolder(self.journal.folder).live_states(but=self.journal.base["writer"]):
            if state.get("boot") != self.dependencies.boot:
                self.notify("energy-unmeasured", f"{_SAME_NAME}: {self.node}.")

    def _begin_devices(self) -> None:
        """Take the first readings; a command begins after them, or has begun meanwhile."""
        crashes = Crashes(Path(self.memory.path).parent, after_death=self._start.after_death)
        job = NodeJob(
            self.node,
            self.timeline,
            self._schedule,
            self.dependencies.random,
            self.journal.put,
            self.notify,
            self.save_soon,
        )
        devices = DeviceManager(self.dependencies, job, self.journal.folder, crashes)
        if command_ns := self.processes.deciding()[0].begin_ns:
            self.job_start_ns = self.job_start_ns or self._at(command_ns)
        for process in self.processes.deciding():
            devices.add_client(process.first)
        self.devices = devices
        now_ns = self.timeline.now_ns()
        # A journal that was delivered has no state: what was used since is not known.
        mark_ns = now_ns if self._start.replaces else self.job_start_ns or now_ns
        devices.begin(self._state or None, mark_ns)

    def _stop_devices(self, devices: DeviceManager, stop_ns: int) -> None:
        devices.stop(stop_ns)
        if (stop_ns - self.job_start_ns) / NS_PER_S < devices.resolution_s():
            self.notify("below-resolution", CODES["below-resolution"])

    def _look_at_ns(self) -> int:
        is_woken = self._looked_ns == 0
        return NEVER_NS if self.watched and not is_woken else self._looked_ns + LOOK_EVERY_NS

    def _look(self, now_ns: int) -> None:
        """Read what processes have written; the job ends with the last of those that decide."""
        self._looked_ns = now_ns
        if self._requests.is_new():
            if self.devices is not None:
                self.devices.add_boundary(now_ns)
            self._open_at_ns = min(self._open_at_ns, now_ns + SETTLE_NS)
        self._read_lines()
        self.running = self.processes.running()
        if self.running:
            return
        self.memory.close()
        self._read_lines()
        self.running = self.processes.running()
        if self.running:  # one has entered meanwhile
            self.memory.reopen()
            return
        self._guarded("the end", self.close, self._end())

    def _read_lines(self) -> None:
        self._welcome(self.processes.enter())
        for process, line in self._new_lines():
            self._guarded("a line of a process", self.handle, process, line)

    def _new_lines(self) -> list[tuple[Process, dict[str, Any]]]:
        return [(process, line) for process in self.processes for line in process.messages()]

    def _end(self) -> dict[str, Any]:
        """Return the end of the job: of those that decide, the first one that was bad.

        One that is gone without a word was killed.
        """
        killed: dict[str, Any] = {"state": "killed"}
        killed["at_ns"] = self.dependencies.clock.now_ns()
        stops = [process.stop or killed for process in self.processes.deciding()]
        stops.sort(key=lambda stop: int(stop["at_ns"]))
        self.wants_lines = any(stop.get("lines") for stop in stops)
        bad = [stop for stop in stops if stop["state"] != "completed"]
        coded = [stop for stop in stops if stop.get("exit_code") is not None]
        decides = (bad or coded[-1:] or stops[-1:])[0]
        software = next((stop["software"] for stop in stops if stop.get("software")), None)
        return {**decides, "at_ns": stops[-1]["at_ns"], "software": software}

    def _welcome(self, entered: list[Process]) -> None:
        """Measure the devices that a process sees and no earlier one of the job did."""
        devices = self.devices
        self._newly_entered += len(entered)
        if self._newly_entered > PROCESSES_MAX:
            self.save_soon()
        for process in entered:
            first = process.first
            if devices is None:
                continue
            if first.get("servers") and not self.server_counts.reads:
                self._read_servers(first["servers"])
            if process.decides:
                devices.add_client(first)
                self._declare({"args": first.get("args") or {}})
            seen = self._visible(first)
            if seen not in self._adopted:
                self._adopted.add(seen)
                mark_ns = max(self.job_start_ns, self._at(first.get("at_ns")))
                self._guarded("a process's first reading", devices.adopt, dict(seen), mark_ns)

    def _read_servers(self, servers: dict[str, Any]) -> None:
        """Read the servers that a process names, from where the meter before had left off."""
        counts = ServerCounts(from_start(servers), self.notify, self.job_start_ns)
        if self._state or self._start.replaces:
            counts.resume(self._state.get("servers"), self.timeline.now_ns())
        counts.begin(self.dependencies.polls)
        self.server_counts = counts

    def _visible(self, first: dict[str, Any]) -> tuple[tuple[str, str], ...]:
        return tuple(sorted(selecting_variables(first.get("visible") or {}).items()))

    def _declare(self, message: dict[str, Any]) -> None:
        """Journal what another process of the job declares: a `track` in a command, or a rank."""
        if message["args"] not in self._declared:
            self._declared.append(message["args"])
            config = resolve(message["args"], {}, None)
            if not self._units and config.units:
                self._units += config.units
                self.save_soon()  # a recovery has the units of what was saved
            self._put_job(message.get("software"), config)

    def _choose(self, process: Process, message: dict[str, Any]) -> None:
        """Bill what a script in a command has chosen itself, where nothing was chosen before."""
        reserved = reserves(dict(self._visible(self.first)))
        if self.devices is None or self.role != COMMAND or reserved:
            return
        self._chosen[process.name] = selecting_variables(message.get("visible") or {})
        self.devices.choose(list(self._chosen.values()))

    def _window(self, process: Process, message: dict[str, Any]) -> None:
        """Read the devices at a boundary of a window, and journal the window at its end."""
        start_ns = self._at(message["start_ns"])
        end_ns = self._at(message["end_ns"]) if "end_ns" in message else None
        edge_ns = start_ns if end_ns is None else end_ns
        is_new = self.timeline.now_ns() - edge_ns < LOOK_EVERY_NS
        if self.devices and is_new and len(self.journal.pending) <= PENDING_MAX:
            self.devices.add_boundary(edge_ns)
        self.windows.record(process.name, message, start_ns, end_ns)

    def _put_job(
        self, software: dict[str, Any] | None = None, declared: Config | None = None
    ) -> None:
        """Journal what is known of the job; at the end also the software its process had loaded.

        `declared` is what another process says of it.
        """
        config, environ = declared or self.config, self.dependencies.environ
        software = software or {}
        tags = scheduler_tags(environ, self.job_id, allow_names=config.allow_host_names)
        versions = {"gramwatt": __version__, "python": sys.version.split()[0]}
        versions |= {str(k)[:64]: str(v)[:64] for k, v in software.get("versions", {}).items()}
        framework = str(software["framework"])[:64] if software.get("framework") else None
        self.journal.put(
            JobRecord,
            started_at=moment(self.job_start_ns),
            role="track" if declared else self.role,
            reporter=name if (name := environ.get(REPORTER)) in REPORTERS else None,
            resumes=self._start.replaces,
            project=config.project,
            name=config.name,
            kind=config.kind,
            units=tuple(config.units),
            zone=config.zone,
            region=config.region,
            pue=config.pue,
            model_id=config.model_id,
            framework=framework,
            rank=rank(environ),
            tags={**tags, **config.tags},
            versions=versions,
            scheduler=scheduler_ids(environ),
        )

    def _at(self, boot_ns: int | None) -> int:
        """Return a mark by the boot clock on the timeline, now where there is none [ns]."""
        now_ns = self.timeline.now_ns()
        return now_ns if boot_ns is None else min(now_ns, self.timeline.at_boot(int(boot_ns)))

    def _read_counts(self, now_ns: int, *, last: bool = False) -> None:
        self._guarded(
            "the reading of counts", lambda: self.counts.update(self.processes.totals(), now_ns)
        )
        self._guarded("the reading of servers' counters", self._read_server_totals, now_ns, last)

    def _read_server_totals(self, now_ns: int, last: bool) -> None:
        """Journal each reading of the servers at its own moment: energy is divided by these."""
        for at_ns in self.server_counts.read(self.timeline.at_mono, last):
            self._of_servers.update(self.server_counts.totals, min(at_ns, now_ns))
            if self._disk_takes_lines:
                self._put_counts()

    def _counters(self) -> tuple[tuple[str, CountedSoFar], ...]:
        # What servers have counted is known to the state alone, which is this writer's.
        servers = f"{self.journal.base['writer']}-servers"
        return (self._start.counter, self.counts), (servers, self._of_servers)

    def _put_counts(self, *, ended: bool = False) -> None:
        for counter, counts in self._counters():
            for fields in counts.final(ended=ended):
                self.journal.put(CountRecord, counter=counter, **fields)

    def _save(self, *, settled: bool = True) -> None:
        """Write the open file, then the final lines (docs/journal.md, "Order of writing").

        Not `settled` leaves the energy so far to the next save: the job may have ended already.
        """
        now_ns = self.timeline.now_ns()
        self._open_at_ns = (now_ns // OPEN_EVERY_NS + 1) * OPEN_EVERY_NS
        if self.config.server:
            remember_server(self.journal.folder, self.config.server)
        opened = self.devices.open_intervals() if self.devices and settled else []
        drafts: list[Any] = [(IntervalRecord, fields) for fields in opened]
        self._read_counts(now_ns)
        if self._disk_takes_lines:
            self._put_counts()
        for counter, counts in self._counters():
            drafts += [(CountRecord, {"counter": counter, **fields}) for fields in counts.open()]
        if not self.journal.write_open(self._saved_state(), drafts):
            # The next meter must not continue from a state older than the final lines.
            self._disk_takes_lines = False
            self._open_at_ns = now_ns + RETRY_EVERY_NS
            return
        self._disk_takes_lines = self.journal.flush()
        self._newly_entered = 0
        if self._disk_takes_lines:
            self._guarded("the end of workers", self.processes.fold)

    def _saved_state(self) -> dict[str, Any]:
        state = {
            "boot": self.dependencies.boot,
            "machine": self._machine,
            "memory": self.memory.path,
            "pid": os.getpid(),
            "began_ns": self._began_ns,
            "start_ns": self.timeline.start_ns,
            "offset_ns": self.timeline.offset_ns,
            "now_ns": self.timeline.now_ns(),
            "begin_ns": self.job_start_ns,
            "counter": self._start.counter,
            "units": self._units,
            "notices": self.notices,
            "servers": self.server_counts.state(),
        }
        return {**state, **self.devices.state()} if self.devices else state

    def _watch_size(self, now_ns: int) -> None:
        if now_ns < self._size_at_ns:
            return
        self._size_at_ns = now_ns + SIZE_EVERY_NS
        waits = not self._disk_takes_lines and len(self.journal.pending) > PENDING_MAX
        if waits:
            self.notify("spool-resolution", CODES["spool-resolution"])
        full = size_b(self.home) > self.config.spool_limit_mb * 1e6
        if full:
            text = (
                "the spool is over its size limit; run `gramwatt sync`. Intervals are 300 s long."
            )
            self.notify("spool-resolution", text)
        self._schedule.coarse = full or waits

    def _guarded(self, what: str, action: Callable[..., object], *arguments: Any) -> None:
        try:
            action(*arguments)
        except Exception as error:  # whatever a source or a disk does, the job goes on
            self.log.write(f"{what} failed: {error!r}")
            self.notify("meter-gap", f"{what} failed: {error}.")


def writable_home(usual: Path) -> tuple[Path, str | None]:
    """Return the home to journal in, and a message when it is not the usual one."""
    try:
        home = usable_home(usual, LEAST_FREE_B)
    except OSError as error:  # the journal stays in memory and tries again
        return usual, f"nothing can be journaled: {error}."
    if home == usual:
        return home, None
    why = why_unusable(spool_root(usual), LEAST_FREE_B)
    return home, f"{why}; the job is journaled in {home}."


class Log:
    """The meter's own log, never the job's output: it starts over at 1 MB, and is silent where it
    cannot be written.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock

    def write(self, text: str) -> None:
        """Append one line with the time and this process's id."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock.wall_ns() / NS_PER_S))
        line = f"{stamp} {os.getpid()} {text}\n"
        try:
            files.folder(self._path.parent)
            mode = "w" if self._path.exists() and self._path.stat().st_size > LOG_MOST_B else "a"
            with open(
                self._path, mode, encoding="utf-8", errors="replace", opener=files.opener
            ) as stream:
                stream.write(line)
        except OSError:  # a full or read-only disk has no place for a line
            return


def own_usage() -> tuple[float, float | None]:
    """Return the processor time of this process and its ended children [s], and peak memory [B].

    The memory is this process's peak and that of its largest child, which is codecarbon's process
    where there is one: never less than both took at once.
    """
    times = os.times()
    cpu_s = times.user + times.system + times.children_user + times.children_system
    own_b = _own_peak_b()
    child_b = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * B_PER_MAXRSS
    return cpu_s, None if own_b is None else own_b + child_b


def _own_peak_b() -> float | None:
    # Not getrusage: its value for a process includes what its parent took, before the exec.
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as stream:
            for line in stream:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024.0
    except (OSError, ValueError):
        return None
    return None
