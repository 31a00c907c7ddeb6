"""Whatever a driver counts is measured, or is in the job with its energy unknown."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from ctypes import c_void_p
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gramwatt.collectors.devices import library
from gramwatt.collectors.devices.amd import AmdSmi
from gramwatt.collectors.devices.board import (
    Board,
    DeviceLost,
    DevicePort,
    MigSlice,
    NotSupported,
    Place,
    ReadFailed,
    SourceAbsent,
    boards_of,
    ports,
)
from gramwatt.collectors.devices.jetson import Jetson
from gramwatt.collectors.devices.library import Crashes
from gramwatt.collectors.devices.nvml import Pynvml, visible
from gramwatt.collectors.devices.unread import Unread
from gramwatt.collectors.doctor import accelerators, host
from gramwatt.collectors.doctor.finding import Target
from gramwatt.collectors.host.machine import this_machine
from gramwatt.collectors.settings.proc import GPU_FILES, openable_gpus
from gramwatt.sci.records.merge import MergedDevice
from gramwatt.sci.records.records import HOST_CLASSES
from tests.collectors.rig import Rig, energy_j, gpu
from tests.collectors.vendor_fakes import FakeAmdSmi, FakeHlml, HlmlError, VendorRig, write
from tests.service.processes import eventually


def failing(*calls: str, kind: str = "failing", **more: Any) -> list[dict[str, Any]]:
    return [{"type": kind, "call": call, **more} for call in calls]


LOST = failing("uuid", "name", "fields", "energy", "power", kind="lost")


def run(rig: Rig, duration_s: float = 20.0, **environ: str) -> dict[str, MergedDevice]:
    """The devices of a job, without processor and memory."""
    rig.job(duration_s, environ=environ)
    result = [d for d in rig.merged().devices if d.record.device_class not in HOST_CLASSES]
    return {device.record.device_id: device for device in result}


def test_a_board_without_a_name_is_measured(tmp_path):
    rig = Rig(tmp_path, gpu(faults=failing("name")))
    (device,) = run(rig).values()
    assert device.record.name == "NVIDIA GPU"
    assert energy_j(device.intervals, "measured") == pytest.approx(20 * 250, rel=1e-3)


def test_a_lost_board_takes_no_other_with_it_and_its_energy_is_unknown(tmp_path):
    rig = Rig(tmp_path, gpu(faults=LOST), gpu(), gpu())
    first, second, third = run(rig).values()
    names = [device.record.device_id for device in (first, second, third)]
    unknown = next(device for device in (first, second, third) if not device.intervals)
    assert unknown.record.device_id.endswith("-nvml-synthetic-0")
    assert {rig.nvml.gpus[1].uuid, rig.nvml.gpus[2].uuid} < set(names)
    assert any(text.startswith("energy-unmeasured: ") for text in rig.notices())


def test_a_board_that_comes_back_is_measured_under_the_id_that_it_was_given(tmp_path):
    rig = Rig(tmp_path, gpu(faults=[{**fault, "until_s": 30} for fault in LOST]))
    (device,) = run(rig, 100).values()
    assert device.record.name == "Synthetic GPU"
    assert energy_j(device.intervals, "measured") > 60 * 250
    assert energy_j(device.intervals) == pytest.approx(100 * 250, rel=0.01)


def test_a_driver_that_lists_no_board_yet_is_asked_again(tmp_path, monkeypatch):
    rig = Rig(tmp_path, gpu())
    listed, from_ns = rig.nvml.count, rig.clock.now_ns() + 15 * 10**9
    monkeypatch.setattr(rig.nvml, "count", lambda: rig.clock.now_ns() >= from_ns and listed())
    (device,) = run(rig, 60).values()
    assert energy_j(device.intervals) == pytest.approx(60 * 250, rel=0.01)
    assert energy_j(device.intervals, "measured") > 29 * 250


def test_a_lost_board_is_not_taken_for_the_one_that_moves_to_its_place(monkeypatch):
    class Lost(Exception):
        value = 15

    def uuid(handle: str) -> str:
        if handle == gone:
            raise Lost
        return handle

    boards, gone = ["GPU-aaaa", "GPU-bbbb"], ""
    nvml = binding(NVML_ERROR_GPU_IS_LOST=15, nvmlDeviceGetHandleByUUID=uuid)
    nvml.NVMLError, nvml.nvmlDeviceGetUUID = Lost, uuid
    nvml.nvmlDeviceGetHandleByIndex = lambda index: boards[index]
    monkeypatch.setitem(__import__("sys").modules, "pynvml", nvml)
    port = Pynvml()
    port.open()
    assert [port.ask("uuid", index) for index in (0, 1)] == boards
    gone = boards.pop(0)
    for _ in range(2):
        with pytest.raises(DeviceLost):
            port.ask("uuid", 0)
    boards.insert(0, gone)
    gone = ""
    assert [port.ask("uuid", index) for index in (0, 1)] == boards


def test_ordinals_are_the_drivers_also_where_a_board_is_not_described(tmp_path):
    boards = [gpu() for _ in range(4)]
    boards[1] = gpu(faults=failing("uuid"))
    rig = Rig(tmp_path, *boards)
    assert list(run(rig, CUDA_VISIBLE_DEVICES="2")) == [rig.nvml.gpus[2].uuid]


def test_boards_that_tell_one_id_are_measured_each(tmp_path):
    one_id = {"uuid": "GPU-deadbeef"}
    rig = Rig(tmp_path, gpu(**one_id), gpu(**one_id))
    first, second = run(rig).values()
    for device in (first, second):
        assert energy_j(device.intervals, "measured") == pytest.approx(20 * 250, rel=1e-3)
    assert second.record.device_id == "GPU-deadbeef-1"


def test_an_id_that_fits_no_board_may_be_that_of_one_not_described(tmp_path):
    rig = Rig(tmp_path, gpu(), gpu(faults=failing("uuid")))
    (device,) = run(rig, CUDA_VISIBLE_DEVICES="GPU-12345678").values()
    assert device.record.device_id.endswith("-nvml-synthetic-1")
    assert any("may be device 1" in text for text in rig.notices())


@pytest.mark.parametrize(
    ("calls", "kind"), [(("fields", "energy"), "integrated"), (("fields", "power"), "measured")]
)
def test_one_call_that_fails_for_ever_costs_its_own_figure_only(tmp_path, calls, kind):
    rig = Rig(tmp_path, gpu(faults=failing(*calls)))
    (device,) = run(rig).values()
    assert energy_j(device.intervals, kind) == pytest.approx(20 * 250, rel=1e-3)
    assert device.record.kind == kind


def test_a_power_that_never_makes_sense_is_no_energy(tmp_path):
    """593 W of a laptop's board of 175 W, whose limit is not known at the first reading (g-helper
    #5819).
    """
    wave = {"type": "constant", "power_w": 593.0}
    rig = Rig(tmp_path, gpu(wave, counter=False, limit_w=175))
    (device,) = run(rig).values()
    assert device.intervals == ()
    assert any("gave more than it can draw" in text for text in rig.notices())


def test_one_gaudi_whose_handle_is_lost_takes_no_other_with_it(tmp_path):
    from gramwatt.collectors.devices.gaudi import Pyhlml

    class OneLost(FakeHlml):
        def hlmlDeviceGetHandleByIndex(self, index: int) -> c_void_p:  # noqa: N802
            if index == 0:
                raise HlmlError(15)
            return super().hlmlDeviceGetHandleByIndex(index)

    rig = VendorRig(tmp_path, lambda rig: [Pyhlml(lambda: OneLost(rig))], gpu(), gpu())
    lost, measured = sorted(run(rig).values(), key=lambda device: len(device.intervals))
    assert lost.intervals == ()
    assert energy_j(measured.intervals) == pytest.approx(20 * 250, rel=1e-3)


RYZEN = {"0000:c1:00.0": ("0x1002", "0x030000"), "0000:c1:00.2": ("0x1022", "0x108000")}


def pci(root: Path, functions: dict[str, tuple[str, str]]) -> None:
    for address, (vendor, kind) in functions.items():
        folder = f"sys__bus__pci__devices__{address}__"
        write(root, **{f"{folder}vendor": f"{vendor}\n", f"{folder}class": f"{kind}\n"})


@pytest.mark.parametrize(
    ("address", "functions"),
    [("0000:c1:00.0", RYZEN), ("0000:00:02.0", {"0000:00:02.0": ("0x8086", "0x030000")})],
    ids=["AMD", "Intel"],
)
def test_graphics_inside_a_processor_are_those_that_a_job_may_open(tmp_path, address, functions):
    pci(tmp_path, functions)
    write(tmp_path, **{f"sys__bus__pci__devices__{address}__drm__renderD128__dev": ""})
    assert not this_machine(tmp_path).graphics
    write(tmp_path, dev__dri__renderD128="")
    assert this_machine(tmp_path).graphics
    finding = host.rapl(Target(Place(tmp_path, {}, "linux", "x86_64")))
    assert "without the graphics inside the processor" in finding.detail


def test_graphics_inside_a_processor_are_no_board(tmp_path):
    write(tmp_path, dev__kfd="")
    pci(tmp_path, RYZEN)
    place = Place(tmp_path, {}, "linux", "x86_64")
    assert not AmdSmi.present(place)
    pci(tmp_path, {"0000:03:00.0": ("0x1002", "0x030000")})
    assert AmdSmi.present(place)

    def amd(rig: VendorRig) -> list[DevicePort]:
        addresses = ["0000:03:00.0", "0000:c1:00.0"]
        fake = FakeAmdSmi(rig, "Radeon RX 7900 XTX", "AMD Radeon Graphics", bdf=addresses)
        return [AmdSmi(lambda: fake, tmp_path)]

    rig = VendorRig(tmp_path / "home", amd, gpu(), gpu())
    (device,) = run(rig).values()
    assert device.record.name == "Radeon RX 7900 XTX"


@pytest.mark.parametrize(
    ("node", "title"),
    [
        ("davinci0", "Huawei Ascend"),
        ("cambricon_dev3", "Cambricon MLU"),
        ("davinci_manager", None),
        ("tenstorrent__0", "Tenstorrent"),
        ("accel__accel0", "Qualcomm Cloud AI"),
        ("mkfd", "Hygon DCU"),
        ("mxcd", "MetaX"),
        ("xpu1", "Kunlunxin"),
        ("xpuctrl", None),
        ("iluvatar7", "Iluvatar"),
        ("gcu0", "Enflame"),
        ("mtgpu.0", "Moore Threads"),
        ("rbln0", "Rebellions"),
        ("rngd__npu0pe0", "FuriosaAI"),
    ],
)
def test_an_accelerator_that_nothing_reads_is_not_left_out(node, title, tmp_path):
    write(tmp_path / "root", **{f"dev__{node}": ""})
    write(tmp_path / "root", **{"sys__class__accel__accel0__device__vendor": "0x17cb\n"})
    place = Place(tmp_path / "root", {}, "linux", "aarch64")
    seen = [port for port in ports(place) if isinstance(port, Unread)]
    assert [port.title for port in seen] == ([title] if title else [])
    result = run(VendorRig(tmp_path / "home", lambda _: list(seen)))
    assert [d.record.name for d in result.values()] == [f"{p.title}, not readable" for p in seen]
    assert all(device.intervals == () for device in result.values())


def test_a_jetsons_own_nvml_is_inside_the_modules_sensors(tmp_path):
    chip = "sys__bus__i2c__drivers__ina3221__1-0040__hwmon__hwmon1__"
    rail = {"in1_label": "VDD_IN", "in1_input": "5000", "curr1_input": "2000"}
    write(tmp_path, **{chip + name: text for name, text in rail.items()})
    silent = failing("energy", "power", "fields", kind="unsupported")
    rig = VendorRig(
        tmp_path / "home",
        lambda rig: [Jetson(tmp_path), rig.nvml],
        gpu(name="Orin (nvgpu)", faults=silent),
    )
    (device,) = run(rig).values()
    assert (device.record.device_class, energy_j(device.intervals)) == (
        "module",
        pytest.approx(200),
    )


def test_an_orin_whose_module_is_not_read_stays_unknown(tmp_path):
    silent = failing("energy", "power", "fields", kind="unsupported")
    (device,) = run(Rig(tmp_path, gpu(name="Orin (nvgpu)", faults=silent))).values()
    assert device.intervals == ()


SLICES = (MigSlice("MIG-1111aaaa", 3 / 7, 1), MigSlice("MIG-2222bbbb", 1 / 7, 4))


@pytest.mark.parametrize(
    ("environ", "slices", "expected", "remarks"),
    [
        ({}, SLICES[:1], ["MIG-1111aaaa"], 0),
        ({"CUDA_VISIBLE_DEVICES": "0"}, SLICES[:1], ["MIG-1111aaaa"], 0),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, SLICES[:1], ["MIG-1111aaaa"], 0),
        ({"NVIDIA_VISIBLE_DEVICES": "void"}, SLICES[:1], ["MIG-1111aaaa"], 0),
        ({"SLURM_JOB_GPUS": "0"}, SLICES, ["MIG-1111aaaa", "MIG-2222bbbb"], 1),
        ({"NVIDIA_VISIBLE_DEVICES": "0:4"}, SLICES, ["MIG-2222bbbb"], 0),
        ({"CUDA_VISIBLE_DEVICES": "MIG-2222"}, SLICES, ["MIG-2222bbbb"], 0),
        ({"CUDA_VISIBLE_DEVICES": "0"}, (), ["GPU-a"], 1),
        ({"CUDA_VISIBLE_DEVICES": "MIG-2222"}, (), ["GPU-a"], 1),
    ],
)
def test_of_a_board_in_mig_mode_its_slices_are_billed_or_it_is_said(
    environ, slices, expected, remarks
):
    boards = [Board(0, "GPU-a", "NVIDIA A100", slices, mig=True)]
    result = Pynvml().visible(environ, boards)
    assert [item.device_id for item in result.billed] == expected
    assert len(result.remarks) == remarks


def test_a_board_of_which_one_slice_is_named_is_not_billed_whole():
    boards = [Board(0, "GPU-a", "NVIDIA A100", SLICES, mig=True)]
    (item,) = visible({"NVIDIA_VISIBLE_DEVICES": "0:1"}, boards).billed
    assert item.share == pytest.approx(3 / 7)


def binding(**more: Any) -> Any:
    """A pynvml of another time: texts are bytes, and functions may lack."""

    class NVMLError(Exception):
        value = 999

    def name(_handle: Any) -> str:
        raise UnicodeDecodeError("utf-8", b"\xf8", 0, 1, "invalid start byte")

    return SimpleNamespace(
        __file__="/old/pynvml.py",
        NVMLError=NVMLError,
        NVML_ERROR_NOT_SUPPORTED=3,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlLib=SimpleNamespace(),
        nvmlSystemGetDriverVersion=lambda: b"580.1",
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetUUID=lambda handle: b"GPU-aaaa",
        nvmlDeviceGetPowerUsage=lambda handle: 300_000,
        **{"nvmlDeviceGetName": name, **more},
    )


def test_an_old_binding_is_read_as_far_as_it_can_and_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pynvml", binding())
    port = Pynvml()
    port.open()
    (board,) = boards_of(port, "n")
    assert (board.uuid, board.name, port.driver()) == ("GPU-aaaa", "NVIDIA GPU", "580.1")
    assert port.read(0) == (None, 300_000, None)
    (remark,) = port.remarks()
    assert "/old/pynvml.py" in remark


class Native(DevicePort):
    """A vendor whose library is native code."""

    vendor = title = meter = library = "Acme"
    native = True

    def __init__(self, in_child: Callable[[], None], in_meter: Callable[[], None] = int) -> None:
        self.in_child, self.in_meter, self.parent = in_child, in_meter, os.getpid()

    def open(self) -> None:
        (self.in_meter if os.getpid() == self.parent else self.in_child)()

    def count(self) -> int:
        return 1

    def board(self, index: int) -> Board:
        return Board(index, "acme-0", "Acme X1")

    def power_mw(self, index: int) -> float:
        return 250_000.0


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def test_a_library_that_has_crashed_is_asked_in_a_child_until_it_works(tmp_path):
    how = "Acme crashes when it is asked (SIGSEGV)"
    assert Crashes(tmp_path).look(Native(crash)) is None  # not suspected
    assert Crashes(tmp_path, after_death=True).look(Native(crash)) == how
    assert Crashes(tmp_path).look(Native(crash)) == how  # another job's
    assert Crashes(tmp_path).look(Native(int)) is None
    assert Crashes(tmp_path).look(Native(crash)) is None


CALLS = (
    "driver",
    "remarks",
    "count",
    "board",
    "read",
    "read_power",
    "power_samples",
    "limit_w",
    "users",
    "profile",
)


@pytest.mark.parametrize("call", CALLS)
def test_whatever_call_crashes_is_met_in_the_child(call, monkeypatch):
    monkeypatch.setattr(Native, call, lambda *args, **more: crash())
    assert "SIGSEGV" in (library.crash_of(Native(int)) or "")


def test_a_child_that_hangs_in_a_driver_ends_without_its_meter(monkeypatch):
    monkeypatch.setattr(library, "CHILD_LIMIT_S", 1)
    port, child = Native(lambda: time.sleep(60)), os.fork()
    if child == 0:
        library._ask_and_exit(port)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGALRM


@pytest.mark.parametrize("answers", [True, False])
def test_a_driver_that_hangs_is_not_waited_for(answers, tmp_path, monkeypatch):
    monkeypatch.setattr(library, "LIMIT_S", 0.01)
    answer, threads = threading.Event(), threading.active_count()
    rig = VendorRig(tmp_path, lambda _: [Native(crash, answer.wait)])
    meter = rig.start()
    rig.run(30, meter)
    if answers:
        answer.set()
        eventually(lambda: threading.active_count() == threads, 60)
    rig.run(30, meter)
    rig.stop(meter)
    answer.set()
    (device,) = (d for d in rig.merged().devices if d.record.device_class not in HOST_CLASSES)
    assert any("Acme has not answered within" in text for text in rig.notices())
    if answers:
        assert device.record.name == "Acme X1"
        assert energy_j(device.intervals, "integrated") == pytest.approx(30 * 250, rel=0.05)
        assert energy_j(device.intervals, "estimated") == pytest.approx(30 * 250, rel=0.05)
    else:
        assert (device.record.name, device.intervals) == ("Acme, not readable", ())


def test_what_a_meter_read_before_its_driver_crashed_is_continued_as_an_estimate(tmp_path):
    rig = VendorRig(tmp_path, lambda _: [Native(lambda: None)])
    rig.clients[100] = 1
    first = rig.start()
    rig.run(60, first)
    rig.kill(first)
    rig.make = lambda _: [Native(crash)]
    rig.job(60, restart=1)
    devices = {d.record.device_id: d for d in rig.merged().devices}
    assert energy_j(devices["acme-0"].intervals) == pytest.approx(120 * 250, rel=0.01)
    assert energy_j(devices["acme-0"].intervals, "estimated") > 50 * 250
    assert [d for d in devices.values() if "not readable" in d.record.name] == []


def test_boards_that_are_left_alone_while_others_work_are_named(tmp_path):
    rig = Rig(tmp_path, gpu(), gpu(utilisation_percent=0), gpu(utilisation_percent=0))
    run(rig, 90)
    (text,) = [text for text in rig.notices() if text.startswith("device-visibility: ")]
    assert "NVIDIA GPU 1, 2: no use was seen" in text


@pytest.mark.parametrize(
    ("before", "others", "billed"),
    [
        ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NVIDIA_VISIBLE_DEVICES": "all"}, {}, [2]),
        ({"CUDA_VISIBLE_DEVICES": "0,1,2"}, {}, [0, 1, 2]),  # reserved
        ({}, {"processes": [{"pid": 100}]}, [0, 1, 2]),  # of the job's processes
        ({}, {"processes": [{"pid": 1}]}, [2]),
    ],
)
def test_what_a_script_chooses_before_its_track_is_billed(before, others, billed, tmp_path):
    rig = Rig(tmp_path, gpu(**others), gpu(**others), gpu())
    meter = rig.start(environ=before)
    rig.run(15, meter)
    rig.enter(101, "worker", job_role="command")
    rig.send(meter, 101, cmd="settings", args={}, visible={"CUDA_VISIBLE_DEVICES": "2"})
    rig.run(15, meter)
    rig.stop(meter)
    ids = [d.record.device_id for d in rig.merged().devices if d.record.device_class == "gpu"]
    assert sorted(ids) == sorted(rig.nvml.gpus[place].uuid for place in billed)
    assert energy_j(rig.gpu_intervals(2)) == pytest.approx(30 * 250, rel=1e-3)


@pytest.mark.parametrize("killed", [False, True])
def test_a_board_that_the_job_uses_is_billed_whatever_the_variable_says(killed, tmp_path):
    """Such as club-3090 #610: a variable that the runtime ignored."""
    own, others = {"processes": [{"pid": 100, "at_s": 20}]}, {"processes": [{"pid": 1}]}
    rig = Rig(tmp_path, gpu(), gpu(**own), gpu(**others))
    meter = rig.start(environ={"CUDA_VISIBLE_DEVICES": "0"})
    rig.run(60, meter)
    if killed:
        rig.kill(meter)
        rig.now()
        meter = rig.start(environ={"CUDA_VISIBLE_DEVICES": "0"})
    rig.run(60, meter)
    rig.stop(meter)
    ids = [d.record.device_id for d in rig.merged().devices if d.record.device_class == "gpu"]
    assert sorted(ids) == sorted(rig.nvml.gpus[place].uuid for place in (0, 1))
    assert energy_j(rig.gpu_intervals(1), "measured") == pytest.approx(95 * 250, rel=0.01)
    assert energy_j(rig.gpu_intervals(1)) == pytest.approx(105 * 250, rel=0.01)
    (text,) = rig.notices("device-visibility: ")
    assert "NVIDIA GPU 1: a process of the job uses it" in text


