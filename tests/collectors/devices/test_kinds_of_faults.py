"""Each kind of fault that users of other meters have met, over every vendor's source: nothing that
a device does voids what was read of it, and what is not known is in the range.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gramwatt.collectors.devices.amd import AmdSmi
from gramwatt.collectors.devices.apple import AppleSilicon
from gramwatt.collectors.devices.board import (
    DeviceLost,
    DevicePort,
    NotSupported,
    Place,
    ReadFailed,
    present,
)
from gramwatt.collectors.devices.board import ports as port_list
from gramwatt.collectors.devices.gaudi import Pyhlml
from gramwatt.collectors.devices.jetson import Jetson
from gramwatt.collectors.devices.neuron import Neuron
from gramwatt.collectors.devices.nvml import Nvml
from gramwatt.collectors.devices.tpu import Tpu
from gramwatt.sci.records.merge import MergedDevice
from gramwatt.sci.records.records import HOST_CLASSES
from tests.collectors.rig import energy_j, gpu
from tests.collectors.vendor_fakes import (
    CountedIntel,
    FakeAmdSmi,
    FakeApple,
    FakeHlml,
    FakeTpuDevice,
    FakeTpuMetrics,
    HlmlError,
    VendorRig,
    intel_tree,
    write,
)

POWER_W = 250.0
NEURON = "sys__devices__virtual__neuron_device__neuron0__"
INA = "sys__bus__i2c__drivers__ina3221__1-0040__hwmon__hwmon1__"
PCI = "sys__bus__pci__devices__0000:03:00.0__"
FILES = {
    "dev__neuron0": "",
    f"{NEURON}info__architecture__device_name": "Inferentia2\n",
    f"{NEURON}core_count": "2\n",
    f"{NEURON}stats__power__utilization": "POWER_STATUS_VALID,1781370720,50.0,50.0,50.0\n",
    f"{INA}in1_label": "VDD_IN\n",
    f"{INA}in1_input": "5000\n",
    f"{INA}curr1_input": "50000\n",
}


SOURCES: dict[str, Callable[[VendorRig, Path], DevicePort]] = {
    "amd": lambda rig, _: AmdSmi(lambda: FakeAmdSmi(rig, "AMD Instinct MI300X")),
    "gaudi": lambda rig, _: Pyhlml(lambda: FakeHlml(rig)),
    "intel": lambda rig, root: CountedIntel(rig, root, "energy1_input"),
    "apple": lambda rig, _: AppleSilicon(
        lambda: FakeApple(rig, cpu_total_mj=100.0, gpu_mj=120.0, dram_mj=30.0), "Apple M2"
    ),
    "jetson": lambda _, root: Jetson(root),
    "neuron": lambda _, root: Neuron(root, lambda name: (0.0, 2 * POWER_W)),
    "tpu": lambda _, root: Tpu(
        lambda: FakeTpuDevice("v4", 1),
        lambda: FakeTpuMetrics([50.0]),
        lambda name: (0.0, 2 * POWER_W),
        in_background=False,
    ),
}
COUNTED = ("amd", "gaudi", "intel", "apple")
Fault = Callable[[float], float]
"""What becomes of an answer."""


def fails(error: type[Exception]) -> Fault:
    def fault(value: float) -> float:
        raise error("as tests have it")

    return fault


def machine(tmp_path: Path, source: str) -> VendorRig:
    """A machine with one device of 250 W."""
    root = tmp_path / "root"
    write(root, **FILES)
    intel_tree(root, energy1_input="5")
    return VendorRig(
        tmp_path / "home",
        lambda rig: [SOURCES[source](rig, root)],
        gpu({"type": "constant", "power_w": POWER_W}),
    )


def device_of(rig: VendorRig, job_id: str = "job") -> MergedDevice:
    (device,) = [d for d in rig.merged(job_id).devices if d.record.device_class not in HOST_CLASSES]
    return device


def spoil(port: DevicePort, rig: VendorRig, fault: Fault, from_s: float, to_s: float) -> None:
    begin_s = rig.now_s()
    for name in ("energy_mj", "power_mw"):
        call = getattr(port, name)

        def asked(index: int, call: Callable[[int], float] = call) -> float:
            inside = from_s <= rig.now_s() - begin_s < to_s
            return fault(call(index)) if inside else call(index)

        setattr(port, name, asked)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    ("fault", "from_s", "to_s"),
    [
        (fails(ReadFailed), 20, 21),
        (fails(KeyError), 20, 23),
        (fails(DeviceLost), 20, 35),
        (fails(DeviceLost), 0, 8),
        (fails(NotSupported), 0, 8),
        (fails(NotSupported), 20, 21),
        (lambda value: value * 1e4, 20, 22),
        (lambda value: math.nan, 20, 22),
        (lambda value: -value, 20, 22),
    ],
    ids=[
        "once",
        "another error",
        "lost and back",
        "lost at first",
        "not yet",
        "not now",
        "huge",
        "nan",
        "negative",
    ],
)
def test_a_fault_that_passes_costs_no_energy(tmp_path, source, fault, from_s, to_s):
    rig = machine(tmp_path, source)
    make = rig.make

    def spoilt(rig: VendorRig) -> list[DevicePort]:
        (port,) = make(rig)
        spoil(port, rig, fault, from_s, to_s)
        return [port]

    rig.make = spoilt
    rig.job(60.0)
    assert energy_j(device_of(rig).intervals) == pytest.approx(60 * POWER_W, rel=0.02)


@pytest.mark.parametrize("folder", [f"{NEURON}stats__power", INA, f"{PCI}hwmon__hwmon5"])
def test_files_that_cannot_be_read_for_a_moment_cost_no_energy(tmp_path, folder):
    source = {NEURON: "neuron", INA: "jetson"}.get(folder.replace("stats__power", ""), "intel")
    rig = machine(tmp_path, source)
    path = tmp_path / "root" / folder.strip("_").replace("__", "/")
    meter = rig.start()
    rig.run(20, meter)
    gone = path.rename(path.with_name("gone"))
    rig.run(3, meter)
    gone.rename(path)
    rig.run(37, meter)
    rig.stop(meter)
    intervals = device_of(rig).intervals
    assert energy_j(intervals) == pytest.approx(60 * POWER_W, rel=0.02)
    assert sum((i.end - i.start).total_seconds() for i in intervals if i.kind == "estimated") < 21


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("fault", [fails(ReadFailed), fails(DeviceLost), lambda value: math.nan])
def test_a_device_that_stays_away_is_estimated_from_nothing_to_its_most(tmp_path, source, fault):
    rig = machine(tmp_path, source)
    make = rig.make

    def spoilt(rig: VendorRig) -> list[DevicePort]:
        (port,) = make(rig)
        spoil(port, rig, fault, 30, math.inf)
        return [port]

    rig.make = spoilt
    rig.job(60.0)
    intervals = device_of(rig).intervals
    assert energy_j(intervals) == pytest.approx(60 * POWER_W, rel=0.02)
    unread = [item for item in intervals if "unread_w" in item.profile]
    assert energy_j(unread) == pytest.approx(30 * POWER_W, rel=0.1)
    assert any(text.startswith("meter-gap: ") for text in rig.notices())


@pytest.mark.parametrize("source", [name for name in SOURCES if name not in COUNTED])
def test_a_suspended_machine_draws_nothing(tmp_path, source):
    rig = machine(tmp_path, source)
    meter = rig.start()
    rig.run(30, meter)
    rig.clock.suspend(3600)
    rig.run(30, meter)
    rig.stop(meter)
    assert energy_j(device_of(rig).intervals) == pytest.approx(60 * POWER_W, rel=0.05)
    assert any(text.startswith("machine-suspended: ") for text in rig.notices())


@pytest.mark.parametrize("source", SOURCES)
def test_two_jobs_on_one_device_are_billed_its_energy_once(tmp_path, source):
    rig = machine(tmp_path, source)
    meters = [rig.start(job_id=job_id) for job_id in ("first", "second")]
    rig.run(60, *meters)
    for meter in meters:
        rig.stop(meter)
    billed_j = []
    for job_id in ("first", "second"):
        billed_j.append(energy_j(device_of(rig, job_id).intervals))
        assert any("divided evenly" in text for text in rig.notices("gpu-shared", job_id))
    assert sum(billed_j) == pytest.approx(60 * POWER_W, rel=0.05)


ACCEL = "sys__class__accel__accel0__device__vendor"


@pytest.mark.parametrize(
    ("title", "files", "node"),
    [
        ("Intel Gaudi", {}, "hl0"),
        ("Intel Gaudi", {ACCEL: "0x1da3"}, "accel__accel0"),
        ("Google TPU", {ACCEL: "0x1ae0"}, "accel__accel0"),
        ("Google TPU", {f"{PCI}vendor": "0x1ae0"}, "accel0"),
        ("Google TPU", {f"{PCI}vendor": "0x1ae0"}, "vfio__3"),
        ("AWS Neuron", {f"{NEURON}core_count": "2"}, "neuron0"),
        ("AMD GPU", {f"{PCI}vendor": "0x1002", f"{PCI}class": "0x038000"}, "kfd"),
        (
            "Intel discrete GPU",
            {f"{PCI}vendor": "0x8086", f"{PCI}class": "0x030000", f"{PCI}drm__renderD9__dev": ""},
            "dri__renderD9",
        ),
        ("Cambricon MLU", {}, "cambricon_dev0"),
        ("Qualcomm Cloud AI", {ACCEL: "0x17cb"}, "accel__accel0"),
    ],
)
def test_what_a_job_may_not_open_is_none_of_its_devices(tmp_path, title, files, node):
    """A container sees the whole machine's /sys, and its own /dev."""
    write(tmp_path, **files)
    place = Place(tmp_path, {}, "linux", "x86_64")
    assert present(place) == [Nvml]
    write(tmp_path, **{f"dev__{node}": ""})
    assert [port.title for port in port_list(place)] == [title, Nvml.title]


