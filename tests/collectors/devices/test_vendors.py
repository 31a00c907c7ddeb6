"""Vendors other than NVIDIA: energy against exact integrals, their faults, and who is billed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gramwatt.collectors.devices.amd import AmdSmi
from gramwatt.collectors.devices.apple import AppleSilicon
from gramwatt.collectors.devices.board import (
    DevicePort,
    Place,
    ReadFailed,
    SourceAbsent,
    present,
    rated_w,
    vendors,
)
from gramwatt.collectors.devices.gaudi import Pyhlml
from gramwatt.collectors.devices.intel import IntelGpu, cards
from gramwatt.collectors.devices.jetson import Jetson
from gramwatt.collectors.devices.neuron import Neuron
from gramwatt.collectors.devices.nvml import Nvml
from gramwatt.collectors.devices.tpu import Tpu
from gramwatt.collectors.doctor.accelerators import others
from gramwatt.collectors.doctor.finding import Target
from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.grid.zones import AnnualIntensity
from gramwatt.sci.records.records import DeviceRecord, IntervalRecord
from gramwatt.sci.score.score import ScoreContext, score
from tests.collectors.rig import by_type, energy_j, gpu
from tests.collectors.vendor_fakes import (
    CountedIntel,
    FakeAmdSmi,
    FakeApple,
    FakeHlml,
    FakeTpuDevice,
    FakeTpuMetrics,
    VendorRig,
    absent,
    intel_tree,
    write,
)

SQUARE = {"type": "square", "low_w": 100.0, "high_w": 700.0, "period_s": 0.97, "duty": 0.7}
Make = Callable[[VendorRig], list[DevicePort]]


def intervals(rig: VendorRig, device_id: str | None = None) -> list[IntervalRecord]:
    found = [d for d in rig.merged().devices if d.record.device_class not in ("cpu", "ram")]
    return [
        interval
        for device in found
        if device_id in (None, device.record.device_id)
        for interval in device.intervals
    ]


def devices(rig: VendorRig) -> list[DeviceRecord]:
    found: list[DeviceRecord] = by_type(rig.records(), DeviceRecord)
    return [record for record in found if record.device_class not in ("cpu", "ram")]


def amd(*names: str, **more: Any) -> Make:
    return lambda rig: [AmdSmi(lambda: FakeAmdSmi(rig, *names, **more))]


@pytest.mark.parametrize("old_keys", [False, True])
def test_amd_energy_is_the_accumulator_times_its_resolution(tmp_path, old_keys):
    rig = VendorRig(tmp_path, amd("AMD Instinct MI300X", old_keys=old_keys), gpu(SQUARE))
    exact_j = rig.measured()
    assert energy_j(intervals(rig), "measured") == pytest.approx(exact_j, rel=0.002)
    (record,) = devices(rig)
    assert (record.meter, record.kind, record.device_class) == ("amdsmi", "measured", "gpu")
    assert (record.name, record.power_limit_w) == ("AMD Instinct MI300X", 750.0)
    assert record.memory_b == 192 * 2**30
    assert intervals(rig)[0].utilisation_mean == 0.75
    assert [text for text in rig.notices() if "no GPU is measured" in text] == []


@pytest.mark.parametrize("name", ["AMD Instinct MI250X", "AMD INSTINCT MI200 (MCM) OAM HPE C2"])
@pytest.mark.parametrize("billed", ["0,1", "0", "1"])
def test_each_die_of_a_mi250_gets_half_of_what_the_even_one_reports(tmp_path, billed, name):
    make = amd(name, name, silent=[1], hip=[0, 1])
    rig = VendorRig(tmp_path, make, gpu(SQUARE), gpu())
    board_j = rig.measured(environ={"ROCR_VISIBLE_DEVICES": billed})
    dies = len(billed.split(","))
    assert energy_j(intervals(rig)) == pytest.approx(board_j * dies / 2, rel=0.002)
    assert {i.kind for i in intervals(rig)} == {"attributed"}
    assert [record.share for record in devices(rig)] == [1.0] * dies


def test_dies_of_two_mi250_are_not_taken_for_one_board(tmp_path):
    """The second die of a board, and the first one of the next."""
    make = amd("AMD Instinct MI250X", "AMD Instinct MI250X", silent=[0])
    rig = VendorRig(tmp_path, make, gpu(), gpu())
    rig.measured(20.0)
    assert {i.device_id[:2] for i in intervals(rig)} == {"01"}
    assert energy_j(intervals(rig)) == pytest.approx(250 * 20 / 2, rel=1e-3)
    (text,) = [text for text in rig.notices() if text.startswith("energy-unmeasured: ")]
    assert "its first die, which this process cannot see" in text


def test_partitions_of_one_board_share_its_sensor(tmp_path):
    bdf = [f"0000:05:00.{function}" for function in range(4)] + ["0000:26:00.0"]
    make = amd(*["AMD Instinct MI300X"] * 5, bdf=bdf, sensors=dict.fromkeys(range(4), 0))
    rig = VendorRig(tmp_path, make, *(gpu() for _ in range(5)))
    rig.measured(20.0, environ={"HIP_VISIBLE_DEVICES": "1,4"})
    # a quarter of one board and the whole of another, 250 W each
    assert energy_j(intervals(rig)) == pytest.approx(250 * 20 * 1.25, rel=1e-3)


@pytest.mark.parametrize(("given", "shares"), [([129], 1), ([128, 129], 2), ([131, 132], 5)])
def test_a_container_is_billed_the_partitions_whose_nodes_it_was_given(tmp_path, given, shares):
    """Every partition has its board's address, or one that sysfs lacks, and its own render node."""
    bdf = ["0000:05:00.0", "0000:05:00.1", "0000:05:00.2", "0000:05:00.3", "0000:26:00.0"]
    for number, address in ((128, bdf[0]), (132, bdf[4])):
        write(tmp_path, **{f"sys__bus__pci__devices__{address}__drm__renderD{number}__dev": ""})
    write(tmp_path, **{f"dev__dri__renderD{number}": "" for number in given})
    more = {"bdf": bdf, "hip": range(5), "render": range(128, 133)}
    names = ["AMD Instinct MI300X"] * 5

    def make(rig: VendorRig) -> list[DevicePort]:
        fake = FakeAmdSmi(rig, *names, sensors=dict.fromkeys(range(4), 0), **more)
        return [AmdSmi(lambda: fake, tmp_path)]

    rig = VendorRig(tmp_path / "home", make, *(gpu() for _ in range(5)))
    rig.measured(20.0)
    assert energy_j(intervals(rig)) == pytest.approx(250 * 20 / 4 * shares, rel=1e-3)


