"""NVML through nvidia-ml-py: the only file that imports pynvml.

Vendor errors are translated here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gramwatt.collectors.devices.base import (
    DeviceLost,
    GpuUser,
    MigSlice,
    NotSupported,
    ReadFailed,
    SourceAbsent,
)

_UNION_MEMBERS = {
    0: "dVal",
    1: "uiVal",
    2: "ulVal",
    3: "ullVal",
    4: "sllVal",
    5: "siVal",
    6: "usVal",
}
"""nvmlValueType_t -> member of nvmlValue_t (nvml.h, API version 13)."""


class Pynvml:
    """The real NVML of this machine."""

    meter = "nvml"

    def __init__(self) -> None:
        self._nvml: Any = None
        self._handles: list[Any] = []
        self._seen_us: dict[int, int] = {}
        self._lost: tuple[int, ...] = ()
        self._unsupported: tuple[int, ...] = ()

    def open(self) -> None:
        """Load libnvidia-ml; raises SourceAbsent with what to do."""
        try:
            import pynvml
        except Exception as error:
            raise SourceAbsent(f"nvidia-ml-py cannot be imported ({error})") from None
        self._nvml = pynvml
        self._lost = (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED)
        self._unsupported = (
            pynvml.NVML_ERROR_NOT_SUPPORTED,
            pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            pynvml.NVML_ERROR_NO_PERMISSION,
        )
        try:
            pynvml.nvmlInit()
        except Exception as error:
            raise SourceAbsent(f"the NVIDIA driver does not answer: {error}") from None
        self._handles = []

    def close(self) -> None:
        """Shut NVML down; never raises."""
        try:
            self._nvml.nvmlShutdown()
        except Exception:  # nothing is left to do about a driver that does not say goodbye
            self._handles = []

    def driver(self) -> str:
        """The driver's version."""
        with self._translated():
            return str(self._nvml.nvmlSystemGetDriverVersion())

    def count(self) -> int:
        """Devices this process can see."""
        with self._translated():
            return int(self._nvml.nvmlDeviceGetCount())

    def name(self, index: int) -> str:
        """Device name as the driver reports it."""
        with self._translated():
            return str(self._nvml.nvmlDeviceGetName(self._handle(index)))

    def uuid(self, index: int) -> str:
        """Device UUID."""
        with self._translated():
            return str(self._nvml.nvmlDeviceGetUUID(self._handle(index)))

    def energy_mj(self, index: int) -> int:
        """Energy counter [mJ]."""
        with self._translated():
            return int(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle(index)))

    def power_mw(self, index: int) -> int:
        """Board power [mW]."""
        with self._translated():
            return int(self._nvml.nvmlDeviceGetPowerUsage(self._handle(index)))

    def fields(self, index: int, ids: tuple[int, ...]) -> tuple[int | None, ...]:
        """Field values in one call; None for each whose own return code is not success."""
        # Once a second for every device: written out, because a context manager costs as much
        # as the call itself.
        handle = self._handle(index) if index >= len(self._handles) else self._handles[index]
        try:
            return tuple(map(_value, self._nvml.nvmlDeviceGetFieldValues(handle, ids)))
        except self._nvml.NVMLError as error:
            raise self._meaning(error)(str(error)) from None

    def power_samples(self, index: int, since_us: int) -> list[tuple[int, int]]:
        """The driver's power samples after `since_us`: (timestamp [us], power [mW])."""
        nvml, handle = self._nvml, self._handle(index)
        try:
            kind, samples = nvml.nvmlDeviceGetSamples(
                handle, nvml.NVML_TOTAL_POWER_SAMPLES, since_us
            )
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_NOT_FOUND:  # nothing since then
                return []
            raise self._meaning(error)(str(error)) from None
        member = _UNION_MEMBERS.get(kind, "uiVal")
        return [(int(s.timeStamp), int(getattr(s.sampleValue, member))) for s in samples]

    def utilisation_percents(self, index: int) -> tuple[int, int]:
        """Shares of the last period with a kernel running, and with memory in use [%]."""
        with self._translated():
            rates = self._nvml.nvmlDeviceGetUtilizationRates(self._handle(index))
            return int(rates.gpu), int(rates.memory)

    def encoder_percent(self, index: int) -> int:
        """Utilisation of the video encoder [%]."""
        with self._translated():
            return int(self._nvml.nvmlDeviceGetEncoderUtilization(self._handle(index))[0])

    def temperature_c(self, index: int) -> int:
        """Temperature of the GPU [degC]."""
        nvml = self._nvml
        with self._translated():
            sensor = nvml.NVML_TEMPERATURE_GPU
            return int(nvml.nvmlDeviceGetTemperature(self._handle(index), sensor))

    def clock_reasons(self, index: int) -> int:
        """Why clocks are what they are now, a bit mask."""
        nvml, handle = self._nvml, self._handle(index)
        with self._translated():
            try:
                return int(nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
            except nvml.NVMLError_FunctionNotFound:  # a driver before the renaming
                return int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))

    def memory_b(self, index: int) -> tuple[int, int]:
        """Device memory used and total [B]."""
        with self._translated():
            info = self._nvml.nvmlDeviceGetMemoryInfo(self._handle(index))
            return int(info.used), int(info.total)

    def limit_mw(self, index: int) -> int:
        """Power limit in force [mW]."""
        with self._translated():
            return int(self._nvml.nvmlDeviceGetEnforcedPowerLimit(self._handle(index)))

    def slices(self, index: int) -> tuple[MigSlice, ...]:
        """MIG devices of the board that this process can see."""
        nvml, board = self._nvml, self._handle(index)
        try:
            if nvml.nvmlDeviceGetMigMode(board)[0] == 0:
                return ()
            whole = nvml.nvmlDeviceGetMaxMigDeviceCount(board)
        except nvml.NVMLError:
            return ()
        found = (self._slice(board, position, whole) for position in range(whole))
        return tuple(item for item in found if item is not None)

    def users(self, index: int) -> tuple[GpuUser, ...]:
        """Processes with work on the board since the last call, their SM time and memory."""
        nvml, board = self._nvml, self._handle(index)
        used: dict[int, float] = {}
        seen_us = self._seen_us.get(index, 0)
        try:
            for sample in nvml.nvmlDeviceGetProcessUtilization(board, seen_us):
                used[sample.pid] = used.get(sample.pid, 0.0) + sample.smUtil
                seen_us = max(seen_us, sample.timeStamp)
        except nvml.NVMLError:  # nothing new, or not told on this board
            used = {}
        self._seen_us[index] = seen_us
        with self._translated():
            running = nvml.nvmlDeviceGetComputeRunningProcesses(board)
        held = {int(item.pid): item.usedGpuMemory for item in running}
        pids = sorted({*used, *held})
        return tuple(GpuUser(pid, used.get(pid), held.get(pid)) for pid in pids)

    def _slice(self, board: Any, position: int, whole: int) -> MigSlice | None:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(board, position)
            part = nvml.nvmlDeviceGetAttributes_v2(handle).gpuInstanceSliceCount
            return MigSlice(str(nvml.nvmlDeviceGetUUID(handle)), min(1.0, part / whole))
        except nvml.NVMLError:  # an empty position, or a slice of somebody else
            return None

    def _handle(self, index: int) -> Any:
        # Handles live as long as NVML is open; looking them up every time costs a driver call.
        with self._translated():
            while len(self._handles) <= index:
                self._handles.append(self._nvml.nvmlDeviceGetHandleByIndex(len(self._handles)))
        return self._handles[index]

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except self._nvml.NVMLError as error:
            raise self._meaning(error)(str(error)) from None

    def _meaning(self, error: Any) -> Callable[[str], Exception]:
        if error.value in self._lost:
            return DeviceLost
        return NotSupported if error.value in self._unsupported else ReadFailed


def _value(item: Any) -> int | None:
    if item.nvmlReturn != 0:
        return None
    return int(getattr(item.value, _UNION_MEMBERS.get(item.valueType, "ullVal")))
