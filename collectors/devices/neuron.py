"""AWS Trainium and Inferentia: percent of the part's highest power, from sysfs. Never run on the
hardware.

Shapes follow AWS's Neuron driver (neuron_power.h and its sysfs node) and sysfs guide:
`neuron<n>/stats/power/utilization` holds "POWER_STATUS_VALID,<Unix time>,<min>,<max>,<mean>", the
figures in percent of the highest power, renewed once a minute. The idle power is not in them. Of a
device with two dies they are the figures of the busier die (neuron_power.c). AWS does not publish
the watts at 100 %, so without idle and rated power in the catalog the energy stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gramwatt.collectors.devices import visibility
from gramwatt.collectors.devices.board import (
    Billed,
    Board,
    DevicePort,
    NotSupported,
    Place,
    ReadFailed,
    SourceAbsent,
    Visible,
    may_open,
    rated_w,
)
from gramwatt.collectors.settings.files import text_of
from gramwatt.sci.figures.units import mw_from_w

DEVICES = "sys/devices/virtual/neuron_device"
VALID = "POWER_STATUS_VALID"
CORES, CORE_COUNT = "NEURON_RT_VISIBLE_CORES", "NEURON_RT_NUM_CORES"
LOGICAL_CORES = ("NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_VIRTUAL_CORE_SIZE")
IN_PAIRS = ("Trainium2", "Trainium3")
"""Devices whose logical core is two physical ones where no variable says otherwise (AWS's page on
the logical NeuronCore configuration)."""


class Neuron(DevicePort):
    """The Neuron devices of this instance."""

    vendor = title = "AWS Neuron"
    meter = "neuron-sysfs"
    sampled_kind = "derived"
    variables = (CORES, CORE_COUNT, *LOGICAL_CORES)

    @classmethod
    def present(cls, place: Place) -> bool:
        """Return whether the driver lists a device that a job may open."""
        return bool(devices(place.root))

    def __init__(
        self, root: Path = Path("/"), rated: Callable[[str], tuple[float, float] | None] = rated_w
    ) -> None:
        super().__init__(root)
        self._rated_w = rated
        self._devices: list[Path] = []

    def open(self) -> None:
        """Find the devices; raises SourceAbsent."""
        self._devices = devices(self.root)
        if not self._devices:
            raise SourceAbsent(
                "no Neuron device can be opened", "install AWS's aws-neuronx-dkms driver"
            )
        files = (path / "info/architecture/device_name" for path in self._devices)
        self._names = [text_of(file) or self.title for file in files]
        self._power_w = {name: self._rated_w(name) for name in self._names}

    def count(self) -> int:
        """Return the number of devices of the instance; each has several cores."""
        return len(self._devices)

    def board(self, index: int) -> Board:
        """Return a part, such as Inferentia2, by its serial number where the driver has one, else
        by its place in the instance.
        """
        serial = text_of(self._devices[index] / "info/serial_number") or ""
        named = re.fullmatch(r"[A-Za-z0-9]{4,64}", serial) and serial.strip("0")
        uuid = f"neuron-{serial if named else self._devices[index].name[6:]}"
        return Board(index, uuid, self._names[index])

    def power_mw(self, index: int) -> float:
        """Return the mean of the last minute [mW]: the driver's percentage, from the catalog's idle
        to its rated power.
        """
        power_w = self._power_w[self._names[index]]
        if power_w is None:
            raise NotSupported(self.why_unread(index))
        idle_w, rated_w = power_w
        return round(mw_from_w(idle_w + (rated_w - idle_w) * self._percent(index) / 100))

    def why_unread(self, index: int) -> str:
        """Return why: the watts behind 100 % are not published."""
        if self._power_w[self._names[index]] is None:
            return (
                "the driver gives percent of a power that AWS does not publish, and the catalog "
                f"lacks idle or rated power of {self._names[index]}, which an overlay can have"
            )
        return "the driver has no power figure for it"

    def visible(self, environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
        """Return the devices of the job, by NEURON_RT_VISIBLE_CORES, in cores of each device."""
        # Not by `core_count`, which is root's alone.
        cores = len([*self._devices[0].glob("neuron_core[0-9]*")])
        logical = next((environ[name] for name in LOGICAL_CORES if name in environ), "")
        size = int(logical) if logical.isdecimal() else 1 + (self._names[0] in IN_PAIRS)
        return visible(environ, boards, cores // max(1, size))

    def _percent(self, index: int) -> float:
        path = self._devices[index] / "stats/power/utilization"
        text = text_of(path)
        if text is None:
            meaning = ReadFailed if path.exists() else NotSupported
            raise meaning("stats/power/utilization of this driver cannot be read")
        status, *figures = [part.strip() for part in text.split(",")]
        try:
            percent = float(figures[3])
        except (IndexError, ValueError):
            raise ReadFailed(f"stats/power/utilization holds {text[:80]!r}") from None
        if status != VALID or not 0 <= percent <= 100:
            raise ReadFailed(f"stats/power/utilization holds {text[:80]!r}")
        return percent


def devices(root: Path) -> list[Path]:
    """Return the folders in sysfs of the devices whose nodes this process may open, in order."""
    folders = [path for path in (root / DEVICES).glob("neuron*") if path.name[6:].isdecimal()]
    usable = [path for path in folders if may_open(root, path.name)]
    return sorted(usable, key=lambda path: int(path.name[6:]))


def visible(environ: Mapping[str, str], boards: Sequence[Board], per_device: int) -> Visible:
    """Return the devices of the job: NEURON_RT_VISIBLE_CORES, such as `0-3,8`, numbers the logical
    cores through all devices.

    `per_device` are a device's logical cores, 0 where that is not known; a device is billed by the
    share of them that is the job's. Without the variable the whole instance is.
    """
    if CORES not in environ:
        if CORE_COUNT in environ and len(boards) > 1:
            text = f"{CORE_COUNT} does not say which cores; every device here is billed."
            return Visible.whole(boards, (text,))
        return Visible.whole(boards)
    if per_device == 0:
        text = f"{CORES} cannot be matched; every device is billed."
        return Visible.whole(boards, (text,))
    entries = visibility.spelled(environ[CORES])
    cores = [entry for entry in entries if entry.isdecimal() and len(entry) < 16]
    numbers, others = {int(entry) for entry in cores}, [e for e in entries if e not in cores]
    remarks = [f"{CORES} names {entry!r}, which is not a core." for entry in others]
    billed = []
    for place, board in enumerate(boards):
        of_device = range(place * per_device, (place + 1) * per_device)
        part = len(numbers.intersection(of_device))
        numbers.difference_update(of_device)
        if part:
            billed.append(Billed(board, board.uuid, part / per_device))
    if numbers:
        remarks.append(f"{CORES} names cores that are not here; they are not billed.")
    return Visible(tuple(billed), tuple(remarks))
