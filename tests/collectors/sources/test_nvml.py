"""The translation of NVML's answers and errors, against the real binding's own error classes."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from gramwatt.collectors.devices.base import (
    DeviceLost,
    GpuUser,
    MigSlice,
    NotSupported,
    ReadFailed,
    SourceAbsent,
    SourceError,
)
from gramwatt.collectors.gpu.reader import best_read
from gramwatt.collectors.sources.nvml import Pynvml


def field(value: int, kind: int = 3, ret: int = 0) -> Any:
    member = {1: "uiVal", 3: "ullVal"}[kind]
    return SimpleNamespace(nvmlReturn=ret, valueType=kind, value=SimpleNamespace(**{member: value}))


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Pynvml]:
    """An opened port over a driver with the given answers; an exception is raised."""

    def make(**answers: Any) -> Pynvml:
        answers = {"nvmlInit": None, "nvmlDeviceGetHandleByIndex": "handle", **answers}
        for name, answer in answers.items():

            def call(*_args: Any, answer: Any = answer) -> Any:
                if isinstance(answer, Exception):
                    raise answer
                return answer

            monkeypatch.setattr(pynvml, name, call)
        port = Pynvml()
        port.open()
        return port

    return make


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        (pynvml.NVML_ERROR_NOT_SUPPORTED, NotSupported),
        (pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, NotSupported),
        (pynvml.NVML_ERROR_NO_PERMISSION, NotSupported),
        (pynvml.NVML_ERROR_GPU_IS_LOST, DeviceLost),
        (pynvml.NVML_ERROR_RESET_REQUIRED, DeviceLost),
        (pynvml.NVML_ERROR_UNKNOWN, ReadFailed),
        (pynvml.NVML_ERROR_TIMEOUT, ReadFailed),
    ],
)
def test_each_error_of_the_driver_has_one_meaning(
    driver: Callable[..., Pynvml], code: int, meaning: type[SourceError]
) -> None:
    error = pynvml.NVMLError(code)
    port = driver(nvmlDeviceGetTotalEnergyConsumption=error, nvmlDeviceGetFieldValues=error)
    with pytest.raises(meaning):
        port.energy_mj(0)
    with pytest.raises(meaning):
        port.fields(0, (83,))


def test_a_machine_without_a_driver_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    def init() -> None:
        raise missing

    monkeypatch.setattr(pynvml, "nvmlInit", init)
    with pytest.raises(SourceAbsent, match="driver does not answer"):
        Pynvml().open()


def test_field_values_are_read_by_their_type_and_their_own_return_code(
    driver: Callable[..., Pynvml],
) -> None:
    answers = [field(123_456_789_012), field(251_000, kind=1), field(7, ret=3)]
    port = driver(nvmlDeviceGetFieldValues=answers)
    assert port.fields(0, (83, 186, 185)) == (123_456_789_012, 251_000, None)


def test_the_profile_calls(driver: Callable[..., Pynvml]) -> None:
    port = driver(
        nvmlDeviceGetUtilizationRates=SimpleNamespace(gpu=87, memory=3),
        nvmlDeviceGetMemoryInfo=SimpleNamespace(used=5, total=9, free=4),
        nvmlDeviceGetEnforcedPowerLimit=700_000,
        nvmlDeviceGetTemperature=64,
        nvmlDeviceGetEncoderUtilization=[12, 167_000],
        nvmlDeviceGetCurrentClocksEventReasons=0x24,
        nvmlDeviceGetName="NVIDIA H100",
        nvmlSystemGetDriverVersion="550.1",
        nvmlDeviceGetCount=1,
    )
    assert (port.utilisation_percents(0), port.memory_b(0), port.limit_mw(0)) == (
        (87, 3),
        (5, 9),
        700_000,
    )
    assert (port.temperature_c(0), port.encoder_percent(0), port.clock_reasons(0)) == (64, 12, 0x24)
    assert (port.name(0), port.driver(), port.count()) == ("NVIDIA H100", "550.1", 1)


def test_clock_reasons_of_a_driver_before_their_renaming(driver: Callable[..., Pynvml]) -> None:
    missing = pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    port = driver(
        nvmlDeviceGetCurrentClocksEventReasons=missing,
        nvmlDeviceGetCurrentClocksThrottleReasons=0x4,
    )
    assert port.clock_reasons(0) == 4


def test_power_samples_by_their_type_and_none_when_nothing_is_new(
    driver: Callable[..., Pynvml],
) -> None:
    sample = SimpleNamespace(timeStamp=17, sampleValue=SimpleNamespace(uiVal=251_000))
    assert driver(nvmlDeviceGetSamples=(1, [sample])).power_samples(0, 0) == [(17, 251_000)]
    nothing = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
    assert driver(nvmlDeviceGetSamples=nothing).power_samples(0, 17) == []
    unsupported = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    with pytest.raises(NotSupported):
        driver(nvmlDeviceGetSamples=unsupported).power_samples(0, 0)


def test_mig_devices_and_their_share_of_the_slices(driver: Callable[..., Pynvml]) -> None:
    port = driver(
        nvmlDeviceGetMigMode=[1, 1],
        nvmlDeviceGetMaxMigDeviceCount=2,
        nvmlDeviceGetMigDeviceHandleByIndex="part",
        nvmlDeviceGetAttributes_v2=SimpleNamespace(gpuInstanceSliceCount=1),
        nvmlDeviceGetUUID="MIG-1",
    )
    assert port.slices(0) == (MigSlice("MIG-1", 0.5), MigSlice("MIG-1", 0.5))
    unsupported = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert driver(nvmlDeviceGetMigMode=unsupported).slices(0) == ()
    assert driver(nvmlDeviceGetMigMode=[0, 0]).slices(0) == ()


def test_the_users_of_a_board_with_their_time_and_memory(driver: Callable[..., Pynvml]) -> None:
    samples = [
        SimpleNamespace(pid=7, smUtil=30, timeStamp=1_000),
        SimpleNamespace(pid=7, smUtil=10, timeStamp=2_000),
        SimpleNamespace(pid=8, smUtil=5, timeStamp=1_500),
    ]
    running = [
        SimpleNamespace(pid=7, usedGpuMemory=64),
        SimpleNamespace(pid=9, usedGpuMemory=None),
    ]
    port = driver(
        nvmlDeviceGetProcessUtilization=samples, nvmlDeviceGetComputeRunningProcesses=running
    )
    assert port.users(0) == (GpuUser(7, 40.0, 64), GpuUser(8, 5.0, None), GpuUser(9, None, None))


def test_a_board_that_tells_no_use_still_tells_who_is_there(driver: Callable[..., Pynvml]) -> None:
    port = driver(
        nvmlDeviceGetProcessUtilization=pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND),
        nvmlDeviceGetComputeRunningProcesses=[SimpleNamespace(pid=7, usedGpuMemory=64)],
    )
    assert port.users(0) == (GpuUser(7, None, 64),)


def test_only_samples_since_the_last_call_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def utilisation(_board: Any, since_us: int) -> list[Any]:
        asked.append(since_us)
        return [SimpleNamespace(pid=7, smUtil=30, timeStamp=since_us + 500)]

    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda _: "handle")
    monkeypatch.setattr(pynvml, "nvmlDeviceGetProcessUtilization", utilisation)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetComputeRunningProcesses", lambda _: [])
    port = Pynvml()
    port.open()
    port.users(0)
    port.users(0)
    assert asked == [0, 500]


def test_closing_never_raises(driver: Callable[..., Pynvml]) -> None:
    driver(nvmlShutdown=pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)).close()
    Pynvml().close()


@pytest.mark.parametrize(
    ("unsupported", "calls"),
    [
        ((), ["nvmlDeviceGetFieldValues"]),
        (
            ("nvmlDeviceGetFieldValues",),
            ["nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetPowerUsage"],
        ),
        (
            ("nvmlDeviceGetFieldValues", "nvmlDeviceGetTotalEnergyConsumption"),
            ["nvmlDeviceGetPowerUsage"],
        ),
    ],
)
def test_a_tick_makes_only_calls_that_are_offered(
    driver: Callable[..., Pynvml],
    monkeypatch: pytest.MonkeyPatch,
    unsupported: tuple[str, ...],
    calls: list[str],
) -> None:
    answers: dict[str, Any] = {
        "nvmlDeviceGetFieldValues": [field(9), field(8, 1), field(7, 1)],
        "nvmlDeviceGetTotalEnergyConsumption": 9,
        "nvmlDeviceGetPowerUsage": 8,
    }
    error = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    port = driver(**{name: error if name in unsupported else answers[name] for name in answers})
    read = best_read(port, 0)
    assert read is not None
    made: list[str] = []
    for name in answers:
        real = getattr(pynvml, name)
        monkeypatch.setattr(
            pynvml, name, lambda *a, name=name, real=real: (made.append(name), real(*a))[1]
        )
    expected = (None if "nvmlDeviceGetTotalEnergyConsumption" in unsupported else 9, 8)
    mean_mw = None if "nvmlDeviceGetFieldValues" in unsupported else 7
    assert read() == (*expected, mean_mw)
    assert made == calls
