"""The devices of vendors other than NVIDIA: found, billed and read by the same meter as GPUs are.

A device that is there and cannot be read is journaled without energy, so that the job's energy
stays unknown instead of too small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from gramwatt.collectors.common.clock import Timeline
from gramwatt.collectors.common.identity import safe_id
from gramwatt.collectors.devices.base import SourceError
from gramwatt.collectors.devices.visibility import Billed, Board
from gramwatt.collectors.gpu.energy import GpuMeter, Notify
from gramwatt.collectors.gpu.reader import best_read
from gramwatt.collectors.gpu.sampler import Device, Sampler
from gramwatt.collectors.journal.intervals import Interval, Ledger, Schedule
from gramwatt.collectors.sources.vendor import VendorPort
from gramwatt.sci.journal.records import DeviceRecord

Put = Callable[..., None]
Emit = Callable[[str, Interval], None]


class DerivedLedger(Ledger):
    """Books as `derived` what a meter takes for measured: its power is a percent of a rating."""

    __slots__ = ()

    def add(
        self, start_ns: int, end_ns: int, energy_j: float, kind: str, power_w: float | None = None
    ) -> None:
        """Book `energy_j` [J] over [start, end)."""
        label = kind if kind == "estimated" else "derived"
        super().add(start_ns, end_ns, energy_j, label, power_w)


class SlowMeter(GpuMeter):
    """A meter of power that changes once a second at most, so that dense samples show nothing."""

    __slots__ = ()

    @property
    def needs_power(self) -> bool:
        """Never: the reading of every second holds all there is."""
        return False


class Group:
    """One vendor's open source, its devices and their sampler."""

    def __init__(self, port: VendorPort, sampler: Sampler) -> None:
        self.port, self.sampler = port, sampler
        found = (_board(port, index) for index in range(port.count()))
        self.boards = [board for board in found if board is not None]


class Accelerators:
    """All devices of other vendors that one job has on this node."""

    def __init__(
        self, timeline: Timeline, schedule: Schedule, put: Put, notify: Notify, random: Random
    ) -> None:
        self.ledgers: list[Ledger] = []
        self.includes_host = False
        self._timeline, self._schedule, self._random = timeline, schedule, random
        self._put, self._notify = put, notify
        self._groups: list[Group] = []

    def open(self, ports: list[VendorPort], node: str) -> None:
        """Open each source; one that is there and does not open leaves a device of unknown
        energy.
        """
        for port in ports:
            try:
                port.open()
                sampler = Sampler(port, self._timeline, self._notify, self._random)
                self._groups.append(Group(port, sampler))
            except SourceError as error:
                self._unread(port, node, error.message)
            except Exception as error:  # whatever a vendor's library does, the job goes on
                self._unread(port, node, f"{port.meter} failed ({error})")

    def adopt(
        self, environ: Mapping[str, str], known: Mapping[str, Any], mark_ns: int, emit: Emit
    ) -> None:
        """Take on the devices that `environ` gives the job and that are not measured yet.

        `known` are a dead meter's states by device; the energy of others begins at `mark_ns` [ns].
        """
        measured = {ledger.device_id for ledger in self.ledgers}
        for group in self._groups:
            found = group.port.reserved(environ, group.boards)
            for remark in found.remarks:
                self._notify("device-visibility", f"{group.port.vendor}: {remark}")
            for item in found.billed:
                if item.device_id not in measured:
                    self._add(group, item, known.get(item.device_id), mark_ns, emit)
            if found.billed and group.port.includes_host:
                self.includes_host = True

    def dues_ns(self) -> list[int]:
        """When each vendor's next reading is due [ns]."""
        return [group.sampler.due_ns() for group in self._groups if group.sampler.devices]

    def tick(self) -> None:
        """Take the readings that are due."""
        for group in self._groups:
            group.sampler.tick()

    def mark(self, mark_ns: int) -> None:
        """A window's edge at `mark_ns` [ns]."""
        for group in self._groups:
            group.sampler.mark(mark_ns)

    def stop(self, stop_ns: int) -> None:
        """The final readings, and the end of every source."""
        for group in self._groups:
            group.sampler.stop(stop_ns)
            group.port.close()

    def state(self) -> dict[str, Any]:
        """What a successor needs of each device, JSON-ready."""
        return {d.gpu.ledger.device_id: d.gpu.state() for d in self._devices()}

    def periods_s(self) -> list[float]:
        """The counters' update periods [s], where they were seen."""
        return [d.gpu.period_s for d in self._devices() if d.gpu.period_s]

    def _devices(self) -> list[Device]:
        return [device for group in self._groups for device in group.sampler.devices]

    def _add(
        self, group: Group, item: Billed, known: dict[str, Any] | None, mark_ns: int, emit: Emit
    ) -> None:
        port, board = group.port, item.board
        derived = port.sampled_kind == "derived"
        ledger = (DerivedLedger if derived else Ledger)(item.device_id, self._schedule, emit)
        share = port.share(board.ordinal) * item.share
        meter = SlowMeter if derived else GpuMeter
        gpu = meter(board.name, ledger, self._notify, share, mark_ns)
        if known:
            lost = {} if port.counter_survives else {"counter_mj": None}
            gpu.resume({**known, **lost})
        readable = best_read(port, board.ordinal) is not None
        if readable:
            group.sampler.add(board.ordinal, gpu)
        else:
            why = f"{board.name}: {port.why_unread(board.ordinal)}."
            self._notify("energy-unmeasured", why)
        self.ledgers.append(ledger)
        kind = port.sampled_kind if gpu.state()["counter_mj"] is None else "measured"
        kind = "attributed" if share < 1 and not derived else kind
        self._put(
            DeviceRecord,
            device_id=item.device_id,
            device_class=port.device_class,
            name=board.name,
            meter=port.meter,
            kind=kind if readable else "estimated",
            share=item.share,
            memory_b=_total_b(port, board.ordinal, item.share),
            power_limit_w=gpu.limit_w,
            units=1.0,
            units_total=float(len(group.boards)),
            includes_host=port.includes_host,
        )

    def _unread(self, port: VendorPort, node: str, why: str) -> None:
        text = " ".join(why.rstrip(".").split())
        self._notify("meter-source-absent", f"{port.vendor} is not measured: {text}.")
        self._put(
            DeviceRecord,
            device_id=f"{node}-{port.meter}",
            device_class=port.device_class,
            name=f"{port.vendor}, not readable",
            meter=port.meter,
            kind="estimated",
        )


def _board(port: VendorPort, index: int) -> Board | None:
    """A device as the rules of visibility want it; None for one that does not say who it is."""
    try:
        return Board(index, safe_id(port.uuid(index)), port.name(index))
    except Exception:
        return None


def _total_b(port: VendorPort, index: int, share: float) -> float | None:
    try:
        return port.memory_b(index)[1] * share
    except Exception:  # a description is a courtesy
        return None
