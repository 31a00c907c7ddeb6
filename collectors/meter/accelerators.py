"""The accelerators of one job on one node, NVIDIA's and other vendors': found, billed and read.

A device that is there and cannot be read is journaled without energy, so that the job's energy
stays unknown instead of too small.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from gramwatt.collectors.common.clock import Timeline
from gramwatt.collectors.common.identity import safe_id
from gramwatt.collectors.devices import visibility
from gramwatt.collectors.devices.base import DevicePort, Notify, SourceAbsent, SourceError
from gramwatt.collectors.devices.visibility import Billed, Board
from gramwatt.collectors.gpu.energy import GpuMeter
from gramwatt.collectors.gpu.reader import RETRY_MAX_NS, RETRY_MIN_NS, best_read
from gramwatt.collectors.gpu.sampler import Sampler
from gramwatt.collectors.journal.intervals import Interval, Ledger, Schedule
from gramwatt.collectors.sharing.attribution import SharedBoards
from gramwatt.collectors.sources.vendor import VendorPort
from gramwatt.sci.journal.records import SYNTHETIC_METERS, DeviceRecord, IntervalRecord

_T = TypeVar("_T")
Put = Callable[..., None]
"""Takes a record's type and fields, as Journal.put does."""
Known = Mapping[str, dict[str, Any]]
"""An earlier meter's states by device id."""

MODULE_NAMES = ("gh200",)
"""Parts whose energy counter is the whole module, processor and memory included (Grace-Hopper;
reported for the counter by the Zeus project, pull request 172)."""
DEVICE_NODE = Path("/dev/nvidia0")
"""Exists where the kernel's driver has a GPU, whether or not NVML can read it."""


@dataclass(frozen=True, slots=True)
class NodeJob:
    """What all devices of one job on one node have in common."""

    node: str
    timeline: Timeline
    schedule: Schedule
    random: Random
    put: Put
    notify: Notify

    def emit(self, device_id: str, interval: Interval) -> None:
        """Journal a finished interval."""
        self.put(IntervalRecord, **interval.fields(device_id))