def test_an_amd_gpu_in_wsl_is_not_left_out(tmp_path):
    write(tmp_path, dev__dxg="")
    assert linux(tmp_path) == []
    (tmp_path / "opt/rocm").mkdir(parents=True)
    assert linux(tmp_path) == ["AMD GPU"]


@pytest.mark.parametrize(
    "fault",
    [
        {"type": "reset", "at_s": 20.0},
        {"type": "backward", "at_s": 20.0, "joules": 3000.0},
        {"type": "backward", "at_s": 20.0, "joules": 2.0**32 * 1e-6},  # wrapped: 32 bits of uJ
        {"type": "spike", "at_s": 20.0, "until_s": 21.0, "joules": 1e9},
        {"type": "frozen", "at_s": 20.0},
    ],
    ids=["reset", "backward", "wrapped", "spike", "frozen"],
)
@pytest.mark.parametrize("vendor", ["amd", "gaudi"])
def test_a_counter_that_lies_is_replaced_by_integrated_power(tmp_path, vendor, fault):
    make = amd("AMD Instinct MI100")
    if vendor == "gaudi":
        make = lambda rig: [Pyhlml(lambda: FakeHlml(rig))]  # noqa: E731
    rig = VendorRig(tmp_path, make, gpu(faults=[fault]))
    exact_j = rig.measured()
    assert energy_j(intervals(rig)) == pytest.approx(exact_j, rel=0.01)
    assert energy_j(intervals(rig), "integrated") > 100.0
    assert any(text.startswith("meter-counter-reset") for text in rig.notices())


def test_without_a_counter_power_is_integrated_and_without_either_nothing_is_said_of_energy(
    tmp_path,
):
    no_counter = [{"type": "unsupported", "call": "energy"}]
    neither = [*no_counter, {"type": "denied", "call": "power"}]
    rig = VendorRig(
        tmp_path,
        amd("AMD Radeon VII", "AMD Radeon VII"),
        gpu(SQUARE, faults=no_counter),
        gpu(faults=neither),
    )
    exact_j = rig.measured()
    first, second = devices(rig)
    assert (first.kind, second.kind) == ("integrated", "estimated")
    assert energy_j(intervals(rig, first.device_id)) == pytest.approx(exact_j, rel=0.03)
    assert intervals(rig, second.device_id) == []
    assert [text for text in rig.notices() if text.startswith("energy-unmeasured")] != []


