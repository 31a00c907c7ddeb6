"""The devices of one vendor that one job has on one node: found, sampled and recorded.

A device that is there and cannot be read is journaled without energy, so that the job's energy
stays unknown instead of too small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from gramwatt.collectors.common.clock import Timeline
from gramwatt.collectors.common.identity import safe_id
from gramwatt.collectors.devices.energy import EnergyMeter
from gramwatt.collectors.devices.port import Billed, Board, DevicePort, Notify, SourceAbsent
from gramwatt.collectors.devices.reader import RETRY_MAX_NS, RETRY_MIN_NS
from gramwatt.collectors.devices.sampler import Sampler
from gramwatt.collectors.devices.sharing import SharedBoards, SharedLedger
from gramwatt.collectors.journal.intervals import Interval, Ledger, Schedule
from gramwatt.sci.journal.records import SYNTHETIC_METERS, DeviceRecord, IntervalRecord

Put = Callable[..., None]
"""Takes a record's type and fields, as Journal.put does."""
Known = Mapping[str, dict[str, Any]]
"""An earlier meter's states by device id."""


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


class DeviceGroup:
    """The job's devices of one port.

    A driver or device that does not answer, as after a reset, is asked again later.
    """

    def __init__(self, job: NodeJob, port: DevicePort, shared: SharedBoards) -> None:
        self.sampler = Sampler(port, job.timeline, job.notify, job.random)
        self.ledgers: list[Ledger] = []
        self.includes_host = False
        """True when a device's energy holds the host's processor and memory."""
        self.driver: str | None = None
        self.retry_at_ns: int | None = 0
        """When a driver or device that did not answer is asked again [ns]; 0 before the first
        time, None when all have answered."""
        self._job = job
        self._port = port
        self._shared = shared
        self._boards: list[Board] | None = None
        self._open = self._unread = False
        self._pause_ns = RETRY_MIN_NS
        self._without_period: list[tuple[EnergyMeter, dict[str, Any]]] = []

    def adopt(
        self, environ: Mapping[str, str], known: Known, mark_ns: int, *, expected: bool
    ) -> None:
        """Add the devices that `environ` gives the job and that are not measured yet.

        `known` are an earlier meter's states by device; the energy of others begins at `mark_ns`
        [ns]. `expected`: a source that is absent is worth a notice.
        """
        if self._port.wants_none(environ):
            return
        boards = self._find(keep_asking=bool(known), expected=expected)
        if boards is None:
            return
        found = self._port.visible(environ, boards)
        for remark in found.remarks:
            self._job.notify("device-visibility", self._port.remark_text(remark))
        measured = {ledger.device_id for ledger in self.ledgers}
        for item in found.billed:
            self.includes_host = self.includes_host or item.board.includes_host
            if item.device_id not in measured:
                self._add(item, known.get(item.device_id), mark_ns, len(boards))

    @property
    def name(self) -> str:
        """Return the vendor's name."""
        return self._port.vendor

    def due_ns(self) -> int | None:
        """Return when it is read next, or its driver asked again [ns]; None where it never is."""
        dues = [self.sampler.due_ns()] if self.sampler.devices else []
        dues += [self.retry_at_ns] if self.retry_at_ns else []
        return min(dues, default=None)

    def tick(self) -> None:
        """Take the readings that are due."""
        self.sampler.tick()
        self._put_periods()

    def stop(self, stop_ns: int) -> None:
        """Take the final readings, up to the stop [ns]."""
        self.sampler.stop(stop_ns)
        self._put_unread()

    def close(self) -> None:
        """Close the port."""
        if self._open:
            self._port.close()

    def _find(self, *, keep_asking: bool, expected: bool) -> list[Board] | None:
        """Return the port's devices; None where it cannot be used, or not yet."""
        retry_at_ns, now_ns = self.retry_at_ns, self._job.timeline.now_ns()
        if retry_at_ns is None or now_ns < retry_at_ns:
            return self._boards
        self.retry_at_ns = now_ns + self._pause_ns
        self._pause_ns = min(2 * self._pause_ns, RETRY_MAX_NS)
        try:
            if not self._open:
                self._port.open()
                self._open = True
            boards = [self._board(index) for index in range(self._port.count())]
        except SourceAbsent as error:
            self._unread = self._unread or self._port.exists()
            if expected or self._port.exists():
                self._report_absent(" ".join(error.message.rstrip(".").split()))
            if not keep_asking:
                self.retry_at_ns = None
                self._put_unread()
            return None
        except Exception as error:  # whatever a driver does, the job continues
            self._report_absent(f"{self._port.library or self._port.meter} failed ({error})")
            self._unread = self._boards is None
            return None
        if None not in boards:
            self.retry_at_ns = None
        if self._boards is None:
            self._describe()
        self._boards = [board for board in boards if board is not None]
        return self._boards

    def _board(self, index: int) -> Board | None:
        """Return a device that the driver lists; None for one whose id or name cannot be read."""
        try:
            board = self._port.board(index)
        except Exception:
            return None
        return board._replace(uuid=safe_id(board.uuid))

    def _describe(self) -> None:
        self._unread = False
        self.driver = self._port.driver()
        if self._port.meter in SYNTHETIC_METERS:
            text = f"GPU readings come from {self._port.meter}, not from hardware."
            self._job.notify("meter-synthetic", text)

    def _add(self, item: Billed, known: dict[str, Any] | None, mark_ns: int, boards: int) -> None:
        job, port, board = self._job, self._port, item.board
        derived = port.sampled_kind == "derived"
        ledger = self._shared.ledger(
            port, item, job.schedule, job.emit, kind="derived" if derived else None
        )
        share = board.share * item.share
        meter = EnergyMeter(board.name, ledger, job.notify, share, mark_ns, dense_power=not derived)
        if known:
            meter.resume(known if port.counter_survives else {**known, "counter_mj": None})
        readable = self.sampler.add(board.ordinal, meter)
        self.ledgers.append(ledger)
        kind = "measured" if meter.has_counter else port.sampled_kind
        kind = "attributed" if share < 1 and not derived else kind
        fields = {
            "device_id": item.device_id,
            "device_class": port.device_class,
            "name": board.name,
            "meter": port.meter,
            "kind": kind if readable else "estimated",
            "share": item.share,
            "memory_b": board.memory_b * item.share if board.memory_b else None,
            "power_limit_w": meter.limit_w,
            "units": 1.0,
            "units_total": float(boards),
            "includes_host": board.includes_host,
            "update_period_s": meter.period_s,
        }
        job.put(DeviceRecord, **fields)
        if isinstance(ledger, SharedLedger):
            ledger.fields = fields
        if meter.period_s is None and self.driver is not None:
            self._without_period.append((meter, fields))

    def _put_periods(self) -> None:
        """Write device records again, once the counters' update periods are known."""
        if not self._without_period or self.sampler.awaits_start:
            return
        for meter, fields in self._without_period:
            if meter.period_s:
                period_s = round(meter.period_s, 6)
                self._job.put(DeviceRecord, **{**fields, "update_period_s": period_s})
        self._without_period.clear()

    def _report_absent(self, why: str) -> None:
        self._job.notify("meter-source-absent", self._port.absence_text(why))

    def _put_unread(self) -> None:
        """Record devices that exist and never answered as one of unknown energy."""
        if not self._unread:
            return
        self._unread, port = False, self._port
        self._job.put(
            DeviceRecord,
            device_id=f"{self._job.node}-{port.meter}",
            device_class=port.device_class,
            name=f"{port.vendor}, not readable",
            meter=port.meter,
            kind="estimated",
        )
