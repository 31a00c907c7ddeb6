"""NVML's calls at the function boundary: the driver's through nvidia-ml-py, for which this is the
only file that imports pynvml; `synthetic` answers the same calls.

Vendor errors are translated here and nowhere else.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from gramwatt.collectors.devices.port import (
    DeviceLost,
    GpuUser,
    MigSlice,
    NotSupported,
    ReadFailed,
    SourceAbsent,
)

TOTAL_ENERGY_FIELD = 83
"""NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION [mJ] (nvml.h, API version 13)."""
POWER_AVERAGE_FIELD = 185
"""NVML_FI_DEV_POWER_AVERAGE [mW], mean over one second (nvml.h, API version 13)."""
POWER_INSTANT_FIELD = 186
"""NVML_FI_DEV_POWER_INSTANT [mW] (nvml.h, API version 13)."""
FAST_FIELDS = (TOTAL_ENERGY_FIELD, POWER_INSTANT_FIELD, POWER_AVERAGE_FIELD)
PROFILE = (
    "utilisation_percents",
    "encoder_percent",
    "temperature_c",
    "clock_reasons",
    "memory_b",
    "limit_mw",
)
"""Calls that say how a board runs: shares of the last period with a kernel running and with memory
in use [%], of the encoder [%], heat [degC], a bit mask, memory used and total [B], limit in force
[mW]. `ask` also takes name, uuid, energy_mj and power_mw, the latter a mean over one second on most
parts since Ampere."""


class NvmlCalls(Protocol):
    """NVML of this machine or a synthetic one; every call may raise any SourceError."""

    meter: str

    def open(self) -> None:
        """Load the library; raises SourceAbsent with what to do."""

    def close(self) -> None:
        """Release the library; never raises."""

    def driver(self) -> str:
        """Return the driver's version."""

    def count(self) -> int:
        """Return the number of boards that this process can see."""

    def ask(self, call: str, index: int) -> Any:
        """Return what a board answers to a call, by the names at `PROFILE`."""

    def fields(self, index: int, ids: tuple[int, ...]) -> tuple[int | None, ...]:
        """Return several field values in one call, None for each the board does not offer."""

    def power_samples(self, index: int, since_us: int) -> list[tuple[int, int]]:
        """Return the driver's power samples after `since_us`: (its time [us], power [mW])."""

    def slices(self, index: int) -> tuple[MigSlice, ...]:
        """Return the MIG devices of the board that this process can see; empty without MIG."""

    def users(self, index: int) -> tuple[GpuUser, ...]:
        """Return the processes with work on the board since the last call."""


_VALUES = {
    0: struct.Struct("@d"),
    1: struct.Struct("@I"),
    2: struct.Struct("@L"),
    3: struct.Struct("@Q"),
    4: struct.Struct("@q"),
    5: struct.Struct("@i"),
    6: struct.Struct("@H"),
}
"""nvmlValueType_t -> how the member of nvmlValue_t lies in memory (nvml.h, API version 13)."""
_FIELD_VALUE = struct.Struct("@IIqqii8s")
"""nvmlFieldValue_t: fieldId, scopeId, timestamp, latencyUsec, valueType, nvmlReturn, value."""
_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Members of nvmlValue_t by nvmlValueType_t, as the binding names them."""


_CALLS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "name": ("nvmlDeviceGetName", str),
    "uuid": ("nvmlDeviceGetUUID", str),
    "energy_mj": ("nvmlDeviceGetTotalEnergyConsumption", int),
    "power_mw": ("nvmlDeviceGetPowerUsage", int),
    "limit_mw": ("nvmlDeviceGetEnforcedPowerLimit", int),
    "encoder_percent": ("nvmlDeviceGetEncoderUtilization", lambda found: int(found[0])),
    "utilisation_percents": (
        "nvmlDeviceGetUtilizationRates",
        lambda rates: (int(rates.gpu), int(rates.memory)),
    ),
}
"""NVML's function for a call, and what of its answer is taken."""


class _FieldCall(NamedTuple):
    """The arguments of nvmlDeviceGetFieldValues for one device, kept from reading to reading."""

    handle: Any
    length: ctypes.c_int
    values: Any
    pointer: Any