def test_gaudi_reads_hlmls_counter(tmp_path):
    """Each device's own, though its handle is one object with the others'."""
    rig = VendorRig(tmp_path, lambda rig: [Pyhlml(lambda: FakeHlml(rig))], gpu(SQUARE), gpu())
    exact_j = rig.measured(environ={"HABANA_VISIBLE_DEVICES": "0"})
    assert energy_j(intervals(rig), "measured") == pytest.approx(exact_j, rel=0.002)
    (record,) = devices(rig)
    assert (record.meter, record.device_class, record.name) == ("hlml", "accelerator", "HL-225")
    assert record.power_limit_w == 600.0


def test_an_apple_chip_is_one_module_and_nothing_of_the_host_is_added(tmp_path):
    watts = {"cpu_total_mj": 8.0, "gpu_mj": 12.0, "ane_mj": 2.0, "dram_mj": 3.0}
    rig = VendorRig(
        tmp_path, lambda rig: [AppleSilicon(lambda: FakeApple(rig, **watts), "Apple M2")]
    )
    rig.measured(30.0)
    assert energy_j(intervals(rig), "measured") == pytest.approx(25.0 * 30, rel=1e-3)
    (record,) = by_type(rig.records(), DeviceRecord)  # neither CPU nor RAM beside it
    assert (record.device_class, record.includes_host, record.name) == ("module", True, "Apple M2")


@pytest.mark.parametrize("chip", ["Apple M2 Ultra", "Apple M2 Max"])
def test_the_processor_of_an_ultras_other_die_is_not_left_out_in_silence(tmp_path, chip):
    watts = {"cpu_total_mj": 8.0, "gpu_mj": 12.0, "dram_mj": 3.0}
    rig = VendorRig(tmp_path, lambda rig: [AppleSilicon(lambda: FakeApple(rig, **watts), chip)])
    rig.measured(20.0)
    assert any("one die" in text for text in rig.notices()) == chip.endswith("Ultra")


def jetson_tree(root: Path, **rails: tuple[Any, Any]) -> None:
    """Rails as the hwmon interface shows them: name to mV and mA."""
    write(root, **{"proc__device-tree__compatible": "nvidia,p3767-0000\0nvidia,tegra234\0"})
    write(root, **{"proc__device-tree__model": "NVIDIA Jetson Orin NX Engineering Reference\0"})
    chip = "sys__bus__i2c__drivers__ina3221__1-0040__hwmon__hwmon1__"
    for number, (name, (volts, amperes)) in enumerate(rails.items(), start=1):
        write(root, **{f"{chip}in{number}_label": f"{name}\n"})
        write(root, **{f"{chip}in{number}_input": f"{volts}\n"})
        write(root, **{f"{chip}curr{number}_input": f"{amperes}\n"})


# mV and mA of rails; on AGX Orin channels not connected cannot be read (alumet #212), one is fed
# by another, and there is a sum of shunt voltages (jetson_stats #344, #428).
AGX = {"VDD_GPU_SOC": (19000, 500), "VDD_CPU_CV": (19000, 300), "VIN_SYS_5V0": (5000, 900)}
NOT_COUNTED = {"VDDQ_VDD2_1V8AO": (5000, 200), "NC": ("", "")}
SHUNTS = {"in7_label": "sum of shunt voltages\n", "in7_input": "4\n", "curr4_input": "1700\n"}
THOR = {"name": "ina238\n", "in1_input": "20000\n", "power1_input": "100000000\n"}


