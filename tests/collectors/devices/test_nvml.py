"""The translation of NVML's answers and errors, against the real binding's own error classes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import pynvml
import pytest

from gramwatt.collectors.devices.board import (
    DeviceLost,
    GpuUser,
    MigSlice,
    NotSupported,
    ReadFailed,
    SourceAbsent,
    Values,
)
from gramwatt.collectors.devices.nvml import Pynvml


class Field(NamedTuple):
    """What the driver answers for one field."""

    value: int
    kind: int = 3
    result: int = 0


class Library:
    """libnvidia-ml's nvmlDeviceGetFieldValues, which fills the caller's array of structures."""

    def __init__(self, answer: list[Field] | pynvml.NVMLError) -> None:
        self.answer = answer

    def nvmlDeviceGetFieldValues(self, _handle: Any, count: Any, pointer: Any) -> int:  # noqa: N802
        if isinstance(self.answer, pynvml.NVMLError):
            return int(self.answer.value)
        assert count.value == len(pointer._obj)
        for place, value in zip(pointer._obj, self.answer, strict=True):
            place.valueType, place.nvmlReturn = value.kind, value.result
            setattr(place.value, {1: "uiVal", 3: "ullVal", 5: "siVal"}[value.kind], value.value)
        return 0


@pytest.fixture
def driver(monkeypatch):
    """An opened port over a driver with the given answers; an exception is raised."""

    def make(**answers: Any) -> Pynvml:
        answers = {"nvmlInit": None, "nvmlDeviceGetHandleByIndex": "handle", **answers}
        fields = answers.pop("fields", pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED))
        monkeypatch.setattr(pynvml, "nvmlLib", Library(fields))
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
def test_each_error_of_the_driver_has_one_meaning(driver, code, meaning):
    error = pynvml.NVMLError(code)
    port = driver(nvmlDeviceGetTotalEnergyConsumption=error, fields=error)
    with pytest.raises(meaning):
        port.ask("energy_mj", 0)
    with pytest.raises(meaning):
        port.fields(0, (83,))


def test_a_machine_without_a_driver_says_so(monkeypatch):
    missing = pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    def init() -> None:
        raise missing

    monkeypatch.setattr(pynvml, "nvmlInit", init)
    with pytest.raises(SourceAbsent, match="library is not here"):
        Pynvml().open()


def test_field_values_are_read_by_their_type_and_their_own_return_code(driver):
    answers = [Field(123_456_789_012), Field(251_000, kind=1), Field(7, result=3), Field(-4, 5)]
    port = driver(fields=answers)
    assert port.fields(0, (83, 186, 185, 1)) == (123_456_789_012, 251_000, None, -4)
    answers[:] = [Field(123_456_790_012), Field(0, kind=1), Field(7), Field(5, 5)]
    assert port.fields(0, (83, 186, 185, 1)) == (123_456_790_012, 0, 7, 5)


@pytest.mark.parametrize(
    ("answers", "power", "mean"),
    [
        ({"fields": [Field(9), Field(251_000, 1), Field(240_000, 1)]}, 251_000, 240_000),
        ({"fields": [Field(9), Field(7, result=3), Field(240_000, 1)]}, 240_000, 240_000),
        ({"fields": [Field(9), Field(251_000, 1), Field(7, result=3)]}, 251_000, None),
        ({"nvmlDeviceGetTotalEnergyConsumption": 9}, 199_000, None),  # no field values
    ],
)
def test_power_without_the_counter_is_asked_as_the_board_offers_it(driver, answers, power, mean):
    port = driver(nvmlDeviceGetPowerUsage=199_000, **answers)
    assert port.read(0) == Values(9, power, mean)
    fields = answers.get("fields", [])
    del fields[:2]  # from here on the mean alone
    assert port.read_power(0) == (mean or 199_000)


def test_mig_devices_and_their_share_of_the_slices(driver):
    port = driver(
        nvmlDeviceGetMigMode=[1, 1],
        nvmlDeviceGetMaxMigDeviceCount=2,
        nvmlDeviceGetMigDeviceHandleByIndex="part",
        nvmlDeviceGetAttributes_v2=SimpleNamespace(
            gpuInstanceSliceCount=1, computeInstanceSliceCount=1
        ),
        nvmlDeviceGetUUID="MIG-1",
    )
    assert port.slices(0) == (MigSlice("MIG-1", 0.5, 0), MigSlice("MIG-1", 0.5, 1))
    unsupported = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert driver(nvmlDeviceGetMigMode=unsupported).slices(0) == ()
    assert driver(nvmlDeviceGetMigMode=[0, 0]).slices(0) == ()


@pytest.mark.parametrize(("instances", "slices"), [(3, 1), (1, 3), (2, 2)])
def test_compute_instances_of_one_slice_share_what_it_has(monkeypatch, instances, slices):
    """A GPU instance of `instances * slices` of 7 slices in compute instances, such as 1c.3g."""

    def position(_board: Any, place: int) -> int:
        if place >= instances:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return place

    attributes = SimpleNamespace(
        gpuInstanceSliceCount=instances * slices, computeInstanceSliceCount=slices
    )
    for name, answer in {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByIndex": lambda _: "board",
        "nvmlDeviceGetMigMode": lambda _: [1, 1],
        "nvmlDeviceGetMaxMigDeviceCount": lambda _: 7,
        "nvmlDeviceGetMigDeviceHandleByIndex": position,
        "nvmlDeviceGetAttributes_v2": lambda _: attributes,
        "nvmlDeviceGetUUID": lambda handle: f"MIG-{handle}",
    }.items():
        monkeypatch.setattr(pynvml, name, answer)
    port = Pynvml()
    port.open()
    shares = [part.share for part in port.slices(0)]
    assert len(shares) == instances
    assert sum(shares) == pytest.approx(instances * slices / 7)


@pytest.mark.parametrize("newer", [True, False])
def test_memory_that_the_driver_keeps_for_itself_is_not_used_where_it_is_told(
    driver, monkeypatch, newer
):
    """As an idle H100 answered: 503 316 480 B used without any process, all of it reserved."""

    def info(_handle: Any, version: int | None = None) -> Any:
        if version is None:
            return SimpleNamespace(used=503_316_480, total=85_520_809_984)
        if not newer:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return SimpleNamespace(used=0, reserved=503_316_480, total=85_520_809_984)

    port = driver()
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", info)
    assert port.ask("memory_b", 0) == (0 if newer else 503_316_480, 85_520_809_984)


def test_the_users_of_a_board_with_their_time_and_memory(driver):
    samples = [
        SimpleNamespace(pid=7, smUtil=30, timeStamp=1_000),
        SimpleNamespace(pid=7, smUtil=10, timeStamp=2_000),
        SimpleNamespace(pid=8, smUtil=5, timeStamp=1_500),
        SimpleNamespace(pid=9, smUtil=4_294_967_295, timeStamp=2**63),  # a row not filled in
    ]
    running = [SimpleNamespace(pid=7, usedGpuMemory=64), SimpleNamespace(pid=9, usedGpuMemory=None)]
    port = driver(
        nvmlDeviceGetProcessUtilization=samples, nvmlDeviceGetComputeRunningProcesses=running
    )
    assert port.users(0) == (GpuUser(7, 40.0, 64), GpuUser(8, 5.0, None), GpuUser(9, None, None))


ENERGY, POWER = "nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetPowerUsage"


@pytest.mark.parametrize(
    ("unsupported", "calls", "found"),
    [
        ((), ["fields"], (9, 8, 7)),
        (("fields",), [ENERGY, POWER], (9, 8, None)),
        (("fields", ENERGY), [POWER], (None, 8, None)),
    ],
)
def test_a_tick_makes_only_calls_that_are_offered(driver, monkeypatch, unsupported, calls, found):
    answers: dict[str, Any] = {"fields": [Field(9), Field(8, 1), Field(7, 1)], ENERGY: 9, POWER: 8}
    error = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    port = driver(**{name: error if name in unsupported else answers[name] for name in answers})
    port.read(0)
    made: list[str] = []
    places = {
        "fields": (pynvml.nvmlLib, "nvmlDeviceGetFieldValues"),
        ENERGY: (pynvml, ENERGY),
        POWER: (pynvml, POWER),
    }
    for name, (owner, call) in places.items():
        real = getattr(owner, call)
        monkeypatch.setattr(
            owner, call, lambda *a, name=name, real=real: (made.append(name), real(*a))[1]
        )
    assert port.read(0) == found
    assert made == calls
