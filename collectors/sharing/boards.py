"""The boards that a job has: a ledger for each, and their records again where one is shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gramwatt.collectors.devices.base import NvmlPort
from gramwatt.collectors.devices.visibility import Billed
from gramwatt.collectors.gpu.energy import Notify
from gramwatt.collectors.journal.intervals import Interval, Ledger, Schedule
from gramwatt.collectors.sharing.locks import NodeLocks
from gramwatt.collectors.sharing.locks import folder as node_folder
from gramwatt.collectors.sharing.tenancy import (
    BoardLocks,
    Processes,
    SharedLedger,
    Tenancy,
    UsersPort,
)
from gramwatt.sci.journal.records import SYNTHETIC_METERS, DeviceRecord


class Boards:
    """What one leading meter knows of who else uses its job's boards."""

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        pids: set[int],
        put: Callable[..., None],
        notify: Notify,
    ) -> None:
        """`folder` is the job's spool folder of this node; `pids` are the job's clients."""
        job_id = folder.parent.name
        shared = node_folder()
        node = NodeLocks(shared, job_id) if shared else None
        self._locks = BoardLocks(folder.parents[2], job_id, node)
        self._around = self._locks, Processes(lambda: pids, job_id), environ
        self._put, self._notify = put, notify
        self._known: list[tuple[Tenancy, dict[str, Any]]] = []
        self._said: set[str] = set()

    def ledger(
        self,
        port: NvmlPort,
        item: Billed,
        schedule: Schedule,
        emit: Callable[[str, Interval], None],
    ) -> Ledger:
        """The ledger of a billed device: a slice's share is fixed, a board's is looked at."""
        if item.share < 1 or not isinstance(port, UsersPort):
            return Ledger(item.device_id, schedule, emit)
        if port.meter in SYNTHETIC_METERS:
            self._locks.stay_home()
        ledger = SharedLedger(item.device_id, schedule, emit)
        names = (item.board.uuid, item.board.name)
        ledger.tenancy = Tenancy(port, item.board.ordinal, names, self._around, self._notify)
        return ledger

    def described(self, ledger: Ledger, fields: dict[str, Any]) -> None:
        """Remember the device record of a ledger, to put it again when its board is shared."""
        if isinstance(ledger, SharedLedger):
            self._known.append((ledger.tenancy, fields))

    def say(self, *, final: bool) -> None:
        """Device records of shared boards: when that is seen, and at the end with the mean."""
        for tenancy, fields in self._known:
            name = fields["device_id"]
            if tenancy.whole_j <= tenancy.billed_j or (name in self._said and not final):
                continue
            self._said.add(name)
            self._put(DeviceRecord, **{**fields, "share": tenancy.share, "kind": "attributed"})
            if final:
                tenancy.conclude()
        if final:
            self._locks.release()
