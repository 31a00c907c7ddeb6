"""A stand-in for nvidia-ml-py in the meters of a test's processes: a synthetic NVML behind it.

On PYTHONPATH it comes before the real binding. STANDIN_NVML names the specification, a file as
`tests.collectors.doubles.synthetic` reads it. Errors of the double become NVML's.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gramwatt.collectors.devices.board import DeviceLost, NotSupported, SourceError
from gramwatt.collectors.settings.clock import Clock
from tests.collectors.doubles.synthetic import SyntheticNvml

NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_NO_PERMISSION, NVML_ERROR_NOT_FOUND = 3, 4, 6
NVML_ERROR_FUNCTION_NOT_FOUND, NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED = 13, 15, 16
NVML_ERROR_UNKNOWN = 999
NVML_TEMPERATURE_GPU, NVML_TOTAL_POWER_SAMPLES, nvmlMemory_v2 = 0, 0, 0x02000028
nvmlLib = SimpleNamespace()
"""A driver without nvmlDeviceGetFieldValues."""
_driver: SyntheticNvml


class NVMLError(Exception):
    """What NVML answers instead of a value."""

    def __init__(self, value: int, text: str = "") -> None:
        super().__init__(text or f"error {value}")
        self.value = value


class NVMLError_FunctionNotFound(NVMLError):
    """A driver before a function."""


class c_nvmlFieldValue_t(ctypes.Structure):
    """The field that is asked for."""

    _fields_ = (("fieldId", ctypes.c_uint),)


def _answer(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except NotSupported as error:
        raise NVMLError(NVML_ERROR_NOT_SUPPORTED, str(error)) from None
    except DeviceLost as error:
        raise NVMLError(NVML_ERROR_GPU_IS_LOST, str(error)) from None
    except SourceError as error:
        raise NVMLError(NVML_ERROR_UNKNOWN, str(error)) from None


def _ask(call: str) -> Callable[[int], Any]:
    return lambda handle: _answer(lambda: _driver.ask(call, handle))


nvmlDeviceGetName = _ask("name")
nvmlDeviceGetUUID = _ask("uuid")
nvmlDeviceGetTotalEnergyConsumption = _ask("energy_mj")
nvmlDeviceGetPowerUsage = _ask("power_mw")
nvmlDeviceGetEnforcedPowerLimit = _ask("limit_mw")
nvmlDeviceGetCurrentClocksEventReasons = _ask("clock_reasons")


def nvmlInit() -> None:
    """Read the specification; raises NVMLError without one that can be used."""
    global _driver
    try:
        _driver = SyntheticNvml.from_file(Path(os.environ["STANDIN_NVML"]), Clock())
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NVMLError(NVML_ERROR_UNKNOWN, repr(error)) from None
    _answer(_driver.open)


def nvmlShutdown() -> None:
    """Release nothing."""


def nvmlSystemGetDriverVersion() -> str:
    """Return a version."""
    return _driver.driver()


def nvmlDeviceGetCount() -> int:
    """Return the number of boards."""
    return int(_answer(_driver.count))


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    """Return the index itself."""
    return index


def nvmlDeviceGetEncoderUtilization(handle: int) -> tuple[int, int]:
    """Return use [%] and sampling period of the encoder."""
    return _ask("encoder_percent")(handle), 0


def nvmlDeviceGetUtilizationRates(handle: int) -> SimpleNamespace:
    """Return use of the processors and of the memory [%]."""
    gpu, memory = _ask("utilisation_percents")(handle)
    return SimpleNamespace(gpu=gpu, memory=memory)


def nvmlDeviceGetTemperature(handle: int, _sensor: int) -> int:
    """Return the temperature [degC]."""
    return int(_ask("temperature_c")(handle))


def nvmlDeviceGetMemoryInfo(handle: int, _version: int = 0) -> SimpleNamespace:
    """Return memory used and total [B]."""
    used, total = _ask("memory_b")(handle)
    return SimpleNamespace(used=used, total=total)


def nvmlDeviceGetSamples(handle: int, _kind: int, since_us: int) -> tuple[int, list[Any]]:
    """Return the buffer of power samples [mW]."""
    samples = _answer(lambda: _driver.power_samples(handle, since_us))
    found = [
        SimpleNamespace(timeStamp=t, sampleValue=SimpleNamespace(uiVal=mw)) for t, mw in samples
    ]
    return 1, found


def nvmlDeviceGetMigMode(_handle: int) -> tuple[int, int]:
    """Return that there is no MIG."""
    return 0, 0


def nvmlDeviceGetProcessUtilization(handle: int, _since_us: int) -> list[Any]:
    """Return use of the processes on the board [%]."""
    users = _answer(lambda: _driver.users(handle))
    return [
        SimpleNamespace(pid=user.pid, smUtil=user.sm_percent, timeStamp=1)
        for user in users
        if user.sm_percent is not None
    ]


def nvmlDeviceGetComputeRunningProcesses(handle: int) -> list[Any]:
    """Return memory of the processes on the board [B]."""
    users = _answer(lambda: _driver.users(handle))
    return [SimpleNamespace(pid=user.pid, usedGpuMemory=user.memory_b) for user in users]
