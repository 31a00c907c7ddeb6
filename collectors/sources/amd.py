"""AMD GPUs through amdsmi. Never run on the hardware.

Shapes follow AMD SMI's Python interface (ROCm 5.7 to 7): amdsmi_get_energy_count gives
`energy_accumulator` (before ROCm 6.2 `power`) in units of `counter_resolution` [uJ];
amdsmi_get_power_info gives whole watts or "N/A". Two facts are taken from other projects' notes:
of a MI250's two dies only the even one reports, for both (Zeus, device/gpu/amd.py), and a board in
compute partitions shows as several functions of one PCI device, which share a sensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from gramwatt.collectors.devices.base import NotSupported, ReadFailed, SourceAbsent
from gramwatt.collectors.devices.visibility import Board, Visible, amd
from gramwatt.collectors.sources.vendor import Load, VendorPort, library
from gramwatt.sci.base.units import bytes_from_mib, mj_from_uj, mw_from_uw, mw_from_w

_T = TypeVar("_T")
ADVICE = (
    "install the amdsmi of this machine's ROCm: pip install /opt/rocm/share/amd_smi\n"
    "in a container: --device=/dev/kfd --device=/dev/dri\n"
    "the user must be in the groups render and video"
)
NOT_OFFERED = frozenset({2, 3, 10, 49})
"""AMDSMI_STATUS_NOT_SUPPORTED, NOT_YET_IMPLEMENTED, NO_PERM and NO_HSMP_MSG_SUP (amdsmi.h)."""
POWER_KEYS = ("socket_power", "current_socket_power", "average_socket_power")
"""Keys of amdsmi_get_power_info [W], newest first; which of them holds a number depends on part
and release."""
DUAL_DIE = ("mi250",)
APU = ("mi300a",)
"""Parts whose socket holds the host's processor too."""