class NvidiaGpus:
    """The job's NVIDIA GPUs, found through NVML.

    A driver or board that does not answer, as after a reset, is asked again later.
    """

    def __init__(
        self, job: NodeJob, open_port: Callable[[], DevicePort], shared: SharedBoards
    ) -> None:
        """`open_port` raises SourceAbsent on a machine without NVML."""
        self.driver: str | None = None
        self.sampler: Sampler | None = None
        self.ledgers: list[Ledger] = []
        self.retry_at_ns: int | None = 0
        """When a driver or board that did not answer is asked again [ns]."""
        self._job = job
        self._open_port = open_port
        self._shared = shared
        self._port: DevicePort | None = None
        self._boards: list[Board] = []
        self._unread = False
        self._pause_ns = RETRY_MIN_NS
        self._without_period: list[tuple[GpuMeter, dict[str, Any]]] = []

    def adopt(
        self, environ: Mapping[str, str], known: Known, mark_ns: int, *, expected: bool
    ) -> tuple[Billed, ...]:
        """Add the GPUs that `environ` gives the job and that are not measured yet; returns all.

        `known` are a dead meter's states by device; the energy of others begins at `mark_ns` [ns].
        `expected`: a machine without NVML is worth a notice.
        """
        billed = self._billed(environ, known, expected=expected)
        measured = {ledger.device_id for ledger in self.ledgers}
        for item in billed:
            if item.device_id not in measured:
                self._add(item, known.get(item.device_id), mark_ns)
        return billed

    def put_periods(self) -> None:
        """Device records again, once the counters' update periods are known."""
        if not self._without_period or self.sampler is None or self.sampler.awaits_start:
            return
        for gpu, fields in self._without_period:
            if gpu.period_s:
                self._job.put(DeviceRecord, **{**fields, "update_period_s": round(gpu.period_s, 6)})
        self._without_period.clear()

    def put_unread(self) -> None:
        """Record GPUs that exist and never answered as a device of unknown energy, so that the
        job's energy is unknown instead of too small.
        """
        if self.sampler is None and self._unread:
            _put_unread(self._job, "nvml", "gpu", "NVIDIA GPU")

    def close(self) -> None:
        """Shut NVML down."""
        if self._port:
            self._port.close()

    def _billed(
        self, environ: Mapping[str, str], known: Known, *, expected: bool
    ) -> tuple[Billed, ...]:
        if visibility.wants_none(environ) or not self._opened(known, expected=expected):
            return ()
        found = visibility.visible(environ, self._boards)
        for remark in found.remarks:
            self._job.notify("device-visibility", remark)
        return found.billed

    def _opened(self, known: Known, *, expected: bool) -> bool:
        """Open NVML and list its boards, again later where one did not answer; whether there is
        one to read.
        """
        retry_at_ns, now_ns = self.retry_at_ns, self._job.timeline.now_ns()
        if retry_at_ns is None or now_ns < retry_at_ns:
            return self.sampler is not None
        self.retry_at_ns = now_ns + self._pause_ns
        self._pause_ns = min(2 * self._pause_ns, RETRY_MAX_NS)
        try:
            port = self._port = self._port or self._open_port()
            boards = [_nvidia_board(port, index) for index in range(port.count())]
        except SourceAbsent as error:
            self.retry_at_ns = self.retry_at_ns if known else None
            self._unread = self._unread or DEVICE_NODE.exists()
            if expected:
                self._report_absent(error.message.rstrip("."))
            return False
        except Exception as error:  # whatever a driver does, the job continues
            self._report_absent(f"NVML failed ({error})")
            self._unread = True
            return False
        if None not in boards:
            self.retry_at_ns = None
        self._boards = [board for board in boards if board is not None]
        self.sampler = self.sampler or self._new_sampler(port)
        return True

    def _report_absent(self, why: str) -> None:
        expected = DEVICE_NODE.exists() or os.environ.get("CUDA_VISIBLE_DEVICES")
        fix = "; `gramwatt doctor` shows what to do" if expected else ""
        self._job.notify("meter-source-absent", f"no GPU is measured: {why}{fix}.")

    def _new_sampler(self, port: DevicePort) -> Sampler:
        if port.meter in SYNTHETIC_METERS:
            text = f"GPU readings come from {port.meter}, not from hardware."
            self._job.notify("meter-synthetic", text)
        self.driver = _attempt(port.driver)
        return Sampler(port, self._job.timeline, self._job.notify, self._job.random)

    def _add(self, item: Billed, known: dict[str, Any] | None, mark_ns: int) -> None:
        port, sampler = self._port, self.sampler
        assert port is not None  # _opened() has set both
        assert sampler is not None
        board, share = item.board, item.share
        ledger = self._shared.ledger(port, item, self._job.schedule, self._job.emit)
        gpu = GpuMeter(board.name, ledger, self._job.notify, share, mark_ns)
        if known:
            gpu.resume(known)
        readable = sampler.add(board.ordinal, gpu)
        self.ledgers.append(ledger)
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
            "includes_host": is_module(board),
            "update_period_s": gpu.period_s,
        }
        self._job.put(DeviceRecord, **fields)
        self._shared.remember(fields)
        if gpu.period_s is None:
            self._without_period.append((gpu, fields))


class Group:
    """One vendor's open source, its devices and their sampler."""

    def __init__(self, port: VendorPort, sampler: Sampler) -> None:
        self.port, self.sampler = port, sampler
        found = (_vendor_board(port, index) for index in range(port.count()))
        self.boards = [board for board in found if board is not None]