@pytest.mark.parametrize(
    ("rails", "more", "power_w"),
    [
        ({"VDD_IN": (5000, 2400), "VDD_CPU_GPU_CV": (5000, 900)}, {}, 12.0),
        ({"POM_5V_IN": (5000, 1000), "POM_5V_GPU": (5000, 300)}, {}, 5.0),
        ({**AGX, **NOT_COUNTED}, {"ina3221__1-0040": SHUNTS}, 19.7),
        (AGX, {"ina238__2-0044": THOR}, 100.0),
    ],
    ids=["Orin NX", "Nano", "AGX Orin", "AGX Thor"],
)
def test_a_jetson_is_its_whole_input_else_the_sum_of_its_supplies(tmp_path, rails, more, power_w):
    jetson_tree(tmp_path / "root", **rails)
    for chip, files in more.items():
        folder = f"sys__bus__i2c__drivers__{chip}__hwmon__hwmon1__"
        write(tmp_path / "root", **{folder + name: text for name, text in files.items()})
    rig = VendorRig(
        tmp_path / "home", lambda _: [Jetson.at(Place(tmp_path / "root", {}, "linux", ""))]
    )
    rig.measured(30.0)
    assert energy_j(intervals(rig), "integrated") == pytest.approx(power_w * 30, rel=1e-3)
    (record,) = by_type(rig.records(), DeviceRecord)
    assert (record.kind, record.includes_host, record.meter) == ("integrated", True, "ina3221")
    assert record.name == "NVIDIA Jetson Orin NX Engineering Reference"


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({"machine": "NVIDIA Jetson AGX Orin\n"}, "NVIDIA Jetson AGX Orin"),
        ({}, "NVIDIA Jetson"),
    ],
)
def test_a_jetson_in_a_container_that_hides_its_device_tree_is_measured(tmp_path, files, name):
    """Docker masks /sys/firmware, where the device tree is (jetson-gpio #52)."""
    jetson_tree(tmp_path, VDD_IN=(5000, 2400))
    for hidden in ("compatible", "model"):
        (tmp_path / "proc/device-tree" / hidden).unlink()
    assert linux(tmp_path) == []
    soc = {"family": "Tegra\n", **files}
    write(tmp_path, **{f"sys__devices__soc0__{file}": text for file, text in soc.items()})
    assert linux(tmp_path) == ["NVIDIA Jetson"]
    port = Jetson(tmp_path)
    port.open()
    assert (port.board(0).name, port.power_mw(0)) == (name, 12_000)


def test_an_older_jetson_gives_power_itself_and_a_broken_rail_is_a_failed_reading(tmp_path):
    chip = "sys__bus__i2c__drivers__ina3221x__0-0041__iio:device1__"
    write(tmp_path, **{f"{chip}rail_name_0": "POM_5V_IN\n", f"{chip}in_power0_input": "3567\n"})
    port = Jetson(tmp_path)
    port.open()
    assert port.power_mw(0) == 3567
    write(tmp_path, **{f"{chip}in_power0_input": "\n"})
    with pytest.raises(ReadFailed, match="in_power0_input"):
        port.power_mw(0)


def neuron_tree(
    root: Path, count: int = 2, utilization: str | None = None, name: str = "Inferentia2"
) -> None:
    base = "sys__devices__virtual__neuron_device__neuron"
    for number in range(count):
        write(root, **{f"dev__neuron{number}": ""})
        write(root, **{f"{base}{number}__info__architecture__device_name": f"{name}\n"})
        for core in range(8 if name == "Trainium2" else 2):
            write(root, **{f"{base}{number}__neuron_core{core}__info__notify_delay": "-1"})
        if utilization is not None:
            write(root, **{f"{base}{number}__stats__power__utilization": utilization})


def neuron(root: Path, rated: tuple[float, float] | None) -> Make:
    return lambda _: [Neuron(root, lambda name: rated if name == "Inferentia2" else None)]


def test_neuron_power_runs_from_the_catalogs_idle_to_its_rated_one_and_is_derived(tmp_path):
    """The driver's percentage is without what a device draws idle (its neuron_power.c)."""
    neuron_tree(tmp_path / "root", utilization="POWER_STATUS_VALID,1781370720,0.86,25.00,18.50\n")
    rig = VendorRig(tmp_path / "home", neuron(tmp_path / "root", (60.0, 200.0)))
    rig.measured(30.0)
    assert energy_j(intervals(rig), "derived") == pytest.approx(2 * 85.9 * 30, rel=1e-6)
    assert {record.kind for record in devices(rig)} == {"derived"}
    assert {i.kind for i in intervals(rig)} == {"derived"}


@pytest.mark.parametrize(
    ("environ", "billed"),
    [
        ({}, {1: 1.0}),  # four logical cores a device, of two physical ones each
        ({"NEURON_RT_VIRTUAL_CORE_SIZE": "2"}, {1: 1.0}),
        ({"NEURON_LOGICAL_NC_CONFIG": "1"}, {0: 0.5}),
    ],
)
def test_cores_of_a_trainium2_are_counted_in_pairs_unless_a_variable_says_otherwise(
    tmp_path, environ, billed
):
    neuron_tree(tmp_path, name="Trainium2")
    port = Neuron(tmp_path)
    port.open()
    boards = [port.board(index) for index in range(2)]
    visible = port.visible({"NEURON_RT_VISIBLE_CORES": "4-7", **environ}, boards)
    assert {item.board.ordinal: item.share for item in visible.billed} == billed


