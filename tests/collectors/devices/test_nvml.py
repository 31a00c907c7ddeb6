"""The translation of NVML's answers and errors, against the real binding's own error classes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import pynvml
import pytest

from gramwatt.collectors.devices.board import (
    DeviceLost,
    GpuUser,
    MigSlice,
    NotSupported,
    Place,
    ReadFailed,
    SourceAbsent,
    Values,
    boards_of,
)
from gramwatt.collectors.devices.nvml import Nvml, Pynvml
from tests.collectors.vendor_fakes import write


class Field(NamedTuple):
    """What the driver answers for one field."""

    value: int
    kind: int = 3
    result: int = 0


class Library:
    """libnvidia-ml's nvmlDeviceGetFieldValues, which fills the caller's array of structures."""

    def __init__(self, answer: list[Field] | pynvml.NVMLError) -> None:
        self.answer = answer
        self.scopes: list[int] = []

    def nvmlDeviceGetFieldValues(self, _handle: Any, count: Any, pointer: Any) -> int:  # noqa: N802
        if isinstance(self.answer, pynvml.NVMLError):
            return int(self.answer.value)
        assert count.value == len(pointer._obj)
        self.scopes = [place.scopeId for place in pointer._obj]
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


def raising(error: Exception) -> Callable[[], None]:
    def call() -> None:
        raise error

    return call


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
    monkeypatch.setattr(pynvml, "nvmlInit", raising(missing))
    with pytest.raises(SourceAbsent, match="library is not here"):
        Pynvml().open()


@pytest.mark.parametrize("folder", ["usr__lib__wsl__lib", "run__opengl-driver__lib"])
def test_a_library_where_the_loader_does_not_look_is_loaded_from_there(
    folder, monkeypatch, tmp_path
):
    """WSL in containers, NixOS (nixpkgs #379776), GKE and Apptainer (EESSI #231)."""
    loaded: list[str] = []

    def init() -> None:
        if not loaded:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", init)
    monkeypatch.setattr(ctypes, "CDLL", loaded.append)
    port = Nvml.at(Place(tmp_path, {}))
    with pytest.raises(SourceAbsent, match="library is not here"):
        port.open()
    write(tmp_path, **{f"{folder}__libnvidia-ml.so.1": ""})
    port.open()
    assert loaded == [f"{tmp_path}/{folder.replace('__', '/')}/libnvidia-ml.so.1"]


def test_any_one_of_the_devices_files_shows_a_gpu(tmp_path):
    port = Nvml.at(Place(tmp_path, {}))
    for value in ("", "none"):
        assert port.wants_none({"NVIDIA_VISIBLE_DEVICES": value})
    write(tmp_path, dev__nvidiactl="")
    assert not port.exists()
    write(tmp_path, dev__nvidia3="")
    assert port.exists()
    for value in ("", "none"):  # its scheduler gave it by its file (pai #1667, nvidia-docker #583)
        assert not port.wants_none({"NVIDIA_VISIBLE_DEVICES": value})
    assert port.wants_none({"CUDA_VISIBLE_DEVICES": ""})


def test_a_board_that_this_user_may_not_open_is_none_of_the_jobs(driver, monkeypatch):
    """nvidia-docker #393: a cgroup hides files, and the driver counts all boards."""
    port = driver(nvmlDeviceGetCount=3, nvmlDeviceGetName="H100")
    refused = pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION)

    def handle(index: int) -> int:
        if index == 0:
            raise refused
        return index

    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", handle)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetUUID", lambda handle: f"GPU-{handle}")
    boards = boards_of(port, "node")
    assert [(board.ordinal, board.uuid) for board in boards] == [(1, "GPU-1"), (2, "GPU-2")]
    assert port.visible({"CUDA_VISIBLE_DEVICES": "0"}, boards).billed[0].board.ordinal == 1


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


@pytest.mark.parametrize("kind", [0, 3])
def test_the_power_of_a_grace_hopper_is_its_modules_as_its_counter_is(driver, kind):
    """Zeus pull request 172; GPU and module are two scopes of one field (k8s-test-infra #676)."""
    answers = [Field(9), Field(600_000, 1, kind), Field(590_000, 1, kind)]
    answered = {"nvmlDeviceGetUUID": "GPU-1", "nvmlDeviceGetTotalEnergyConsumption": 9}
    answered |= {"nvmlDeviceGetPowerUsage": 150_000, "fields": answers}
    port = driver(nvmlDeviceGetName="NVIDIA GH200 480GB", **answered)
    assert port.board(0).includes_host
    assert port.read(0) == (Values(9, None, None) if kind else Values(9, 600_000, 590_000))
    assert pynvml.nvmlLib.scopes == [0, 1, 1]
    port = driver(nvmlDeviceGetName="NVIDIA GB200", **answered)
    assert not port.board(0).includes_host
    port.read(0)
    assert pynvml.nvmlLib.scopes == [0, 0, 0]


def test_a_grace_hopper_without_a_counter_is_read_as_a_gpu(driver):
    unsupported = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    port = driver(
        nvmlDeviceGetName="NVIDIA GH200 480GB",
        nvmlDeviceGetUUID="GPU-1",
        nvmlDeviceGetTotalEnergyConsumption=unsupported,
        nvmlDeviceGetPowerUsage=150_000,
    )
    assert not port.board(0).includes_host
    assert port.read(0) == Values(None, 150_000)


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


def test_more_memory_in_use_than_there_is_is_no_figure(driver):
    """HAMi #1181: 17 TB within a container's share of a board."""
    info = SimpleNamespace(used=17592186044134 * 2**20, total=24 * 2**30)
    assert driver(nvmlDeviceGetMemoryInfo=info).profile(0, full=False).memory_b is None
    info.used = 2**30
    assert driver(nvmlDeviceGetMemoryInfo=info).profile(0, full=False).memory_b == 2**30


def test_fields_that_fail_for_a_moment_are_asked_again(driver):
    answers = [Field(9), Field(251_000, 1), Field(240_000, 1)]
    port = driver(fields=answers, nvmlDeviceGetTotalEnergyConsumption=7, nvmlDeviceGetPowerUsage=8)
    assert port.read(0) == Values(9, 251_000, 240_000)
    answers[:] = [Field(0, 3, 999), Field(0, 1, 999), Field(0, 1, 999)]
    assert port.read(0) == Values(7, 8)
    answers[:] = [Field(9), Field(251_000, 1), Field(240_000, 1)]
    assert port.read(0) == Values(9, 251_000, 240_000)


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