def test_a_gpu_that_another_task_was_given_and_the_meter_not_is_unknown(tmp_path):
    """Slurm's --gpus-per-task: each task sees its GPU alone, and as number 0 (deepops #1102)."""
    rig = Rig(tmp_path, gpu())
    rig.nvml.root = tmp_path / "machine"
    write(rig.nvml.root, dev__nvidia2="")
    own = {"CUDA_VISIBLE_DEVICES": "0"}
    meter = rig.start(environ=own)
    for pid, numbers in enumerate(("2", "0,2", "0"), 101):
        rig.enter(pid, "track", environ={**own, GPU_FILES: numbers}, mark=(rig.clock.mono_ns(), 0))
    rig.run(20, meter)
    for pid in (101, 102, 103, 100):
        rig.stop(meter, pid=pid)
    gpus = [d for d in rig.merged().devices if d.record.device_class == "gpu"]
    measured, unknown = sorted(gpus, key=lambda device: not device.intervals)
    assert energy_j(measured.intervals) == pytest.approx(20 * 250, rel=1e-3)
    assert unknown.record.device_id.endswith("-nvidia0")
    assert unknown.intervals == ()
    (text,) = rig.notices("energy-unmeasured: ")
    assert "/dev/nvidia0" in text


def test_the_files_of_gpus_that_a_process_may_open(tmp_path, monkeypatch):
    for name in ("nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    refused = str(tmp_path / "nvidia1")
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != refused and may(path, mode))
    assert openable_gpus(str(tmp_path)) == "0,10"
    assert openable_gpus(str(tmp_path / "none")) == ""