class OtherVendors:
    """The job's devices of vendors other than NVIDIA."""

    def __init__(self, job: NodeJob) -> None:
        self.ledgers: list[Ledger] = []
        self.includes_host = False
        self._job = job
        self._groups: list[Group] = []

    @property
    def samplers(self) -> list[Sampler]:
        """One for each vendor whose devices the job has."""
        return [group.sampler for group in self._groups if group.sampler.devices]

    def open(self, ports: list[VendorPort]) -> None:
        """Open each source; one that cannot be opened is recorded as a device of unknown
        energy.
        """
        for port in ports:
            try:
                port.open()
                job = self._job
                sampler = Sampler(port, job.timeline, job.notify, job.random)
                self._groups.append(Group(port, sampler))
            except SourceError as error:
                self._report_unread(port, error.message)
            except Exception as error:  # whatever a vendor's library does, the job continues
                self._report_unread(port, f"{port.meter} failed ({error})")

    def adopt(self, environ: Mapping[str, str], known: Known, mark_ns: int) -> None:
        """Add the devices that `environ` gives the job and that are not measured yet.

        `known` are an earlier meter's states; the energy of others begins at `mark_ns` [ns].
        """
        measured = {ledger.device_id for ledger in self.ledgers}
        for group in self._groups:
            found = group.port.reserved(environ, group.boards)
            for remark in found.remarks:
                self._job.notify("device-visibility", f"{group.port.vendor}: {remark}")
            for item in found.billed:
                if item.device_id not in measured:
                    self._add(group, item, known.get(item.device_id), mark_ns)
            if found.billed and group.port.includes_host:
                self.includes_host = True

    def close(self) -> None:
        """Close every source."""
        for group in self._groups:
            group.port.close()

    def _add(self, group: Group, item: Billed, known: dict[str, Any] | None, mark_ns: int) -> None:
        job, port, board = self._job, group.port, item.board
        derived = port.sampled_kind == "derived"
        ledger = Ledger(item.device_id, job.schedule, job.emit, kind="derived" if derived else None)
        share = port.share(board.ordinal) * item.share
        gpu = GpuMeter(board.name, ledger, job.notify, share, mark_ns, dense_power=not derived)
        if known:
            lost = {} if port.counter_survives else {"counter_mj": None}
            gpu.resume({**known, **lost})
        readable = best_read(port, board.ordinal) is not None
        if readable:
            group.sampler.add(board.ordinal, gpu)
        else:
            why = f"{board.name}: {port.why_unread(board.ordinal)}."
            self._job.notify("energy-unmeasured", why)
        self.ledgers.append(ledger)
        total_b = _attempt(lambda: port.memory_b(board.ordinal)[1])
        kind = "measured" if gpu.has_counter else port.sampled_kind
        kind = "attributed" if share < 1 and not derived else kind
        self._job.put(
            DeviceRecord,
            device_id=item.device_id,
            device_class=port.device_class,
            name=board.name,
            meter=port.meter,
            kind=kind if readable else "estimated",
            share=item.share,
            memory_b=total_b * item.share if total_b else None,
            power_limit_w=gpu.limit_w,
            units=1.0,
            units_total=float(len(group.boards)),
            includes_host=port.includes_host,
        )

    def _report_unread(self, port: VendorPort, why: str) -> None:
        text = " ".join(why.rstrip(".").split())
        self._job.notify("meter-source-absent", f"{port.vendor} is not measured: {text}.")
        _put_unread(self._job, port.meter, port.device_class, port.vendor)


def is_module(board: Board) -> bool:
    """Whether the board's counter holds the host's processor and memory too."""
    return any(part in board.name.lower() for part in MODULE_NAMES)


def _nvidia_board(port: DevicePort, index: int) -> Board | None:
    """A board that the driver lists; None for one whose UUID or name cannot be read."""
    try:
        return Board(index, port.uuid(index), port.name(index), port.slices(index))
    except Exception:
        return None


def _attempt(call: Callable[[], _T]) -> _T | None:
    try:
        return call()
    except Exception:  # a description that is missing costs nothing else
        return None


def _vendor_board(port: VendorPort, index: int) -> Board | None:
    """A device as `visibility` takes it; None for one whose id or name cannot be read."""
    try:
        return Board(index, safe_id(port.uuid(index)), port.name(index))
    except Exception:
        return None


def _put_unread(job: NodeJob, meter: str, device_class: str, name: str) -> None:
    job.put(
        DeviceRecord,
        device_id=f"{job.node}-{meter}",
        device_class=device_class,
        name=f"{name}, not readable",
        meter=meter,
        kind="estimated",
    )
