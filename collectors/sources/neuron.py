"""AWS Trainium and Inferentia: percent of the part's highest power, from sysfs. Never run on the
hardware.

Shapes follow AWS's Neuron driver (neuron_power.h and its sysfs node) and sysfs guide:
`neuron<n>/stats/power/utilization` holds "POWER_STATUS_VALID,<Unix time>,<min>,<max>,<mean>", the
figures in percent of the highest power, renewed once a minute. What 100 % is in watts AWS does not
publish, so without a rated power in the catalog the energy stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from gramwatt.collectors.common.files import text_of
from gramwatt.collectors.devices.base import NotSupported, ReadFailed, SourceAbsent
from gramwatt.collectors.devices.visibility import Board, Visible, neuron
from gramwatt.collectors.sources.vendor import VendorPort, rated_w
from gramwatt.sci.base.units import mw_from_w

DEVICES = "sys/devices/virtual/neuron_device"
VALID = "POWER_STATUS_VALID"


class Neuron(VendorPort):
    """The Neuron devices of this instance."""

    vendor = "AWS Neuron"
    meter = "neuron-sysfs"
    sampled_kind = "derived"

    @classmethod
    def at(cls, root: Path) -> Self:
        """The devices of a machine whose file system begins at `root`."""
        return cls(root)

    def __init__(
        self,
        root: Path = Path("/"),
        rated: Callable[[str], tuple[float, float] | None] = rated_w,
    ) -> None:
        self._folder = root / DEVICES
        self._rated_w = rated
        self._devices: list[Path] = []
        self._power_w: dict[str, float | None] = {}

    def open(self) -> None:
        """Find the devices; raises SourceAbsent."""
        found = [path for path in self._folder.glob("neuron*") if path.name[6:].isdecimal()]
        self._devices = sorted(found, key=lambda path: int(path.name[6:]))
        if not self._devices:
            raise SourceAbsent("no Neuron device in sysfs; install AWS's aws-neuronx-dkms driver")

    def count(self) -> int:
        """Devices of the instance; each has several cores."""
        return len(self._devices)

    def name(self, index: int) -> str:
        """The part's name, such as Inferentia2."""
        return text_of(self._devices[index] / "info/architecture/device_name") or "AWS Neuron"

    def uuid(self, index: int) -> str:
        """The serial number where the driver has one, else the place in the instance."""
        serial = text_of(self._devices[index] / "info/serial_number") or ""
        named = re.fullmatch(r"[A-Za-z0-9]{4,64}", serial) and serial.strip("0")
        return f"neuron-{serial if named else self._devices[index].name[6:]}"

    def power_mw(self, index: int) -> int:
        """Mean of the last minute [mW]: the driver's percentage of the catalog's rated power."""
        rated = self._rated(index)
        if rated is None:
            raise NotSupported(self.why_unread(index))
        return round(mw_from_w(rated) * self._percent(index) / 100)

    def why_unread(self, index: int) -> str:
        """The watts behind 100 % are not published."""
        if self._rated(index) is None:
            return (
                "the driver gives percent of a highest power that AWS does not publish and the "
                "catalog lacks; the energy stays unknown"
            )
        return "the driver has no power figure for it"

    def reserved(self, environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
        """By NEURON_RT_VISIBLE_CORES, in cores of each device."""
        cores = text_of(self._devices[0] / "core_count") or ""
        return neuron(environ, boards, int(cores) if cores.isdecimal() else None)

    def _rated(self, index: int) -> float | None:
        name = self.name(index)
        if name not in self._power_w:
            found = self._rated_w(name)
            self._power_w[name] = found[1] if found else None
        return self._power_w[name]

    def _percent(self, index: int) -> float:
        text = text_of(self._devices[index] / "stats/power/utilization")
        if text is None:
            raise NotSupported("this driver has no stats/power/utilization")
        status, *figures = [part.strip() for part in text.split(",")]
        try:
            percent = float(figures[3])
        except (IndexError, ValueError):
            raise ReadFailed(f"stats/power/utilization holds {text[:80]!r}") from None
        if status != VALID or not 0 <= percent <= 100:
            raise ReadFailed(f"stats/power/utilization holds {text[:80]!r}")
        return percent