def test_doctor_asks_the_meters_own_code(tmp_path):
    rig = Rig(tmp_path, gpu(faults=LOST), gpu(faults=failing("fields", "energy")))
    place = Place(tmp_path, {"GRAMWATT_SHARED_GPU": "1"}, "linux", "x86_64")
    _, lost, integrated, billed = accelerators.nvidia(Target(place, rig.nvml))
    assert (lost.state, lost.kind) == ("missing", None)
    assert "does not answer now" in lost.detail
    assert integrated.kind == "integrated"
    assert "GPU 0, GPU 1 of 2" in billed.detail
    rig.nvml.gpus[1].faults += failing("users", kind="unsupported")
    detail = accelerators.nvidia(Target(place, rig.nvml))[2].detail
    assert "who uses it is not listed" in detail


@pytest.mark.parametrize("seen", [True, False])
def test_doctor_tells_a_driver_that_fails_from_a_library_that_is_missing(tmp_path, seen):
    """Where its files are in /dev, and where it is seen by its answer alone, as under WSL."""

    class Fails(Pynvml):
        def open(self) -> None:
            text = "the NVIDIA driver does not answer: Unknown Error"
            raise SourceAbsent(text, "start it anew", seen=seen)

    write(tmp_path, **{"sys__bus__pci__devices__0000:00:04.0__vendor": "0x8086\n"})
    if not seen:
        write(tmp_path, dev__nvidiactl="")
    (result,) = accelerators.nvidia(Target(Place(tmp_path, {}, "linux", "x86_64"), Fails()))
    assert (result.state, result.fix) == ("missing", "start it anew")
    assert "library" not in result.detail