def test_neuron_without_a_published_power_stays_unknown_with_a_notice(tmp_path):
    assert rated_w("Inferentia2") is None  # the packaged catalog has none
    assert rated_w("AMD Instinct MI210") is None  # and of this no idle power
    neuron_tree(tmp_path / "root", utilization="POWER_STATUS_VALID,1781370720,0.86,25.00,18.50\n")
    rig = VendorRig(tmp_path / "home", lambda _: [Neuron(tmp_path / "root")])
    rig.measured(20.0)
    assert intervals(rig) == []
    assert any("AWS does not publish" in text for text in rig.notices())
    assert len(devices(rig)) == 2


@pytest.mark.parametrize(
    "text",
    [
        "POWER_STATUS_NO_DATA,0,0.00,0.00,0.00",
        "POWER_STATUS_INVALID,1,1.0,2.0,1.5",
        "POWER_STATUS_VALID,1,1.0",
        "POWER_STATUS_VALID,1,1.0,2.0,250.0",
        "",
    ],
)
def test_a_neuron_figure_that_is_none_is_a_failed_reading(tmp_path, text):
    neuron_tree(tmp_path, 1, text)
    port = Neuron(tmp_path, lambda _: (0.0, 200.0))
    port.open()
    with pytest.raises(ReadFailed):
        port.power_mw(0)


def test_two_functions_of_a_chip_are_one_chip():
    """tpu-info 0.14: a TPU7x shows a PCI function for each of its two devices, and a duty cycle of
    each (wandb #11748).
    """
    port = Tpu(
        lambda: FakeTpuDevice("7x", 4, functions=2),
        lambda: FakeTpuMetrics([50.0, 100.0] * 4),
        in_background=False,
    )
    port.open()
    assert port.count() == 4
    assert port.profile(0, full=True).utilisation == 0.75
    assert port.board(3).memory_b == 2 * 16 * 2**30


def tpu(name: str, duties: list[float] | None, count: int, cores: int = 1) -> Tpu:
    return Tpu(
        lambda: FakeTpuDevice(name, count),
        lambda: FakeTpuMetrics(duties, cores),
        in_background=False,
    )


def test_tpu_power_runs_from_idle_to_rated_with_the_duty_cycle(tmp_path):
    idle_w, full_w = 90.0, 192.0  # the catalog's TPU v4
    assert rated_w("TPU v4") == (idle_w, full_w)
    rig = VendorRig(tmp_path, lambda _: [tpu("v4", [50.0, 0.0], 2)])
    rig.measured(30.0)
    expected_j = 30 * (idle_w + 0.5 * (full_w - idle_w) + idle_w)
    assert energy_j(intervals(rig), "derived") == pytest.approx(expected_j, rel=1e-3)


def test_tpu_rows_of_two_cores_are_one_chip(tmp_path):
    port = tpu("v3", [25.0, 75.0], 2, cores=2)
    port.open()
    assert [port.profile(index, full=True).utilisation for index in range(2)] == [0.25, 0.75]
    assert port.profile(1, full=True).memory_b == 2 * 2**30
    assert port.board(1).memory_b == 32 * 2**30


def test_what_a_library_prints_is_no_part_of_the_doctors_answer(tmp_path, capsys):
    """habana-pyhlml without its driver."""

    class Printing(FakeHlml):
        def hlmlInit(self) -> None:  # noqa: N802
            print("Failed to load libhlml")
            raise RuntimeError("HLML Error with code 1")

    port = Pyhlml(lambda: Printing(VendorRig(tmp_path, amd())))
    with pytest.raises(SourceAbsent, match="does not answer"):
        port.open()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("vendor", ["AMD", "Intel Gaudi"])
def test_a_library_that_lists_no_device_though_one_is_here_leaves_the_energy_unknown(
    tmp_path, vendor
):
    rig = VendorRig(tmp_path, amd())
    if vendor != "AMD":
        rig.make = lambda rig: [Pyhlml(lambda: FakeHlml(rig))]
    rig.measured(20.0)
    assert [record.name for record in devices(rig)] == [f"{vendor}, not readable"]
    assert any("lists no" in text for text in rig.notices())


