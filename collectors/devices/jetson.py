"""NVIDIA Jetson: power of its rails from monitors in sysfs. Never run on the hardware.

Shapes follow NVIDIA's Jetson Linux developer guide (hwmon: in<n>_label, in<n>_input [mV],
curr<n>_input [mA]; before that rail_name_<n>, in_power<n>_input [mW]). VDD_IN, POM_5V_IN and their
like are the module's whole input. A board without such a rail (AGX) is the sum of its supplies;
what these do not carry is missing from it; of a Thor's board an INA238 has the whole input, in uW
(jetson_stats #900). There is no counter, so power is integrated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

from gramwatt.collectors.devices.board import Board, DevicePort, Place, SourceAbsent, figure_in
from gramwatt.collectors.settings.files import text_of
from gramwatt.sci.figures.units import mw_from_uw

DRIVERS = ("sys/bus/i2c/drivers/ina3221", "sys/bus/i2c/drivers/ina3221x")
"""Current kernels, and those before 5.10."""
WHOLE = ("vdd_in", "pom_5v_in", "5v_in", "total")
"""Rails that carry the whole module."""
INPUT = "sys/bus/i2c/drivers/ina238"
INSIDE = ("vddq_vdd2_1v8ao", "nc")
"""Fed by another supply by the guide's rail tables, and channels not connected."""

SOC = "sys/devices/soc0"

Rail = Callable[[], float]
"""Power of one rail [mW]; raises ReadFailed."""


class Jetson(DevicePort):
    """The module of this board."""

    vendor = title = "NVIDIA Jetson"
    meter = "ina3221"
    device_class = "module"

    @classmethod
    def present(cls, place: Place) -> bool:
        """Return whether this is a Tegra, by the device tree or, in a container, which does not
        see that (moby #43419), by the kernel's own word.
        """
        compatible = text_of(place.root / "proc/device-tree/compatible") or ""
        family = text_of(place.root / SOC / "family") or ""
        return "nvidia,tegra" in compatible or family.lower().startswith("tegra")

    def open(self) -> None:
        """Find the rails; raises SourceAbsent."""
        rails: dict[str, Rail] = {}
        for driver in DRIVERS:
            for chip in sorted((self.root / driver).glob("*-00*")):
                for folder in (
                    chip,
                    *sorted(chip.glob("iio:device*")),
                    *sorted(chip.glob("hwmon/hwmon*")),
                ):
                    rails |= _labelled(folder) | _named(folder)
        inputs = [*(self.root / INPUT).glob("*-00*/hwmon/hwmon*/power1_input")]
        if len(inputs) == 1:
            rails["VDD_IN"] = partial(_power, inputs[0])
        whole = {name: rail for name, rail in rails.items() if name.lower() in WHOLE}
        parts = {name: rail for name, rail in rails.items() if name.lower() not in INSIDE}
        self._rails: dict[str, Rail] = dict([next(iter(whole.items()))]) if whole else parts
        if not self._rails:
            raise SourceAbsent(
                "no INA3221 of this Jetson can be read", "mount /sys into the container"
            )

    def count(self) -> int:
        """Return 1: a board has one module."""
        return 1

    def board(self, index: int) -> Board:
        """Return the module by the board's model and, where it is known, its serial number."""
        serial = text_of(self.root / "proc/device-tree/serial-number") or ""
        uuid = f"jetson-{serial}" if serial.isalnum() else "jetson-module"
        models = ("proc/device-tree/model", f"{SOC}/machine")
        names = (text_of(self.root / path) for path in models)
        name = next((text for text in names if text), "NVIDIA Jetson")
        return Board(index, uuid, name, includes_host=True)

    def power_mw(self, index: int) -> float:
        """Return the power of the module [mW]: its input, or the sum of its supplies."""
        return round(sum(rail() for rail in self._rails.values()))


def _labelled(folder: Path) -> dict[str, Rail]:
    """Return the rails of the hwmon interface, which gives volts and amperes by channel."""
    rails: dict[str, Rail] = {}
    for path in sorted(folder.glob("in*_label")):
        name, number = text_of(path), path.name[2:-6]
        volts, amperes = folder / f"in{number}_input", folder / f"curr{number}_input"
        if name and volts.exists() and amperes.exists():
            rails[name] = partial(_power, volts, amperes)
    return rails


def _named(folder: Path) -> dict[str, Rail]:
    """Return the rails of the older interface, which gives power [mW] itself."""
    rails: dict[str, Rail] = {}
    for path in sorted(folder.glob("rail_name_*")):
        name, power = text_of(path), folder / f"in_power{path.name[10:]}_input"
        if name and power.exists():
            rails[name] = partial(figure_in, power)
    return rails


def _power(*paths: Path) -> float:
    """Return the power [mW] of mV and mA, whose product is uW, or of uW."""
    return mw_from_uw(math.prod(figure_in(path) for path in paths))
