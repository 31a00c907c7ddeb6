"""The measuring half of a meter: the devices of one job on one node, their readings and ledgers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from gramwatt.collectors.common.clock import Timeline
from gramwatt.collectors.devices import visibility
from gramwatt.collectors.devices.base import NvmlPort, SourceAbsent
from gramwatt.collectors.gpu.energy import GpuMeter, Notify
from gramwatt.collectors.gpu.sampler import RETRY_MAX_NS, RETRY_MIN_NS, Sampler
from gramwatt.collectors.host.machine import Machine
from gramwatt.collectors.host.meter import HostMeter, Part
from gramwatt.collectors.host.rapl_meter import host_meter
from gramwatt.collectors.host.share import HostShare
from gramwatt.collectors.journal.intervals import Interval, Ledger, Schedule
from gramwatt.collectors.meter.accelerators import Accelerators
from gramwatt.collectors.meter.dependencies import Dependencies, rapl_counters, starter
from gramwatt.collectors.sharing.boards import Boards
from gramwatt.sci.journal.records import SYNTHETIC_METERS, DeviceRecord, IntervalRecord

_T = TypeVar("_T")
Put = Callable[..., None]
"""Takes a record's type and fields, as Journal.put does."""

MODULE_NAMES = ("gh200",)
"""Parts whose energy counter is the whole module, processor and memory included (Grace-Hopper;
reported for the counter by the Zeus project, pull request 172)."""


DEVICE_NODE = Path("/dev/nvidia0")
"""There where the kernel's driver has a GPU for us, whether or not NVML can speak to it."""


