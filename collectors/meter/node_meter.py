"""One meter from its start to its end: leader or relay, the client's lines in, a journal out.

It neither waits nor reads pipes: `main` drives it with real time and real pipes, the tests with a
virtual clock.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gramwatt import __version__
from gramwatt.collectors.common import files, identity
from gramwatt.collectors.common.catalogs import place_problems
from gramwatt.collectors.common.clock import NS_PER_S, Clock, Timeline
from gramwatt.collectors.common.config import Config, resolve
from gramwatt.collectors.common.files import first_notice_today
from gramwatt.collectors.common.launches import REPORTER, scheduler_tags
from gramwatt.collectors.devices.board import selecting_variables
from gramwatt.collectors.devices.counter import LONGEST_PERIOD_NS
from gramwatt.collectors.journal.intervals import moment
from gramwatt.collectors.journal.spool import (
    LEAST_FREE_B,
    LOCK,
    SpoolFolder,
    acquire,
    free_b,
    remember_server,
    size_b,
    spool_root,
    usable_home,
)
from gramwatt.collectors.journal.writer import Journal
from gramwatt.collectors.meter.child_counts import ChildCounts
from gramwatt.collectors.meter.count_buffer import CountBuffer
from gramwatt.collectors.meter.dependencies import Dependencies
from gramwatt.collectors.meter.device_manager import DeviceManager
from gramwatt.collectors.meter.log import Log
from gramwatt.collectors.meter.notices import NOTICES_MAX, is_for_user, joined_notice
from gramwatt.collectors.meter.resume import EarlierMeters
from gramwatt.collectors.meter.self_usage import own_usage
from gramwatt.collectors.meter.windows import WindowRecorder
from gramwatt.collectors.serving.counting import ServerCounts
from gramwatt.collectors.serving.servers import from_start
from gramwatt.collectors.spool.score import Requests
from gramwatt.sci.base.notices import CODES
from gramwatt.sci.base.unit_names import misspelt
from gramwatt.sci.journal.records import REPORTERS, SERVERS, EndRecord, JobRecord

OPEN_EVERY_NS = 10 * NS_PER_S
SETTLE_NS = NS_PER_S * 3 // 10
"""How long after a boundary its readings are complete [ns]: the search for a counter's update."""
RELAY_EVERY_NS = RETRY_EVERY_NS = NS_PER_S
RANKS_EVERY_NS, RANKS_LATER_NS, RANKS_EARLY_NS = NS_PER_S, 10 * NS_PER_S, 30 * NS_PER_S
"""Other ranks, which may see other GPUs, mostly join in the first half minute."""
SIZE_EVERY_NS = 600 * NS_PER_S
PENDING_MAX = 256
"""Lines that wait for a disk that does not take them before further ones are made coarser."""
_SAME_NAME = (
    "another machine of the job has this one's name and is not measured; "
    "unset GRAMWATT_ALLOW_HOST_NAMES"
)


