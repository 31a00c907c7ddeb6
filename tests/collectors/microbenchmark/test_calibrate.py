"""`gramwatt calibrate`: rates and powers against a known device, its file, and its refusals.

The device is a synthetic NVML and a PyTorch that only waits: no test here is of real hardware.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gramwatt.collectors.cli.calibrate import calibrate, lines
from gramwatt.collectors.common.config import Config
from gramwatt.collectors.common.device_rows import add_device_row, read_device_rows
from gramwatt.collectors.devices.port import SourceAbsent, SourceError
from gramwatt.collectors.sources.nvml import Nvml
from gramwatt.collectors.sources.synthetic import SyntheticNvml
from gramwatt.sci.catalog.catalog import load_catalog
from tests.collectors.virtual_clock import VirtualClock

FAKE = Path(__file__).parent / "fake"
A100, H100 = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"
# 120 s: idle 12 s, idle with a process 12 s, then fp32, tf32, fp16, bf16 and copies, 19.2 s each.
POWERS = [(12, 50), (12, 80), (19.2, 300), (19.2, 350), (19.2, 380), (19.2, 390), (19.2, 250)]
PIECES = [(span, watts, watts) for span, watts in POWERS]
WAVE = {"type": "pieces", "pieces": PIECES, "phase_s": -1000.0}


def nvml(clock, name=A100, **more):
    gpu = {"name": name, "uuid": "GPU-1", "waveform": WAVE, "limit_w": 400, **more}
    return Nvml(SyntheticNvml({"gpus": [gpu]}, clock))


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def torch(monkeypatch, clock):
    """The fake on the path, waiting by the virtual clock."""
    monkeypatch.syspath_prepend(str(FAKE))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    module = importlib.import_module("torch")
    monkeypatch.setattr(module, "sleep", clock.sleep)
    yield module
    sys.modules.pop("torch", None)


def test_rates_and_powers_are_those_of_the_device(torch, clock, tmp_path):
    row, failures = calibrate(nvml(clock), Config(home=tmp_path), clock, None, 120.0)
    assert failures == ()
    assert (row.hardware, row.device_id, row.power_limit_w) == ("nvidia-a100-sxm4-80", "GPU-1", 400)
    assert row.idle_power.value == pytest.approx(50, rel=0.01)
    assert row.held_power.value == pytest.approx(80, rel=0.01)
    assert {(one.work, one.precision): one.rate.unit for one in row.loads} == {
        ("matmul", "fp32"): "Tflop/s",
        ("matmul", "tf32"): "Tflop/s",
        ("matmul", "fp16"): "Tflop/s",
        ("matmul", "bf16"): "Tflop/s",
        ("copy", None): "GB/s",
    }
    rates = [one.rate.value for one in row.loads]
    assert rates == pytest.approx([20, 50, 100, 110, 1000], rel=1e-6)
    powers = [one.power.value for one in row.loads]
    assert powers == pytest.approx([300, 350, 380, 390, 250], rel=0.01)
    assert {one.power.kind for one in row.loads} == {"measured"}
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-1"
    shown = "\n".join(lines(row))
    assert "matmul bf16" in shown
    assert "read by nvml-synthetic: the powers are not of this hardware" in shown
    assert "idle with a process" in shown


def test_without_a_counter_power_is_sampled_and_says_so(torch, clock, tmp_path):
    port = nvml(clock, counter=False)
    row, _ = calibrate(port, Config(home=tmp_path), clock, None, 120.0)
    assert {one.power.kind for one in row.loads} == {"integrated"}
    assert row.load("matmul", "fp16").power.value == pytest.approx(380, rel=0.01)
    assert row.load("matmul", "fp16").power.high == pytest.approx(380 * 1.15, rel=0.01)


def test_unreadable_power_is_not_known_and_never_0(torch, clock, tmp_path):
    faults = [{"type": "unsupported", "call": call} for call in ("fields", "energy", "power")]
    row, _ = calibrate(nvml(clock, faults=faults), Config(home=tmp_path), clock, None, 120.0)
    assert (row.idle_power, row.loads[0].power) == (None, None)
    assert row.to_doc()["loads"][0]["power"] is None
    assert "power not known" in "\n".join(lines(row))


def test_work_that_the_build_lacks_is_named_and_the_rest_is_measured(torch, clock, tmp_path):
    torch.broken = "bfloat16"
    row, failures = calibrate(nvml(clock), Config(home=tmp_path), clock, None, 120.0)
    assert failures == ("matmul bf16 was not measured: no kernel for bfloat16",)
    assert len(row.loads) == 4


def test_refusals_say_what_to_do(torch, clock, tmp_path, monkeypatch):
    def refused(port, device=None, error=SourceError):
        with pytest.raises(error) as caught:
            calibrate(port, Config(home=tmp_path), clock, device, 120.0)
        return str(caught.value)

    used = nvml(clock, processes=[{"pid": 4711}])
    assert refused(used) == "GPU 0 is in use by process 4711: stop it, then run again"
    assert "MIG" in refused(nvml(clock, slices=[["MIG-1", 0.5]]))
    assert "lists no GPU" in refused(Nvml(SyntheticNvml({"gpus": []}, clock)))
    monkeypatch.setattr(torch, "usable", False)
    assert "has no CUDA" in refused(nvml(clock), error=SourceAbsent)


def test_rows_come_back_from_the_file_and_bad_lines_are_named(torch, clock, tmp_path):
    row, _ = calibrate(nvml(clock), Config(home=tmp_path), clock, None, 120.0)
    path = add_device_row(tmp_path / "home", row)
    assert path.stat().st_mode & 0o777 == 0o600
    with path.open("a") as stream:
        stream.write('not json\n{"version": 2}\n{"version": 1}\n\n')
    catalog = load_catalog()
    found, problems = read_device_rows(tmp_path / "home", catalog, synthetic=True)
    assert found == [row]
    assert [text.split(" is ignored")[0][-6:] for text in problems] == [
        "line 2",
        "line 3",
        "line 4",
    ]
    assert read_device_rows(tmp_path / "home", catalog)[0] == []  # a synthetic meter's
    assert read_device_rows(tmp_path / "elsewhere", catalog) == ([], [])


VIRTUAL = """
import time, torch
from gramwatt.__main__ import main
from gramwatt.collectors.cli import calibrate
from tests.collectors.virtual_clock import VirtualClock
clock = VirtualClock(wall_s=time.time())
torch.sleep, calibrate.SystemClock = clock.sleep, lambda: clock
main()
"""
"""The command by a clock that no other work on the machine delays."""


def gramwatt(*args, home, **environ):
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GRAMWATT_")}
    clean.pop("CUDA_VISIBLE_DEVICES", None)
    env = {**clean, "GRAMWATT_HOME": str(home), **environ}
    start = ("-c", VIRTUAL) if "PYTHONPATH" in environ else ("-m", "gramwatt")
    line = [sys.executable, *start, *args]
    return subprocess.run(line, env=env, capture_output=True, text=True, timeout=120)


def test_two_devices_through_the_command_then_suggest_puts_their_rows_first(tmp_path):
    """Both devices have the fake's rates, so the same work takes equally long on both; power at
    bf16 is 300 W against 600 W, so that the target takes twice the energy of the boards."""
    home, spec = tmp_path / "home", tmp_path / "nvml.json"
    environ = {"PYTHONPATH": str(FAKE), "GRAMWATT_NVML": f"synthetic:{spec}"}
    for name, watts in ((A100, 300), (H100, 600)):
        wave = {"type": "constant", "power_w": watts}
        spec.write_text(json.dumps({"gpus": [{"name": name, "waveform": wave}]}))
        done = gramwatt("calibrate", "--seconds", "5", "--json", home=home, **environ)
        assert done.returncode == 0, done.stderr
        row = json.loads(done.stdout)
        power = row["loads"][0]["power"]
        assert power["low"] <= watts <= power["high"]
    assert f"stored in {home}" in done.stderr
    asked = ("--hardware", "a100-sxm4-80", "--kind", "training", "--precision", "bf16")
    place = ("--zone", "DE", "--hours", "10", "--candidate", "h100-sxm5-80", "--json")
    said = gramwatt("suggest", *asked, *place, home=home, **environ)
    [answer] = [
        one
        for one in json.loads(said.stdout)["suggestions"]
        if one["target"] == "nvidia-h100-sxm5-80"
    ]
    assert answer["basis"] == "calibrated"
    day = row["measured_at"][:10]
    assert f"micro-benchmark of nvidia-h100-sxm5-80 measured here on {day}" in answer["sources"][1]
    time = answer["time_ratio"]
    assert time["low"] < 1 < time["high"]
    assert time["value"] == pytest.approx(1, rel=1e-6)
    assert answer["energy_ratio"]["value"] > 1.3  # with the hosts, which do not draw twice as much


def test_the_command_refuses_clearly(tmp_path):
    spec = tmp_path / "nvml.json"
    spec.write_text(json.dumps({"gpus": [{"name": A100, "waveform": WAVE}]}))
    synthetic = f"synthetic:{spec}"
    home = tmp_path / "home"
    absent = tmp_path / "absent.json"
    absent.write_text(json.dumps({"gpus": [], "absent": "no driver"}))
    bare = gramwatt("calibrate", home=home, GRAMWATT_NVML=f"synthetic:{absent}")
    assert (bare.returncode, bare.stdout) == (1, "")
    assert "no NVIDIA GPU can be read, and only those are: no driver; see `gram" in bare.stderr
    no_torch = gramwatt("calibrate", home=home, GRAMWATT_NVML=synthetic)
    if importlib.util.find_spec("torch") is None:
        assert no_torch.returncode == 1
        assert "PyTorch, which does the work, is not installed: install it" in no_torch.stderr
    assert gramwatt("calibrate", "--seconds", "1", home=home).returncode == 2
    wrong = gramwatt("calibrate", "--device", "7", home=home, GRAMWATT_NVML=synthetic)
    assert wrong.returncode == 2
    assert "--device 7: no such GPU; there are: 0 (GPU-" in wrong.stderr
    assert not home.exists()