def test_doctor_goes_on_after_a_vendor_whose_driver_does_not_count(tmp_path, monkeypatch):
    class Uncounted(DevicePort):
        vendor = title = meter = "Acme"

        def count(self) -> int:
            raise ReadFailed("busy")

    monkeypatch.setattr(accelerators, "present", lambda place: [Uncounted, Jetson])
    acme, jetson, _ = accelerators.others(Target(Place(tmp_path, {}, "linux", "x86_64")))
    assert (acme.what, acme.state) == ("Acme", "missing")
    assert "does not count its devices: busy" in acme.detail
    assert (jetson.what, jetson.state) == ("NVIDIA Jetson", "missing")


@pytest.mark.parametrize("odd", [(4294967295, None), (0, 4294967295), (160 * 2**20, 10734)])
def test_a_process_list_without_ids_is_no_list(monkeypatch, odd):
    """Ids not filled in, or memory in their place: nvitop #75 and #76, pynvml #50."""
    rows = [SimpleNamespace(pid=pid, usedGpuMemory=held_b) for pid, held_b in [(1184, 2**30), odd]]
    old = binding(nvmlDeviceGetComputeRunningProcesses=lambda handle: rows)
    monkeypatch.setitem(__import__("sys").modules, "pynvml", old)
    port = Pynvml()
    port.open()
    with pytest.raises(NotSupported):
        port.users(0)
