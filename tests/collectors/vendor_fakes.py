"""Hand-made stand-ins for vendors' libraries and sysfs trees, in their documented shapes.

No line of this was recorded on hardware. Energy follows an exact waveform of the test's clock.
"""

# ruff: noqa: N802  # the libraries' own names

from __future__ import annotations

from collections.abc import Callable, Mapping
from ctypes import c_void_p
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gramwatt.collectors.devices.board import DevicePort, SourceAbsent
from gramwatt.collectors.devices.intel import IntelGpu
from gramwatt.collectors.meter.device_manager import Dependencies
from gramwatt.collectors.settings.clock import NS_PER_S
from tests.collectors.doubles.synthetic import SyntheticGpu, SyntheticNvml
from tests.collectors.rig import Rig

RESOLUTION_UJ = 15.259
NO_NVML = {"gpus": [], "absent": "no NVIDIA driver here"}


class VendorRig(Rig):
    """A machine without NVIDIA, with the given vendors' sources."""

    def __init__(
        self, home: Path, make: Callable[[VendorRig], list[DevicePort]], *gpus: dict[str, Any]
    ) -> None:
        super().__init__(home, *gpus)
        self.boards: list[SyntheticGpu] = self.nvml.gpus
        self.make = make

    def now_s(self) -> float:
        return self.clock.now_ns() / NS_PER_S

    def dependencies(self, environ: dict[str, str]) -> Dependencies:
        around = super().dependencies(environ)
        nvml = SyntheticNvml(NO_NVML, self.clock)
        around.ports = lambda _: [*self.make(self), nvml]
        return around

    def fault(self, place: int, call: str) -> str | None:
        """Which fault of the board's list holds now for a call."""
        for item in self.boards[place].faults:
            since_s = self.now_s() - self.boards[place]._origin_s
            inside = item.get("at_s", 0.0) <= since_s < item.get("until_s", 1e9)
            if inside and item.get("call") == call:
                return str(item["type"])
        return None


class AmdError(Exception):
    """As AmdSmiLibraryException: the status is asked for by a method."""

    def __init__(self, code: int) -> None:
        super().__init__(f"Error code: {code}")
        self.code = code

    def get_error_code(self) -> int:
        return self.code