def test_a_device_whose_library_is_missing_leaves_the_energy_unknown(tmp_path):
    rig = VendorRig(tmp_path, lambda _: [AmdSmi(absent("amdsmi cannot be imported; do this"))])
    rig.measured(20.0)
    (record,) = devices(rig)
    assert (record.name, record.meter) == ("AMD, not readable", "amdsmi")
    assert intervals(rig) == []
    text = "meter-unreadable: no AMD GPU is measured: amdsmi cannot be imported; do this; "
    assert f"{text}`gramwatt doctor` shows what to do." in rig.notices()


def linux(root: Path, **environ: str) -> list[str]:
    here = present(Place(root, environ, "linux", "x86_64"))
    return [vendor.title for vendor in here if vendor is not Nvml]


def test_a_mac_has_the_chip_of_its_maker():
    mac = present(Place(Path("/nowhere"), {}, "darwin", "arm64"))
    assert mac == [AppleSilicon, Nvml]
    assert present(Place(Path("/nowhere"), {}, "darwin", "x86_64")) == [Nvml]


PROBE = """
import json, sys
from pathlib import Path
from random import Random
from gramwatt.collectors.devices.sampler import NodeJob
from gramwatt.collectors.spool.intervals import Schedule
from gramwatt.collectors.meter.device_manager import Dependencies
from gramwatt.collectors.settings.clock import Clock, Timeline
from gramwatt.collectors.meter.device_manager import DeviceManager
from gramwatt.collectors.devices.board import Place, ports
from gramwatt.collectors.devices.library import Crashes

clock, bare = Clock(), Place(Path(sys.argv[1]), {}, "linux", "x86_64")
around = Dependencies(environ={}, ports=lambda _: ports(bare))
timeline = Timeline.from_mark(clock, clock.mono_ns(), clock.wall_ns())
folder = Path(sys.argv[1]) / "home/spool/job/n-1"
schedule = Schedule(timeline.start_ns)
job = NodeJob("n-1", timeline, schedule, Random(1), lambda *a, **k: None, lambda *a: None)
devices = DeviceManager(around, job, folder, Crashes(folder))
devices.begin(None, timeline.start_ns)
print(json.dumps(sorted(sys.modules)))
"""


def test_without_their_devices_no_vendors_library_is_loaded(tmp_path):
    """The first reading of a real meter, in a process of its own."""
    line = [sys.executable, "-c", PROBE, str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout))
    assert "gramwatt.collectors.devices.board" in loaded
    libraries = {vendor.library for vendor in vendors() if vendor is not Nvml} - {""}
    assert {"amdsmi", "pyhlml", "zeus_apple_silicon", "tpu_info"} == libraries
    assert loaded & (libraries | {"grpc"}) == set()


def document(rig: VendorRig) -> JobDoc:
    catalog = load_catalog()
    return score(rig.merged(), ScoreContext(catalog, AnnualIntensity(catalog)))


@pytest.mark.parametrize("why", ["no figure", "no library"])
def test_a_device_that_cannot_be_read_makes_the_whole_energy_unknown(tmp_path, why):
    neuron_tree(tmp_path / "root", utilization="POWER_STATUS_VALID,1781370720,0.86,25.00,18.50\n")
    port: DevicePort = Neuron(tmp_path / "root")
    if why == "no library":
        port = AmdSmi(absent("amdsmi cannot be imported; do this"))
    rig = VendorRig(tmp_path / "home", lambda _: [port])
    rig.measured(20.0)
    doc = document(rig)
    assert (doc.energy_kwh, doc.total_g, doc.conformance) == (None, None, "not-sci")
    assert "energy-unmeasured" in [notice.code for notice in doc.notices]


PACKAGE = "counts the package and not the whole card"


@pytest.mark.parametrize(
    ("files", "counted", "limit_w", "package"),
    [
        ({"energy1_input": "5", "energy2_input": "9", "power1_max": "190000000"}, 1, 190, False),
        ({"energy2_input": "9", "power2_max": "0", "power2_rated_max": "225000000"}, 2, 225, True),
        ({"energy1_input": "0", "energy2_input": "9", "power2_cap": "200000000"}, 2, 200, True),
        ({"energy1_input": "5", "power1_crit": "328000000"}, 1, 328, False),
    ],
    ids=["card", "package", "card's stays 0", "critical limit only"],
)
def test_intels_counter_is_the_cards_else_its_packages(tmp_path, files, counted, limit_w, package):
    root = tmp_path / "root"
    intel_tree(root, **files)
    make: Make = lambda rig: [CountedIntel(rig, root, f"energy{counted}_input")]  # noqa: E731
    rig = VendorRig(tmp_path / "home", make, gpu({**SQUARE, "low_w": 40.0, "high_w": 180.0}))
    exact_j = rig.measured()
    assert energy_j(intervals(rig), "measured") == pytest.approx(exact_j, rel=0.002)
    (record,) = devices(rig)
    assert (record.meter, record.kind, record.device_class) == ("intel-hwmon", "measured", "gpu")
    assert record.power_limit_w == limit_w
    assert any(PACKAGE in text for text in rig.notices()) == package
    findings = others(Target(Place(root, {}, "linux", "x86_64")))
    assert any(PACKAGE in item.detail for item in findings) == package
    (part,) = [device for device in document(rig).devices if device.device_class == "gpu"]
    assert part.hardware == "intel-arc-a770"