class AmdSmi(VendorPort):
    """AMD GPUs in HIP's order, as far as the library reports it."""

    vendor = "AMD"
    meter = "amdsmi"
    device_class = "gpu"

    def __init__(self, load: Load | None = None) -> None:
        self._load = load or library("amdsmi", ADVICE)
        self._smi: Any = None
        self._handles: list[Any] = []
        self._sensors: list[tuple[Any, float]] = []
        self._ids: list[str] = []
        self.ordered = False

    def open(self) -> None:
        """Start amdsmi and list its GPUs; raises SourceAbsent."""
        self._smi = self._load()
        try:
            flags = getattr(self._smi, "AmdSmiInitFlags", None)
            self._smi.amdsmi_init(*([flags.INIT_AMD_GPUS] if flags else []))
            listed = list(self._smi.amdsmi_get_processor_handles())
        except Exception as error:
            raise SourceAbsent(f"AMD's driver does not answer ({error}); {ADVICE}") from None
        order = self._hip_order(listed)
        sensors = self._find_sensors(listed)
        self._handles = [listed[place] for place in order]
        self._sensors = [sensors[place] for place in order]
        self._ids = [self._id(handle) for handle in self._handles]
        names = [self._name(handle).lower() for handle in listed]
        self.includes_host = bool(names) and all(any(apu in n for apu in APU) for n in names)

    def close(self) -> None:
        """Shut amdsmi down; never raises."""
        with suppress(Exception):
            self._smi.amdsmi_shut_down()

    def driver(self) -> str:
        """The kernel driver's version."""
        return str(
            self._ask(lambda: self._smi.amdsmi_get_gpu_driver_info(self._handles[0]))[
                "driver_version"
            ]
        )

    def count(self) -> int:
        """GPUs listed; a MI250 board is two."""
        return len(self._handles)

    def name(self, index: int) -> str:
        """Market name, such as AMD Instinct MI250X."""
        return self._name(self._handles[index])

    def uuid(self, index: int) -> str:
        """HIP's UUID where the library reports it, else amdsmi's, else the PCI address."""
        return self._ids[index]

    def energy_mj(self, index: int) -> int:
        """Energy counter [mJ] of the sensor the device reports through; see `share`."""
        count = self._ask(lambda: self._smi.amdsmi_get_energy_count(self._sensors[index][0]))
        ticks = _number(count.get("energy_accumulator", count.get("power")))
        resolution_uj = _number(count.get("counter_resolution"))
        if not ticks or not resolution_uj:
            raise NotSupported("amdsmi gives no energy counter of this device")
        return round(mj_from_uj(ticks * resolution_uj))

    def power_mw(self, index: int) -> int:
        """Power [mW] of the sensor the device reports through; see `share`."""
        info = self._ask(lambda: self._smi.amdsmi_get_power_info(self._sensors[index][0]))
        known = [_number(info.get(key)) for key in POWER_KEYS]
        power_w = next((value for value in known if value), None)
        if power_w is None:  # "N/A", or the 0 of a die that does not report
            raise NotSupported("amdsmi gives no power of this device")
        return round(mw_from_w(power_w))

    def utilisation_percent(self, index: int) -> int:
        """Share of the last period with the graphics engine busy [%]."""
        activity = self._ask(lambda: self._smi.amdsmi_get_gpu_activity(self._handles[index]))
        return round(self._known(activity.get("gfx_activity")))

    def memory_b(self, index: int) -> tuple[int, int]:
        """Memory used and total [B]."""
        usage = self._ask(lambda: self._smi.amdsmi_get_gpu_vram_usage(self._handles[index]))
        used, total = (self._known(usage.get(key)) for key in ("vram_used", "vram_total"))
        return int(bytes_from_mib(used)), int(bytes_from_mib(total))

    def limit_mw(self, index: int) -> int:
        """Power limit [mW] of the sensor's whole board."""
        info = self._ask(lambda: self._smi.amdsmi_get_power_cap_info(self._sensors[index][0]))
        return round(mw_from_uw(self._known(info.get("power_cap"))))

    def share(self, index: int) -> float:
        """1 over the number of devices behind one sensor: a half for each die of a MI250."""
        return self._sensors[index][1]

    def reserved(self, environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
        """By ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and their like."""
        return amd(environ, boards, ordered=self.ordered)

    def why_unread(self, index: int) -> str:
        """A guest of a virtual machine reads nothing."""
        return "amdsmi gives neither counter nor power; on a guest it never does, ask the host"

    def _find_sensors(self, listed: list[Any]) -> list[tuple[Any, float]]:
        """For each device listed: the handle to read, and its share of the reading."""
        sensors: list[tuple[Any, float]] = [(handle, 1.0) for handle in listed]
        duals = [
            p for p, h in enumerate(listed) if any(d in self._name(h).lower() for d in DUAL_DIE)
        ]
        for place, position in enumerate(duals):
            sensors[position] = (listed[duals[place - place % 2]], 0.5)
        boards: dict[str, list[int]] = {}
        for position in set(range(len(listed))) - set(duals):
            address = self._address(listed[position])
            boards.setdefault(address.rpartition(".")[0] or str(position), []).append(position)
        for positions in boards.values():
            for position in positions:
                sensors[position] = (listed[min(positions)], 1 / len(positions))
        return sensors

    def _hip_order(self, listed: list[Any]) -> list[int]:
        """Positions in HIP's order: by its own index (ROCm 6.4), else by KFD node (6.3)."""
        for call, key in (
            ("amdsmi_get_gpu_enumeration_info", "hip_id"),
            ("amdsmi_get_gpu_kfd_info", "node_id"),
        ):
            with suppress(Exception):
                keys = [int(getattr(self._smi, call)(handle)[key]) for handle in listed]
                if len(set(keys)) == len(keys):
                    self.ordered = True
                    return sorted(range(len(listed)), key=keys.__getitem__)
        return list(range(len(listed)))

    def _id(self, handle: Any) -> str:
        for call in (
            lambda: self._smi.amdsmi_get_gpu_enumeration_info(handle)["hip_uuid"],
            lambda: self._smi.amdsmi_get_gpu_device_uuid(handle),
            lambda: f"amd-{self._address(handle)}",
        ):
            with suppress(Exception):
                found = str(call())
                if found and found != "N/A":
                    return found
        raise ReadFailed("amdsmi lists a GPU without an id")

    def _name(self, handle: Any) -> str:
        for call, key in (
            ("amdsmi_get_gpu_asic_info", "market_name"),
            ("amdsmi_get_gpu_board_info", "product_name"),
        ):
            with suppress(Exception):
                found = str(getattr(self._smi, call)(handle)[key])
                if found and found != "N/A":
                    return found
        return "AMD GPU"

    def _address(self, handle: Any) -> str:
        try:
            return str(self._smi.amdsmi_get_gpu_device_bdf(handle))
        except Exception:
            return ""

    def _ask(self, call: Callable[[], _T]) -> _T:
        try:
            return call()
        except Exception as error:
            code = getattr(error, "get_error_code", lambda: None)()
            meaning = NotSupported if code in NOT_OFFERED else ReadFailed
            raise meaning(f"amdsmi: {error}") from None

    def _known(self, value: Any) -> float:
        number = _number(value)
        if number is None:
            raise NotSupported(f"amdsmi reports {value!r}")
        return number


def _number(value: Any) -> float | None:
    """A figure of amdsmi's, None for its "N/A" and for the largest integers it fills in."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return None if value in (0xFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF) else float(value)