class FakeAmdSmi:
    """amdsmi's functions over the rig's boards.

    `silent` boards report "N/A" and 0, as the odd die of a MI250; `sensors` says which board's
    sensor a device reads.
    """

    AmdSmiInitFlags = SimpleNamespace(INIT_AMD_GPUS=2)

    def __init__(self, rig: VendorRig, *names: str, **more: Any) -> None:
        self.rig, self.names = rig, names
        self.old_keys = more.get("old_keys", False)
        self.silent = frozenset(more.get("silent", ()))
        self.sensors: Mapping[int, int] = more.get("sensors", {})
        self.bdf = more.get("bdf", [f"0000:{place:02x}:00.0" for place in range(len(names))])
        self.hip, self.render = more.get("hip"), more.get("render")

    def amdsmi_init(self, flag: int) -> None:
        assert flag == 2

    def amdsmi_shut_down(self) -> None:
        return None

    def amdsmi_get_processor_handles(self) -> list[int]:
        return list(range(len(self.names)))

    def amdsmi_get_gpu_asic_info(self, handle: int) -> dict[str, Any]:
        return {"market_name": self.names[handle], "vendor_id": "0x1002"}

    def amdsmi_get_gpu_device_bdf(self, handle: int) -> str:
        return str(self.bdf[handle])

    def amdsmi_get_gpu_device_uuid(self, handle: int) -> str:
        return f"{handle:02x}ff74a1-0000-1000-80fb-b2b8a0bcd1de"

    def amdsmi_get_gpu_enumeration_info(self, handle: int) -> dict[str, Any]:
        if self.hip is None:
            raise AttributeError("amdsmi_get_gpu_enumeration_info")
        node = "N/A" if self.render is None else self.render[handle]
        return {"drm_render": node, "hip_id": self.hip[handle], "hip_uuid": "N/A"}

    def amdsmi_get_energy_count(self, handle: int) -> dict[str, Any]:
        self._fail(handle, "energy")
        counted_j = 0.0 if handle in self.silent else self._board(handle).counter_j(self._at_s())
        ticks = int(counted_j * 1e6 / RESOLUTION_UJ)
        key = "power" if self.old_keys else "energy_accumulator"
        return {key: ticks, "counter_resolution": RESOLUTION_UJ, "timestamp": int(self._at_s())}

    def amdsmi_get_power_info(self, handle: int) -> dict[str, Any]:
        self._fail(handle, "power")
        watts = round(self._board(handle).power_w(self._at_s()))
        value: Any = "N/A" if handle in self.silent else watts
        if self.old_keys:
            return {"current_socket_power": "N/A", "average_socket_power": value}
        return {
            "socket_power": value,
            "current_socket_power": value,
            "average_socket_power": "N/A",
            "power_limit": 750_000_000,
        }

    def amdsmi_get_power_cap_info(self, handle: int) -> dict[str, Any]:
        return {"power_cap": 750_000_000, "default_power_cap": 750_000_000}

    def amdsmi_get_gpu_activity(self, handle: int) -> dict[str, Any]:
        return {"gfx_activity": 75, "umc_activity": 20, "mm_activity": "N/A"}

    def amdsmi_get_gpu_vram_usage(self, handle: int) -> dict[str, int]:
        return {"vram_used": 1024, "vram_total": 196_608}

    def _board(self, handle: int) -> SyntheticGpu:
        return self.rig.boards[self.sensors.get(handle, handle)]

    def _at_s(self) -> float:
        return self.rig.now_s()

    def _fail(self, handle: int, call: str) -> None:
        fault = self.rig.fault(self.sensors.get(handle, handle), call)
        if fault:
            raise AmdError({"unsupported": 2, "denied": 10}.get(fault, 7))


class HlmlError(Exception):
    """As pyhlml.HLMLError: HLML's return code in `value`."""

    def __init__(self, value: int) -> None:
        super().__init__(f"HLML error {value}")
        self.value = value


class FakeHlml:
    """pyhlml's functions over the rig's boards, of a release that knows no module id and has, as
    habana-pyhlml up to 1.16, one handle for all devices, which is that of the last look-up.
    """

    def __init__(self, rig: VendorRig) -> None:
        self.rig = rig
        self.handle = c_void_p()

    def hlmlInit(self) -> None:
        return None

    def hlmlShutdown(self) -> None:
        return None

    def hlmlDeviceGetCount(self) -> int:
        return len(self.rig.boards)

    def hlmlDeviceGetHandleByIndex(self, index: int) -> c_void_p:
        self.handle.value = index + 1
        return self.handle

    def hlmlDeviceGetName(self, device: c_void_p) -> bytes:
        return b"HL-225"

    def hlmlDeviceGetUUID(self, device: c_void_p) -> bytes:
        return f"01P0-HL2080A0-15-TNPS34-{(device.value or 0) - 1:02d}-07-00".encode()

    def hlmlDeviceGetTotalEnergyConsumption(self, device: c_void_p) -> int:
        return round(self._board(device, "energy").counter_j(self.rig.now_s()) * 1e3)

    def hlmlDeviceGetPowerUsage(self, device: c_void_p) -> int:
        return round(self._board(device, "power").power_w(self.rig.now_s()) * 1e3)

    def hlmlDeviceGetUtilizationRates(self, device: c_void_p) -> Any:
        return SimpleNamespace(aip=60)

    def hlmlDeviceGetMemoryInfo(self, device: c_void_p) -> Any:
        return SimpleNamespace(free=2**36, total=96 * 2**30, used=2**30)

    def hlmlDeviceGetPowerManagementDefaultLimit(self, device: c_void_p) -> int:
        return 600_000

    def _board(self, device: c_void_p, call: str) -> SyntheticGpu:
        place = (device.value or 0) - 1
        fault = self.rig.fault(place, call)
        if fault:
            raise HlmlError({"unsupported": 3, "lost": 15}.get(fault, 49))
        return self.rig.boards[place]