def test_a_lost_counter_without_a_power_beside_it_is_continued_as_an_estimate(tmp_path):
    root = tmp_path / "root"
    intel_tree(root, energy1_input="5", power1_max="190000000")
    make: Make = lambda rig: [CountedIntel(rig, root, "energy1_input")]  # noqa: E731
    rig = VendorRig(tmp_path / "home", make, gpu({"type": "constant", "power_w": 120.0}))
    meter = rig.start()
    rig.run(30, meter)
    rig.boards[0].counter_j = lambda at_s: float("nan")  # type: ignore[method-assign]
    rig.run(30, meter)
    rig.stop(meter)
    assert energy_j(intervals(rig)) == pytest.approx(60 * 120, rel=0.02)
    lost = [item for item in intervals(rig) if item.kind == "estimated" and item.energy_j > 500]
    assert energy_j(lost) > 29 * 120
    assert {item.profile.get("unread_w") for item in lost} == {190.0}


def test_an_intel_counter_that_jumps_beyond_its_limit_is_not_believed(tmp_path):
    """Thousands of watts for a second, of a card that has a critical limit only (nvtop #409)."""
    root = tmp_path / "root"
    intel_tree(root, energy1_input="5", power1_crit="328000000")
    make: Make = lambda rig: [CountedIntel(rig, root, "energy1_input")]  # noqa: E731
    jump = {"type": "spike", "at_s": 20.0, "until_s": 1e9, "joules": 4000.0}
    rig = VendorRig(
        tmp_path / "home", make, gpu({"type": "constant", "power_w": 120.0}, faults=[jump])
    )
    rig.measured()
    assert energy_j(intervals(rig)) == pytest.approx(60 * 120, rel=0.02)
    assert any(text.startswith("meter-counter-reset: ") for text in rig.notices())


def test_an_intel_gpu_without_a_counter_leaves_the_energy_unknown(tmp_path):
    intel_tree(tmp_path / "root")
    place = Place(tmp_path / "root", {}, "linux", "x86_64")
    rig = VendorRig(tmp_path / "home", lambda _: [IntelGpu.at(place)])
    rig.measured(20.0)
    (record,) = devices(rig)
    assert (record.device_id, intervals(rig)) == ("intel-0000:03:00.0", [])
    assert any("no energy counter of it in hwmon" in text for text in rig.notices())
    (finding,) = [item for item in others(Target(place)) if item.what.startswith("Intel d")]
    assert (finding.state, finding.kind) == ("missing", None)


@pytest.mark.parametrize(
    ("selector", "none"),
    [("*:cpu", True), ("opencl:cpu;native_cpu:cpu", True), ("level_zero:gpu;opencl:cpu", False)],
)
def test_a_selector_of_processors_alone_gives_no_gpu_of_intel(selector, none):
    assert IntelGpu().wants_none({"ONEAPI_DEVICE_SELECTOR": selector}) == none
    assert not IntelGpu().wants_none({})


def test_a_job_may_say_that_it_uses_no_gpu_of_intel(tmp_path):
    intel_tree(tmp_path / "root")
    place = Place(tmp_path / "root", {}, "linux", "x86_64")
    rig = VendorRig(tmp_path / "home", lambda _: [IntelGpu.at(place)])
    rig.measured(20.0, environ={"ONEAPI_DEVICE_SELECTOR": "*:cpu"})
    assert (devices(rig), document(rig).energy_kwh is None) == ([], False)


def test_a_tegra_without_a_monitor_leaves_the_energy_unknown(tmp_path):
    write(tmp_path / "root", **{"sys__devices__soc0__family": "Tegra\n"})
    rig = VendorRig(tmp_path / "home", lambda _: [Jetson(tmp_path / "root")])
    assert linux(tmp_path / "root") == ["NVIDIA Jetson"]
    rig.measured(20.0)
    assert [record.name for record in devices(rig)] == ["NVIDIA Jetson, not readable"]
    assert any("no INA3221 of this Jetson can be read" in text for text in rig.notices())


