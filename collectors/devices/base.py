"""Interface and errors of all device sources; tests supply fakes of it.

SourceError
├── SourceAbsent     library, driver or permission is missing; the message has the fix
├── NotSupported     this one call is not offered by this device; others may be
├── DeviceLost       the device fell off the bus or needs a reset
└── ReadFailed       anything else; the next reading may work
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from gramwatt.sci.base.errors import GramwattError

Notify = Callable[[str, str], None]
"""Leaves a notice with the job: its code and its text."""


class SourceError(GramwattError):
    """A source did not answer; measuring continues without it."""

    code = "source"


class SourceAbsent(SourceError):
    """The source cannot be used on this machine at all."""

    code = "source-absent"


class NotSupported(SourceError):
    """This device does not offer this call."""

    code = "not-supported"


class DeviceLost(SourceError):
    """The device no longer answers any call."""

    code = "device-lost"


class ReadFailed(SourceError):
    """One call failed for another reason."""

    code = "read-failed"


class MigSlice(NamedTuple):
    """One MIG device of a board: its id and its share (0, 1] of the board's compute slices."""

    uuid: str
    share: float


class GpuUser(NamedTuple):
    """A process with work on a board, None for what the driver does not report.

    `sm_percent` is its time on the streaming multiprocessors [%], comparable among the processes
    of one answer; `memory_b` what it has allocated [B].
    """

    pid: int
    sm_percent: float | None = None
    memory_b: int | None = None


TOTAL_ENERGY_FIELD = 83
"""NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION [mJ] (nvml.h, API version 13)."""
POWER_AVERAGE_FIELD = 185
"""NVML_FI_DEV_POWER_AVERAGE [mW], mean over one second (nvml.h, API version 13)."""
POWER_INSTANT_FIELD = 186
"""NVML_FI_DEV_POWER_INSTANT [mW] (nvml.h, API version 13)."""
CLOCK_REASONS = {
    "power_capped": 0x04,
    "thermally_slowed": 0x20 | 0x40,
    "hardware_slowed": 0x08 | 0x80,
}
"""Bits of nvmlDeviceGetCurrentClocksEventReasons that mean less speed than requested (nvml.h, API
version 13): SwPowerCap; SwThermalSlowdown and HwThermalSlowdown; HwSlowdown and
HwPowerBrakeSlowdown. Names as in sci/journal/telemetry.py."""
FAST_FIELDS = (TOTAL_ENERGY_FIELD, POWER_INSTANT_FIELD, POWER_AVERAGE_FIELD)


class DevicePort(Protocol):
    """Interface of a source of devices; calls and units are NVML's.

    Every method may raise any SourceError, also after earlier success.
    """

    meter: str

    def open(self) -> None:
        """Load the library; raises SourceAbsent with what to do."""

    def close(self) -> None:
        """Release the library; never raises."""

    def driver(self) -> str:
        """The driver's version."""

    def count(self) -> int:
        """Devices this process can see."""

    def name(self, index: int) -> str:
        """Device name as the driver reports it."""

    def uuid(self, index: int) -> str:
        """Device UUID, `GPU-...`."""

    def energy_mj(self, index: int) -> int:
        """Energy counter [mJ] since the driver was loaded."""

    def power_mw(self, index: int) -> int:
        """Board power [mW]; a mean over one second on most parts since Ampere."""

    def fields(self, index: int, ids: tuple[int, ...]) -> tuple[int | None, ...]:
        """Several field values in one call, None for each the device does not offer."""

    def power_samples(self, index: int, since_us: int) -> list[tuple[int, int]]:
        """The driver's own power samples after `since_us`: (its timestamp [us], power [mW]).

        Empty when there is nothing new. The timestamps are of a clock of the driver's choice.
        """

    def utilisation_percents(self, index: int) -> tuple[int, int | None]:
        """Shares of the last period with a kernel running, and with memory read or written [%].

        None for the latter where the driver reports the former only.
        """

    def encoder_percent(self, index: int) -> int:
        """Utilisation of the video encoder [%]."""

    def temperature_c(self, index: int) -> int:
        """Temperature of the GPU [degC]."""

    def clock_reasons(self, index: int) -> int:
        """Why clocks are what they are now, a bit mask; see CLOCK_REASONS."""

    def memory_b(self, index: int) -> tuple[int, int]:
        """Device memory used and total [B]."""

    def limit_mw(self, index: int) -> int:
        """Power limit in force after all limiters [mW]."""

    def slices(self, index: int) -> tuple[MigSlice, ...]:
        """MIG devices of the board that this process can see; empty without MIG."""