class NodeMeter:
    """The meter of one client: `start` once, then `handle` and `tick`, at last `close`.

    `devices` is None while another meter measures this job on this node.
    """

    def __init__(
        self,
        dependencies: Dependencies,
        config: Config,
        start: dict[str, Any],
        mark: dict[str, int] | None = None,
    ) -> None:
        """`start` is the client's start line; `mark` the clocks at the job's begin, by default
        those of the line.
        """
        self.dependencies = dependencies
        self.config = config
        self.start_line = start
        self.job_id = identity.safe_id(str(start.get("job_id") or identity.new_job_id()))
        self.node = identity.node_id(config.allow_host_names)
        self.role = "command" if start.get("role") == "command" else "track"
        self.closed = self.wants_lines = False
        self.devices: DeviceManager | None = None
        self.notices: list[str] = []
        self.unreported: list[str] = []
        self.timeline = _timeline(dependencies.clock, mark or start)
        self.job_start_ns = self.timeline.start_ns
        self.home, elsewhere = writable_home(config.home)
        folder = spool_root(self.home) / self.job_id / self.node
        self.log = Log(folder / "meter.log", dependencies.clock)
        if elsewhere:
            self.notify("spool-elsewhere", elsewhere)
        # A client's first meter has its client's id, so that its count lines say when they began.
        client = identity.safe_id(str(start.get("client") or os.urandom(6).hex()))
        writer = os.urandom(6).hex() if start.get("restart") else client
        base = {"job_id": self.job_id, "node": self.node, "writer": writer}
        self.journal = Journal(folder, base, self.log.write)
        self._requests = Requests(folder)
        self.counts = CountBuffer(client, config.units, self.notify)
        path = start.get("counts_path")
        self.child_counts = ChildCounts(path, writer, self.counts, self.job_start_ns)
        self.server_counts = ServerCounts(
            from_start(start.get("servers")),
            f"{client}.{writer}{SERVERS}-count",
            self.counts,
            self.notify,
            self.job_start_ns,
        )
        self.windows = WindowRecorder(config.units, self.journal.put, self.notify)
        began_ns = dependencies.process_start_ns
        self._earlier = EarlierMeters(folder, start, dependencies.boot, began_ns)
        self._parent_began_ns = began_ns(int(start.get("parent_pid") or 0))
        self.unwritten = ""
        """Why the journal of a closed job is not whole; empty where it is."""
        self._disk_takes_lines = True
        self._settings: list[dict[str, Any]] = []
        self._lock: int | None = None
        self._adopted = {tuple(sorted(selecting_variables(dependencies.environ).items()))}
        self._open_at_ns = self._relay_at_ns = self._ranks_at_ns = 0
        self._size_at_ns = self.job_start_ns + 5 * NS_PER_S
        self.place_unchecked = self.role == "track" and bool(config.zone or config.region)

    def start(self) -> dict[str, Any]:
        """Take the first reading, unless another meter leads; returns the `ready` reply."""
        for notice in self.config.notices:
            self.notify(notice.code, notice.message)
        for text in filter(None, map(misspelt, self.config.units)):
            self.notify("unit-misspelt", f"The unit {text}.")
        self.journal.open()  # from here on nobody delivers and deletes what is read of the folder
        self.counts.restore(self._earlier.open_counts())
        self.child_counts.resume(self._earlier.latest("child_counts"))
        if self.start_line.get("restart"):
            self.server_counts.resume(self._earlier.latest("servers"), self.timeline.now_ns())
        self.server_counts.begin(self.dependencies.polls)
        dead = self._earlier.to_resume()
        if dead:
            self.log.write(f"resumes {dead.writer}")
            if dead.state:  # a command begins later than its launch
                self.job_start_ns = max(self.job_start_ns, self._start_ns(dead.state))
                self.notices += [t for t in dead.state.get("notices", ()) if t not in self.notices]
        self._put_job(dead.writer if dead else None)
        relayed = dead and dead.state and not dead.state.get("leader")
        self._try_to_lead(fresh=not relayed)
        self._save(settled=dead is not None)
        self.save_soon()  # with the reading that spans the gap after the last meter
        joined = joined_notice(
            self.job_id, self.home, self.dependencies.environ, leads=self.devices is not None
        )
        self.unreported += [joined] if joined and not dead else []
        role = "leads" if self.devices else "relays"
        self.log.write(f"{role} {self.job_id} for process {self.start_line.get('parent_pid')}")
        return {"reply": "ready", "notices": self.new_notices(), "job_id": self.job_id}

    def handle(self, command: dict[str, Any]) -> None:
        """Act on one line of the client; an unknown one is ignored, for newer clients."""
        name = command.get("cmd")
        if name == "count":
            self.counts.add(command)
        elif name == "window":
            self._window(command)
        elif name == "notice":
            code, _, text = str(command.get("text", "")).partition(": ")
            self.notify(code, text)
        elif name == "stop":
            self.close(command)

    def due_ns(self) -> int:
        """Return when `tick` is due next, on the timeline [ns]."""
        if self.devices is None:
            return min(self._relay_at_ns, self._open_at_ns)
        return min(self.devices.due_ns(), self._open_at_ns)

    def tick(self) -> None:
        """Take the readings that are due and journal what is due, also after one that raises."""
        now_ns = self.timeline.now_ns()
        try:
            self._read_due(now_ns)
        finally:
            if now_ns >= self._open_at_ns:
                self._watch_size(now_ns)
                self._save()

    def _read_due(self, now_ns: int) -> None:
        if self.devices is not None:
            awaited = self.devices.awaits_start
            self.devices.tick()
            if awaited and not self.devices.awaits_start:
                self.save_soon()  # the first reading is better known now
        elif now_ns >= self._relay_at_ns:
            self._take_over()
        if now_ns >= self._ranks_at_ns:
            self._adopt_ranks(now_ns)
        if self._requests.is_new():
            if self.devices is not None:
                self.devices.add_boundary(now_ns)
            self._open_at_ns = min(self._open_at_ns, now_ns + SETTLE_NS)

    def check_place(self) -> None:
        """Report a zone or region that the catalog does not know, once.

        `run` checks them before it starts a command; here it is done when there is time for it.
        """
        self.place_unchecked = False
        for key, text in place_problems(self.config).items():
            self.notify("argument-ignored", f"{key} is not used: {text}")

    def save_soon(self) -> None:
        """Journal everything at the next tick: the end may be near."""
        self._open_at_ns = 0

    def close(self, command: dict[str, Any]) -> None:
        """End the job as `command` (a stop line) says: final reading, end record, whole files."""
        if self.closed:
            return
        self.closed = True
        self.wants_lines = bool(command.get("lines"))
        if self.devices is None:  # the one who measured may have ended a moment ago
            self._try_to_lead(fresh=False)
        stop_ns = self._time_ns(command)
        if self.devices is not None:
            self._guarded("the final reading", self._stop_lead, self.devices, stop_ns)
        self.child_counts.end()
        self._read_counts(stop_ns, last=True)
        self.counts.flush(self.journal.put, ended=True)
        self.windows.close(self.timeline.at_mono, stop_ns)
        if software := command.get("software"):
            self._guarded("the list of software", self._put_job, None, software)
        if self.place_unchecked:
            self._guarded("the check of the zone", self.check_place)
        cpu_s, rss_b = own_usage()
        self.journal.put(
            EndRecord,
            ended_at=moment(max(stop_ns, self.job_start_ns)),
            state=command.get("state", "killed"),
            exit_code=command.get("exit_code"),
            signal=command.get("signal"),
            meter_cpu_s=cpu_s,
            meter_rss_b=rss_b,
            notices=tuple(self.notices),
        )
        self.journal.write_open(self._state(), [])
        if self.journal.flush():
            self.child_counts.mark_saved()
            self.server_counts.mark_saved()
            self.journal.write_open(self._state(), [])  # its intervals are final lines now
        else:
            self.unwritten = self.journal.failure
        self.child_counts.remove()
        self.log.write(f"closed as {command.get('state')}, {cpu_s:.3f} s of processor time")

    def release(self) -> None:
        """Give up the locks: the folder is no longer live."""
        self.journal.close()
        if self._lock is not None:
            with contextlib.suppress(OSError):
                os.close(self._lock)
            self._lock = None

    def notify(self, code: str, message: str) -> None:
        """Leave a notice with the job, once."""
        text = f"{code}: {message}"[:512]
        if text not in self.notices and len(self.notices) < NOTICES_MAX:
            self.notices.append(text)
            self.unreported.append(text)
            self.log.write(text)

    def new_notices(self) -> list[str]:
        """Return the notices since the last call that are for the user now."""
        found, self.unreported = self.unreported, []
        if self.start_line.get("verbose"):
            return found
        return [text for text in found if is_for_user(text) and first_notice_today(self.home, text)]

    def _read_counts(self, now_ns: int, *, last: bool = False) -> None:
        children, servers = self.child_counts.read, self.server_counts.read
        self._guarded("the reading of children's counts", children, now_ns, self._handle_of_child)
        self._guarded("the reading of servers' counters", servers, self.timeline.at_mono, last)

    def _handle_of_child(self, message: dict[str, Any]) -> None:
        """Act on a child's message, which may be old: its windows are no boundaries of readings."""
        if message.get("cmd") == "window":
            begin_ns = self.timeline.at_mono(int(message["start_ns"]))
            self.windows.record(message, begin_ns, self._time_ns(message))
        elif message.get("cmd") == "settings":
            self._put_settings(message)
        else:
            self.handle(message)

    def _put_settings(self, message: dict[str, Any]) -> None:
        """Journal what a `track` in a child process of the command declares, as one in it would."""
        if message not in self._settings:
            self._settings.append(message)
            self._put_job(None, message["software"], resolve(message["args"], {}, None))

    def _time_ns(self, command: dict[str, Any]) -> int:
        """Return the time of a client's line on the timeline, now where it has none [ns]."""
        mono_ns = command.get("mono_ns")
        return self.timeline.now_ns() if mono_ns is None else self.timeline.at_mono(int(mono_ns))

    def _window(self, command: dict[str, Any]) -> None:
        """Read the devices at a boundary of a window, and journal the window at its end."""
        start_ns = self.timeline.at_mono(int(command["start_ns"]))
        end_ns = self._time_ns(command) if "mono_ns" in command else None
        if self.devices is not None and len(self.journal.pending) <= PENDING_MAX:
            self.devices.add_boundary(start_ns if end_ns is None else end_ns)
        self.windows.record(command, start_ns, end_ns)

    def _put_job(
        self,
        resumes: str | None,
        software: dict[str, Any] | None = None,
        declared: Config | None = None,
    ) -> None:
        """Journal what is known of the job; at the end also the software its process had loaded.

        `declared` is what a `track` in a command says of it instead.
        """
        config, environ = declared or self.config, self.dependencies.environ
        software = software or {}
        versions = {"gramwatt": __version__, "python": sys.version.split()[0]}
        versions |= {str(k)[:64]: str(v)[:64] for k, v in software.get("versions", {}).items()}
        framework = str(software["framework"])[:64] if software.get("framework") else None
        self.journal.put(
            JobRecord,
            started_at=moment(self.job_start_ns),
            role="track" if declared else self.role,
            reporter=name if (name := environ.get(REPORTER)) in REPORTERS else None,
            resumes=resumes,
            project=config.project,
            name=config.name,
            kind=config.kind,
            units=tuple(config.units),
            zone=config.zone,
            region=config.region,
            pue=config.pue,
            model_id=config.model_id,
            framework=framework,
            rank=identity.rank(environ),
            tags={**scheduler_tags(environ, config.allow_host_names), **config.tags},
            versions=versions,
            scheduler=identity.scheduler_ids(environ),
        )

    def _try_to_lead(self, *, fresh: bool) -> None:
        self._relay_at_ns = self.timeline.now_ns() + RELAY_EVERY_NS
        try:
            files.folder(self.journal.folder)
            self._lock = acquire(self.journal.folder / LOCK)
            if self._lock is None:
                return
        except OSError as error:  # no lock to be had: two sets of lines merge into one later
            self.log.write(f"leads without a lock: {error}")
        self._guarded("the first reading", self._begin_lead, fresh)
        self.save_soon()

    def _take_over(self) -> None:
        self._try_to_lead(fresh=False)
        if self.devices is not None:
            self.devices.tick()  # the reading that spans the gap, before the state is saved

    def _begin_lead(self, fresh: bool) -> None:
        state = self._earlier.leader_state(self.timeline, relayed=not fresh)
        timeline = self._earlier.in_order(self.timeline)
        if state:
            timeline = Timeline(timeline.clock, int(state["offset_ns"]), int(state["start_ns"]))
            self.log.write("continues the readings of the meter before")
        self.job_start_ns += timeline.offset_ns - self.timeline.offset_ns
        self.timeline = timeline
        self.devices = DeviceManager(
            self.dependencies,
            timeline,
            self.node,
            self.journal.put,
            self.notify,
            self.journal.folder,
        )
        self.devices.add_client(self.start_line)
        mark_ns = self.job_start_ns if fresh else timeline.now_ns()
        self.devices.begin(state, mark_ns)

    def _stop_lead(self, devices: DeviceManager, stop_ns: int) -> None:
        devices.stop(stop_ns)
        resolution_s = 2 * (devices.coarsest_period_s() or LONGEST_PERIOD_NS / NS_PER_S)
        if devices.driver and (stop_ns - self.job_start_ns) / NS_PER_S < resolution_s:
            self.notify("below-resolution", CODES["below-resolution"])

    def _save(self, *, settled: bool = True) -> None:
        """Write the open file, then the final lines (docs/journal.md, "Order of writing").

        Not `settled` leaves the energy so far to the next save: the job may have ended already.
        """
        now_ns = self.timeline.now_ns()
        self._open_at_ns = (now_ns // OPEN_EVERY_NS + 1) * OPEN_EVERY_NS
        if self.config.server:
            remember_server(self.journal.folder, self.config.server)
        opened = self.devices.open_intervals() if self.devices and settled else []
        self._read_counts(now_ns)
        if self._disk_takes_lines:
            self.counts.flush(self.journal.put)
        if not self.journal.write_open(self._state(), opened):
            # The next meter must not continue from a state older than the final lines.
            self._disk_takes_lines = False
            self._open_at_ns = now_ns + RETRY_EVERY_NS
            return
        self._disk_takes_lines = self.journal.flush()
        if self._disk_takes_lines:
            self.child_counts.mark_saved()
            self.server_counts.mark_saved()

    def _state(self) -> dict[str, Any]:
        state = {
            "boot": self.dependencies.boot,
            "machine": identity.machine_id(),
            "leader": self.devices is not None,
            "parent_pid": self.start_line.get("parent_pid"),
            "parent_began_ns": self._parent_began_ns,
            "start_ns": self.timeline.start_ns,
            "offset_ns": self.timeline.offset_ns,
            "now_ns": self.timeline.now_ns(),
            "client": self.start_line.get("client"),
            "notices": self.notices,
            "visible": selecting_variables(self.dependencies.environ),
            "counts": self.counts.state(),
            "child_counts": self.child_counts.state(),
            "servers": self.server_counts.state(),
        }
        return {**state, **self.devices.state()} if self.devices else state

    def _adopt_ranks(self, now_ns: int) -> None:
        """Measure the devices that other ranks' meters see and this one does not."""
        early = now_ns - self.job_start_ns < RANKS_EARLY_NS
        self._ranks_at_ns = now_ns + (RANKS_EVERY_NS if early else RANKS_LATER_NS)
        devices = self.devices
        if devices is None:
            return
        folder = SpoolFolder(self.journal.folder)
        for state in folder.live_states(but=self.journal.base["writer"]):
            devices.pids.add(int(state.get("parent_pid") or -1))
            seen = tuple(sorted(state.get("visible", {}).items()))
            if state.get("boot") != self.dependencies.boot:  # by names of hosts that are the same
                self.notify("energy-unmeasured", f"{_SAME_NAME}: {self.node}.")
                continue
            if seen in self._adopted:
                continue
            self._adopted.add(seen)
            mark_ns = self._start_ns(state)
            self._guarded("a rank's first reading", devices.adopt, dict(seen), mark_ns)

    def _start_ns(self, state: dict[str, Any]) -> int:
        """Return when the client of another meter began, on this one's timeline [ns]."""
        return int(state["start_ns"]) - int(state["offset_ns"]) + self.timeline.offset_ns

    def _watch_size(self, now_ns: int) -> None:
        if self.devices is None or now_ns < self._size_at_ns:
            return
        self._size_at_ns = now_ns + SIZE_EVERY_NS
        waits = len(self.journal.pending) > PENDING_MAX
        if waits:
            self.notify("spool-resolution", CODES["spool-resolution"])
        full = size_b(self.home) > self.config.spool_limit_mb * 1e6
        if full:
            text = (
                "the spool is over its size limit; run `gramwatt sync`. Intervals are 300 s long."
            )
            self.notify("spool-resolution", text)
        self.devices.schedule.coarse = full or waits

    def _guarded(self, what: str, action: Callable[..., object], *arguments: Any) -> None:
        try:
            action(*arguments)
        except Exception as error:  # whatever a source or a disk does, the job goes on
            self.log.write(f"{what} failed: {error!r}")
            self.notify("meter-gap", f"{what} failed: {error}.")


def _timeline(clock: Clock, start: dict[str, Any]) -> Timeline:
    """Return the timeline from the clocks in a start line; where it has none, from now."""
    mono_ns = int(start.get("mono_ns") or clock.mono_ns())
    wall_ns = int(start.get("wall_ns") or clock.wall_ns())
    return Timeline.from_mark(clock, mono_ns, wall_ns, start.get("boot_ns"))


def writable_home(wanted: Path) -> tuple[Path, str | None]:
    """Return the home to journal in, and a message when it is not the wanted one."""
    try:
        home = usable_home(wanted, LEAST_FREE_B)
    except OSError as error:  # the journal stays in memory and tries again
        return wanted, f"nothing can be journaled: {error}."
    if home == wanted:
        return home, None
    why = "cannot be written"
    with contextlib.suppress(OSError):
        why = "is on a full disk" if free_b(wanted) < LEAST_FREE_B else why
    return home, f"{wanted} {why}; the job is journaled in {home}."