class Lead:
    """Measures a node for a job; `put` receives device and interval records."""

    def __init__(
        self, around: Dependencies, timeline: Timeline, node: str, put: Put, notify: Notify
    ) -> None:
        self.schedule = Schedule(timeline.start_ns)
        self.driver: str | None = None
        self.host: HostMeter | None = None
        self._around, self._timeline, self._node = around, timeline, node
        self._put, self._notify = put, notify
        self._sampler: Sampler | None = None
        self._port: NvmlPort | None = None
        self._ledgers: list[Ledger] = []
        self._others = Accelerators(timeline, self.schedule, put, notify, around.random)
        self._host_said: object = None
        self._host_parts: tuple[Part, ...] = ()
        self._host_share: HostShare | None = None
        self._machine: Machine | None = None
        self._boards: list[visibility.Board] = []
        self._known: dict[str, Any] = {}
        self._unsaid: list[tuple[GpuMeter, dict[str, Any]]] = []
        self._shared: Boards | None = None
        self.pids: set[int] = set()
        self._environs: list[tuple[Mapping[str, str], int]] = []
        self._again_ns: int | None = 0
        self._pause_ns = RETRY_MIN_NS
        self._unread = False

    def begin(self, state: dict[str, Any] | None, mark_ns: int, folder: str) -> None:
        """Find the devices and take their first readings.

        `state` is a dead or ended meter's, to continue from; without one the job's energy begins
        at `mark_ns` [ns]. `folder` is where codecarbon's process may leave files.
        """
        around = self._around
        self._shared = Boards(Path(folder), around.environ, self.pids, self._put, self._notify)
        self._known = (state or {}).get("devices", {})
        self._others.open(self._around.vendors(self._around.environ), self._node)
        billed = self.adopt(self._around.environ, mark_ns)
        modules = bool(billed) and all(_is_module(item.board.name) for item in billed)
        if not modules and not self._others.includes_host:
            self._add_host((state or {}).get("host"), mark_ns, folder)

    def adopt(self, environ: Mapping[str, str], mark_ns: int) -> tuple[visibility.Billed, ...]:
        """Take on the devices that `environ`, of this or another rank's meter, gives the job.

        Devices already measured are left alone; the new ones' energy begins at `mark_ns` [ns].
        """
        self._environs.append((environ, mark_ns))
        self._others.adopt(environ, self._known, mark_ns, self._emit)
        return self._adopt_gpus(environ, mark_ns)

    def _adopt_gpus(
        self, environ: Mapping[str, str], mark_ns: int
    ) -> tuple[visibility.Billed, ...]:
        billed = self._billed(environ)
        measured = {ledger.device_id for ledger in self._ledgers}
        for item in billed:
            if item.device_id not in measured:
                self._add_gpu(item, self._known.get(item.device_id), mark_ns)
        return billed

    def due_ns(self) -> int:
        """When the next reading is due [ns]."""
        dues = self._others.dues_ns()
        dues += [self._sampler.due_ns()] if self._sampler and self._sampler.devices else []
        host_ns = self.host.due_ns() if self.host else None
        dues += [due_ns for due_ns in (host_ns, self._again_ns) if due_ns]
        return min(dues, default=self._timeline.now_ns() + 10**10)

    def tick(self) -> None:
        """Take the readings that are due."""
        if self._again_ns and self._timeline.now_ns() >= self._again_ns:
            for environ, mark_ns in self._environs:
                self._adopt_gpus(environ, mark_ns)
        if self._sampler:
            self._sampler.tick()
            if self._unsaid and not self._sampler.at_edge:
                self._say_periods()
        self._others.tick()
        if self.host:
            self.host.tick()

    @property
    def at_edge(self) -> bool:
        """Whether the first readings are still being placed between counter ticks."""
        return self._sampler is not None and self._sampler.at_edge

    def mark(self, mark_ns: int) -> None:
        """A window's edge at `mark_ns` [ns]: all that can be read at once is cut there."""
        if self._sampler:
            self._sampler.mark(mark_ns)
        self._others.mark(mark_ns)
        if self.host:
            self.host.mark(mark_ns)

    def settle(self) -> list[dict[str, Any]]:
        """The open intervals of all devices, for the open file."""
        provisional = self.host.settle() if self.host else []
        if self._shared:
            self._shared.say(final=False)
        if self._host_share:
            self._host_share.look()
        self._describe_host()
        spans = [(ledger.device_id, ledger.open) for ledger in self._all_ledgers()]
        opened = [iv.fields(name) for name, iv in spans if iv and iv.end_ns > iv.start_ns]
        return opened + provisional

    def stop(self, stop_ns: int) -> None:
        """The final readings; everything is booked up to `stop_ns` afterwards."""
        if self._sampler:
            self._sampler.stop(stop_ns)
        if self._shared:
            self._shared.say(final=True)
        if self._unread and self._sampler is None:
            self._put_unread()
        self._others.stop(stop_ns)
        if self.host:
            self.host.stop(stop_ns)
            if any(part.mean_share != part.share for part in self._host_parts):
                self._host_said = None  # once more, with the part of the host that it was
            self._describe_host()
        if self._host_share:
            self._host_share.release()
        if self._port:
            self._port.close()

    def state(self) -> dict[str, Any]:
        """What a successor needs to continue, JSON-ready."""
        devices = self._sampler.devices if self._sampler else []
        host = self.host
        mine = {d.gpu.ledger.device_id: d.gpu.state() for d in devices}
        return {
            "devices": {**self._known, **mine, **self._others.state()},
            "host": host.state() if host else None,
        }

    def coarsest_period_s(self) -> float | None:
        """The slowest counter's update period [s], None where none was seen."""
        devices = self._sampler.devices if self._sampler else []
        mine = [d.gpu.period_s for d in devices if d.gpu.period_s]
        return max([*mine, *self._others.periods_s()], default=None)

    def _all_ledgers(self) -> list[Ledger]:
        return [*self._ledgers, *self._others.ledgers]

    def _emit(self, device_id: str, interval: Interval) -> None:
        self._put(IntervalRecord, **interval.fields(device_id))

    def _billed(self, environ: Mapping[str, str]) -> tuple[visibility.Billed, ...]:
        if visibility.wants_none(environ) or not self._opened():
            return ()
        found = visibility.visible(environ, self._boards)
        for remark in found.remarks:
            self._notify("device-visibility", remark)
        return found.billed

    def _opened(self) -> bool:
        """Open NVML and list its boards; whether there is one to read.

        Once, but again later where a board or the driver did not answer, as after a reset.
        """
        again_ns, now_ns = self._again_ns, self._timeline.now_ns()
        if again_ns is None or now_ns < again_ns:
            return self._sampler is not None
        self._again_ns = now_ns + self._pause_ns
        self._pause_ns = min(2 * self._pause_ns, RETRY_MAX_NS)
        try:
            port = self._port = self._port or self._around.port()
            boards = [_board(port, index) for index in range(port.count())]
        except SourceAbsent as error:
            self._again_ns = self._again_ns if self._known else None
            self._unread = self._unread or DEVICE_NODE.exists()
            if not self._others.ledgers:  # another vendor's machine has no NVML to miss
                self._unmeasured(error.message.rstrip("."))
            return False
        except Exception as error:  # whatever a driver does, the job goes on
            self._unmeasured(f"NVML failed ({error})")
            self._unread = True
            return False
        if None not in boards:
            self._again_ns = None
        self._boards = [board for board in boards if board is not None]
        self._sampler = self._sampler or self._first_sampler(port)
        return True

    def _unmeasured(self, why: str) -> None:
        self._notify("meter-source-absent", f"no GPU is measured: {why}.")

    def _put_unread(self) -> None:
        """GPUs that are there and never answered: a device of unknown energy, so that the job's
        energy is unknown instead of too small.
        """
        self._put(
            DeviceRecord,
            device_id=f"{self._node}-nvml",
            device_class="gpu",
            name="NVIDIA GPU, not readable",
            meter="nvml",
            kind="estimated",
        )

    def _first_sampler(self, port: NvmlPort) -> Sampler:
        if port.meter in SYNTHETIC_METERS:
            text = f"GPU readings come from {port.meter}, not from hardware."
            self._notify("meter-synthetic", text)
        self.driver = _attempt(port.driver)
        return Sampler(port, self._timeline, self._notify, self._around.random)

    def _add_gpu(self, item: visibility.Billed, known: dict[str, Any] | None, mark_ns: int) -> None:
        port, sampler = self._port, self._sampler
        assert port is not None  # _opened() has set both
        assert sampler is not None
        board, share = item.board, item.share
        assert self._shared is not None  # begin() has set it
        ledger = self._shared.ledger(port, item, self.schedule, self._emit)
        gpu = GpuMeter(board.name, ledger, self._notify, share, mark_ns)
        if known:
            gpu.resume(known)
        readable = sampler.add(board.ordinal, gpu)
        self._ledgers.append(ledger)
        memory_b = _attempt(lambda: port.memory_b(board.ordinal)[1])
        kind = "integrated" if readable and gpu.needs_power else "measured"
        kind = "attributed" if share < 1 else kind
        fields = {
            "device_id": item.device_id,
            "device_class": "gpu",
            "name": board.name,
            "meter": port.meter,
            "kind": kind if readable else "estimated",
            "share": share,
            "memory_b": float(memory_b) * share if memory_b else None,
            "power_limit_w": gpu.limit_w,
            "units": 1.0,
            "units_total": float(len(self._boards)),
            "includes_host": _is_module(board.name),
            "update_period_s": gpu.period_s,
        }
        self._put(DeviceRecord, **fields)
        self._shared.described(ledger, fields)
        self._unsaid += [(gpu, fields)] if gpu.period_s is None else []

    def _say_periods(self) -> None:
        """Device records again, now that the counters' update periods are seen."""
        for gpu, fields in self._unsaid:
            if gpu.period_s:
                self._put(DeviceRecord, **{**fields, "update_period_s": round(gpu.period_s, 6)})
        self._unsaid.clear()

    def _add_host(self, state: dict[str, Any] | None, mark_ns: int, folder: str) -> None:
        machine = self._machine = self._around.machine()
        spawn = starter(self._around, folder)
        found = rapl_counters(self._around)
        if not (found and found.usable):
            self._say_estimated(spawn is None, len(found.denied) if found else 0)
        shares = (("cpu", machine.cpu_share), ("ram", machine.memory_share))
        cpu, ram = (
            Part(f"{self._node}-{name}", share, self.schedule, self._emit) for name, share in shares
        )
        self._host_parts = (cpu, ram)
        where = Path(folder)
        home, job_id = where.parents[2], where.parent.name
        self._host_share = HostShare(home, job_id, self._host_parts, self._notify)
        self.host = host_meter(self._timeline, machine, (cpu, ram), self._notify, spawn, found)
        if state:
            self.host.resume(state)
        else:
            self.host.start_at(mark_ns)
        self._ledgers += self.host.ledgers
        self._describe_host()

    def _say_estimated(self, alone: bool, denied: int) -> None:
        text = "no readable RAPL counter on this host; CPU energy is estimated by a model."
        if alone:
            text = (
                "codecarbon is not installed (pip install 'gramwatt[host]') or switched off; "
                "host energy is estimated from load."
            )
        elif denied:
            text = (
                f"RAPL counters of {denied} processor package(s) cannot be read (`gramwatt doctor` "
                "has the fix); CPU energy is estimated by a model."
            )
        elif self._around.rapl():
            return
        self._notify("meter-source-absent", text)

    def _describe_host(self) -> None:
        """Device records of CPU and RAM, again whenever their meter has changed."""
        host, machine = self.host, self._machine
        if host is None or machine is None or host.sources == self._host_said:
            return
        self._host_said = (cpu_meter, cpu_kind), (ram_meter, ram_kind) = host.sources
        cpu_share, ram_share = (part.mean_share for part in self._host_parts)
        self._put(
            DeviceRecord,
            device_id=f"{self._node}-cpu",
            device_class="cpu",
            name=machine.cpu_name or "unknown CPU",
            meter=cpu_meter,
            kind=_of_share(cpu_kind, cpu_share),
            share=cpu_share,
            units=machine.threads,
            units_total=machine.threads_total,
        )
        self._put(
            DeviceRecord,
            device_id=f"{self._node}-ram",
            device_class="ram",
            name="memory",
            meter=ram_meter,
            kind=_of_share(ram_kind, ram_share),
            share=ram_share,
            memory_b=machine.memory_b,
        )


def _of_share(kind: str, share: float) -> str:
    """The kind of a reading of which only a share is billed."""
    return "attributed" if share < 1 and kind == "measured" else kind


def _board(port: NvmlPort, index: int) -> visibility.Board | None:
    """A board the driver lists; None for one that does not even say who it is."""
    try:
        uuid, name = port.uuid(index), port.name(index)
        return visibility.Board(index, uuid, name, port.slices(index))
    except Exception:
        return None


def _is_module(name: str) -> bool:
    return any(part in name.lower() for part in MODULE_NAMES)


def _attempt(call: Callable[[], _T]) -> _T | None:
    try:
        return call()
    except Exception:  # a description is a courtesy
        return None