class Pynvml:
    """The NVML of this machine's driver."""

    meter = "nvml"

    def __init__(self) -> None:
        self._nvml: Any = None
        self._handles: list[Any] = []
        self._field_calls: dict[tuple[int, tuple[int, ...]], _FieldCall] = {}
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
        self._field_calls = {}

    def close(self) -> None:
        """Shut NVML down; never raises."""
        try:
            self._nvml.nvmlShutdown()
        except Exception:  # a failed shutdown changes no figure
            self._handles = []

    def driver(self) -> str:
        """Return the driver's version."""
        return str(self._ask("nvmlSystemGetDriverVersion"))

    def count(self) -> int:
        """Return the number of boards that this process can see."""
        return int(self._ask("nvmlDeviceGetCount"))

    def ask(self, call: str, index: int) -> Any:
        """Return what a board answers to a call."""
        handle = self._handle(index)
        if call == "temperature_c":
            return self._ask("nvmlDeviceGetTemperature", handle, self._nvml.NVML_TEMPERATURE_GPU)
        if call == "clock_reasons":
            return self._clock_reasons(handle)
        if call == "memory_b":
            return self._memory_b(handle)
        name, convert = _CALLS[call]
        return convert(self._ask(name, handle))

    def fields(self, index: int, ids: tuple[int, ...]) -> tuple[int | None, ...]:
        """Return field values in one call; None for each whose own return code is not success.

        Once a second for every device, so the library is called with arguments made once: the
        binding's nvmlDeviceGetFieldValues, which makes them anew, takes five times as long.
        """
        call = self._field_calls.get((index, ids)) or self._field_call(index, ids)
        try:
            get = self._nvml.nvmlLib.nvmlDeviceGetFieldValues
        except AttributeError:
            raise NotSupported("this driver has no field values") from None
        code = get(call.handle, call.length, call.pointer)
        if code != 0:
            error = self._nvml.NVMLError(code)
            raise self._meaning(error)(str(error))
        return tuple(
            [
                None if result else int(_VALUES.get(kind, _VALUES[3]).unpack_from(value)[0])
                for _, _, _, _, kind, result, value in _FIELD_VALUE.iter_unpack(call.values)
            ]
        )

    def power_samples(self, index: int, since_us: int) -> list[tuple[int, int]]:
        """Return the driver's power samples after `since_us`: (timestamp [us], power [mW])."""
        nvml, handle = self._nvml, self._handle(index)
        try:
            kind, samples = nvml.nvmlDeviceGetSamples(
                handle, nvml.NVML_TOTAL_POWER_SAMPLES, since_us
            )
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_NOT_FOUND:  # nothing since then
                return []
            raise self._meaning(error)(str(error)) from None
        member = _MEMBERS[kind] if kind in _VALUES else "uiVal"
        return [(int(s.timeStamp), int(getattr(s.sampleValue, member))) for s in samples]

    def slices(self, index: int) -> tuple[MigSlice, ...]:
        """Return the MIG devices of the board that this process can see."""
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
        """Return the processes with work on the board since the last call."""
        nvml, board = self._nvml, self._handle(index)
        used: dict[int, float] = {}
        seen_us = self._seen_us.get(index, 0)
        try:
            for sample in nvml.nvmlDeviceGetProcessUtilization(board, seen_us):
                used[sample.pid] = used.get(sample.pid, 0.0) + sample.smUtil
                seen_us = max(seen_us, sample.timeStamp)
        except nvml.NVMLError:  # nothing new, or not reported for this board
            used = {}
        self._seen_us[index] = seen_us
        running = self._ask("nvmlDeviceGetComputeRunningProcesses", board)
        held = {int(item.pid): item.usedGpuMemory for item in running}
        pids = sorted({*used, *held})
        return tuple(GpuUser(pid, used.get(pid), held.get(pid)) for pid in pids)

    def _slice(self, board: Any, position: int, whole: int) -> MigSlice | None:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(board, position)
            # Of the compute instance: those of one GPU instance share what that one has.
            part = nvml.nvmlDeviceGetAttributes_v2(handle).computeInstanceSliceCount
            return MigSlice(str(nvml.nvmlDeviceGetUUID(handle)), min(1.0, part / whole))
        except nvml.NVMLError:  # an empty position, or another user's slice
            return None

    def _clock_reasons(self, handle: Any) -> int:
        try:
            return int(self._nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
        except self._nvml.NVMLError_FunctionNotFound:  # a driver before the renaming
            return int(self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle))
        except self._nvml.NVMLError as error:
            raise self._meaning(error)(str(error)) from None

    def _memory_b(self, handle: Any) -> tuple[int, int]:
        try:
            info = self._nvml.nvmlDeviceGetMemoryInfo(handle, self._nvml.nvmlMemory_v2)
        except Exception:  # a driver or binding whose answer counts that as used: 0.5 GB of an H100
            info = self._ask("nvmlDeviceGetMemoryInfo", handle)
        return int(info.used), int(info.total)

    def _field_call(self, index: int, ids: tuple[int, ...]) -> _FieldCall:
        values = (self._nvml.c_nvmlFieldValue_t * len(ids))()
        for value, field in zip(values, ids, strict=True):
            value.fieldId = field
        length, pointer = ctypes.c_int(len(ids)), ctypes.byref(values)
        call = _FieldCall(self._handle(index), length, values, pointer)
        self._field_calls[index, ids] = call
        return call

    def _handle(self, index: int) -> Any:
        # Handles live as long as NVML is open; looking them up every time costs a driver call.
        while len(self._handles) <= index:
            self._handles.append(self._ask("nvmlDeviceGetHandleByIndex", len(self._handles)))
        return self._handles[index]

    def _ask(self, call: str, *arguments: Any) -> Any:
        """Call the binding; raises SourceError for what the driver answers."""
        try:
            return getattr(self._nvml, call)(*arguments)
        except self._nvml.NVMLError as error:
            raise self._meaning(error)(str(error)) from None

    def _meaning(self, error: Any) -> Callable[[str], Exception]:
        if error.value in self._lost:
            return DeviceLost
        return NotSupported if error.value in self._unsupported else ReadFailed