class FakeApple:
    """zeus_apple_silicon: a monitor that counts from its own making."""

    def __init__(self, rig: VendorRig, **watts: float | None) -> None:
        self.rig, self.watts = rig, watts

    def AppleEnergyMonitor(self) -> Any:
        start_s = self.rig.now_s()

        def read() -> Any:
            age_s = self.rig.now_s() - start_s
            names = ("cpu_total_mj", "gpu_mj", "gpu_sram_mj", "ane_mj", "dram_mj")
            values = {
                name: None if (watts := self.watts.get(name)) is None else int(watts * age_s * 1e3)
                for name in names
            }
            return SimpleNamespace(efficiency_cores_mj=[5, 5], **values)

        return SimpleNamespace(get_cumulative_energy=read)


class FakeTpuDevice:
    """tpu_info.device: chips by PCI id."""

    class Chip:
        def __init__(self, name: str) -> None:
            self.name = name

        def __str__(self) -> str:
            return "TPU7x chip" if self.name == "7x" else f"TPU {self.name} chip"

    def __init__(self, name: str, count: int, functions: int = 1) -> None:
        self.found = (self.Chip(name), count * functions) if count else (None, 0)
        self.chips = [f"0000:0{chip}:00" for chip in range(count)]

    def get_chips(self) -> list[str]:
        return self.chips

    def get_local_chips(self) -> tuple[Any, int]:
        return self.found


class FakeTpuMetrics:
    """tpu_info.metrics: a row for each core, the duty cycle of its chip in each."""

    def __init__(self, duties: list[float] | None, cores: int = 1) -> None:
        self.duties, self.cores = duties, cores

    def get_chip_usage(self, chip: Any) -> list[Any]:
        assert "7x" not in str(chip), "Metrics not found for all chips"
        return self.get_chip_usage_new(chip)

    def get_chip_usage_new(self, chip: Any) -> list[Any]:
        if self.duties is None:
            raise RuntimeError("failed to connect to localhost:8431")
        return [
            SimpleNamespace(
                device_id=place, memory_usage=2**30, total_memory=16 * 2**30, duty_cycle_pct=duty
            )
            for place, duty in enumerate(d for d in self.duties for _ in range(self.cores))
        ]


def absent(text: str) -> Callable[[], Any]:
    """A library that cannot be imported."""

    def load() -> Any:
        raise SourceAbsent(text)

    return load


def write(root: Path, **files: str) -> None:
    """Files below `root`, `/` in their names written `__`."""
    for name, content in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def intel_tree(root: Path, address: str = "0000:03:00.0", **files: str) -> None:
    """A GPU of Intel as sysfs shows it; `files` are of its hwmon folder."""
    device = f"sys__bus__pci__devices__{address}__"
    write(root, **{f"{device}vendor": "0x8086\n", f"{device}class": "0x030000\n"})
    write(root, **{f"{device}device": "0x56a0\n", f"{device}hwmon__hwmon5__name": "xe\n"})
    node = f"renderD{128 + int(address[5:7], 16)}"
    write(root, **{f"{device}drm__{node}__dev": "226:128\n", f"dev__dri__{node}": ""})
    write(root, **{f"{device}hwmon__hwmon5__{name}": f"{text}\n" for name, text in files.items()})


class CountedIntel(IntelGpu):
    """Its counters follow the rig's board, where their folder is there."""

    def __init__(self, rig: VendorRig, root: Path, *names: str) -> None:
        super().__init__(root)
        self.rig, self.names = rig, names

    def energy_mj(self, index: int) -> float:
        count_uj = round(self.rig.boards[0].counter_j(self.rig.now_s()) * 1e6)
        for folder in self.root.glob("sys/bus/pci/devices/*/hwmon/hwmon5"):
            for name in self.names:
                (folder / name).write_text(f"{count_uj}\n")
        return super().energy_mj(index)