def test_a_container_is_billed_the_devices_that_it_was_given(tmp_path):
    """amdsmi and the Neuron driver list those of the whole machine (ROCm-docker #49)."""
    for number in range(3):
        card = f"sys__bus__pci__devices__0000:{number:02x}:00.0__drm__renderD{128 + number}__dev"
        neuron = NEURON.replace("neuron0", f"neuron{number}")
        write(tmp_path, **{card: "", f"{neuron}core_count": "2"})
    write(tmp_path, dev__dri__renderD129="", dev__neuron2="")
    rig = VendorRig(tmp_path / "home", lambda _: [], *(gpu() for _ in range(3)))
    ports: list[Any] = [
        AmdSmi(lambda: FakeAmdSmi(rig, *["AMD Instinct MI300X"] * 3), tmp_path),
        Neuron(tmp_path),
    ]
    ids = []
    for port in ports:
        port.open()
        ids += [port.board(index).uuid[:8] for index in range(port.count())]
    assert ids == ["01ff74a1", "neuron-2"]


def test_a_lost_gaudi_is_looked_up_by_its_id_when_it_is_back(tmp_path):
    rig = machine(tmp_path, "gaudi")
    handles = ["a", "b"]

    class Shifting(FakeHlml):
        def hlmlDeviceGetCount(self) -> int:  # noqa: N802
            return 2

        def hlmlDeviceGetHandleByIndex(self, index: int) -> Any:  # noqa: N802
            return handles[index]

        def hlmlDeviceGetHandleByUUID(self, uuid: str) -> Any:  # noqa: N802
            return uuid if uuid in handles else self._lose()

        def hlmlDeviceGetUUID(self, device: Any) -> bytes:  # noqa: N802
            return device.encode() if device in handles else self._lose()

        def _lose(self) -> Any:
            raise HlmlError(15)

    port = Pyhlml(lambda: Shifting(rig))
    port.open()
    assert [port.board(index).uuid for index in range(2)] == ["a", "b"]
    handles.remove("a")  # the other moves up to its place
    for _ in range(2):
        with pytest.raises(DeviceLost):
            port.board(0)
    handles.insert(0, "a")
    assert port.board(0).uuid == "a"


def test_a_part_of_an_apple_chip_that_is_told_later_is_left_out_and_none_is_lost(tmp_path):
    rig = machine(tmp_path, "apple")
    watts: dict[str, float | None] = {"cpu_total_mj": 8.0}
    fake = FakeApple(rig)
    fake.watts = watts
    port = AppleSilicon(lambda: fake, "Apple M2")
    port.open()
    (remark,) = port.remarks()
    assert "memory" in remark
    with pytest.raises(Exception, match="not both"):
        port.energy_mj(0)
    watts["gpu_mj"] = 12.0
    rig.clock.advance_ns(10**10)
    assert port.energy_mj(0) == 200_000
    watts["dram_mj"] = 3.0
    assert port.energy_mj(0) == 200_000
    assert port.remarks() == ()
    del watts["gpu_mj"]
    with pytest.raises(Exception, match="not both"):
        port.energy_mj(0)