def test_only_discrete_gpus_of_intel_that_a_job_may_open_are_listed(tmp_path):
    intel_tree(tmp_path, "0000:00:02.0")  # in the processor
    assert linux(tmp_path) == []
    intel_tree(tmp_path, "0000:00:03.0", energy1_input="7")
    intel_tree(tmp_path, "0000:04:00.0")
    (tmp_path / "dev/dri/renderD132").unlink()  # not given to this container
    intel_tree(tmp_path, "0000:05:00.0")
    folder = tmp_path / "sys/bus/pci/devices"
    (folder / "0000:05:00.0/physfn").symlink_to(folder / "0000:00:03.0")
    assert linux(tmp_path) == ["Intel discrete GPU"]
    assert [card.name for card in cards(tmp_path)] == ["0000:00:03.0"]


@pytest.mark.parametrize(
    ("mask", "by_address", "billed", "remarks"),
    [
        ("0", True, [], 0),
        ("1", True, ["intel-0000:03:00.0"], 0),
        ("0", False, ["intel-0000:03:00.0"], 0),
        ("1", False, [], 1),
    ],
)
def test_graphics_inside_the_processor_are_a_number_of_level_zeros_and_not_billed(
    tmp_path, mask, by_address, billed, remarks
):
    """First by PCI address, else behind the discrete ones (intel-extension-for-pytorch #536)."""
    for address in ("0000:00:02.0", "0000:03:00.0"):
        intel_tree(tmp_path, address)
    port = IntelGpu(tmp_path)
    port.open()
    environ = {"ZE_AFFINITY_MASK": mask, "ZE_ENABLE_PCI_ID_DEVICE_ORDER": str(int(by_address))}
    visible = port.visible(environ, [port.board(0)])
    assert [item.device_id for item in visible.billed] == billed
    assert len(visible.remarks) == remarks


def test_the_doctor_says_which_devices_the_environment_gives_a_job(tmp_path):
    for address in ("0000:03:00.0", "0000:04:00.0"):
        intel_tree(tmp_path, address, energy1_input="5")
    environ = {"ZE_AFFINITY_MASK": "1,5", "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1"}
    first, second, remark, _ = others(Target(Place(tmp_path, environ, "linux", "x86_64")))
    assert (first.kind, second.kind) == (None, "measured")
    assert "the environment gives it to no job here" in first.detail
    assert remark.detail == "ZE_AFFINITY_MASK names '5', which is not here"


COMPOSITE = {"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"}


@pytest.mark.parametrize(
    ("environ", "billed", "remarks"),
    [
        ({}, {0: 1, 1: 1}, 0),
        ({"ZE_AFFINITY_MASK": "0"}, {0: 0.5}, 1),
        ({"ZE_AFFINITY_MASK": "1,2"}, {0: 0.5, 1: 0.5}, 0),
        ({"ZE_AFFINITY_MASK": "0,9"}, {0: 0.5}, 2),
        ({"ZE_AFFINITY_MASK": "0", **COMPOSITE}, {0: 1}, 1),
        (
            {"ZE_AFFINITY_MASK": "1.1", "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1", **COMPOSITE},
            {1: 0.5},
            0,
        ),
        ({"ONEAPI_DEVICE_SELECTOR": "level_zero:2,3"}, {1: 1}, 1),
        ({"ONEAPI_DEVICE_SELECTOR": "level_zero:gpu"}, {0: 1, 1: 1}, 0),
        ({"ZE_AFFINITY_MASK": "2,3", "ONEAPI_DEVICE_SELECTOR": "*:0"}, {1: 0.5}, 1),
    ],
)
def test_tiles_of_intels_cards_are_billed_as_level_zero_numbers_them(
    tmp_path, environ, billed, remarks
):
    for address in ("0000:03:00.0", "0000:04:00.0"):
        intel_tree(tmp_path, address)
        for tile in range(2):
            (tmp_path / "sys/bus/pci/devices" / address / f"tile{tile}").mkdir()
    port = IntelGpu(tmp_path)
    port.open()
    visible = port.visible(environ, [port.board(index) for index in range(port.count())])
    assert {item.board.ordinal: item.share for item in visible.billed} == billed
    assert len(visible.remarks) == remarks
