"""The test kit is held to the same standard as what it tests."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gramwatt.collectors.devices.board import DeviceLost, NotSupported
from gramwatt.collectors.settings.clock import NS_PER_S
from tests.collectors.doubles.record import header, record
from tests.collectors.doubles.replay import ReplayNvml
from tests.collectors.doubles.synthetic import SyntheticNvml
from tests.collectors.doubles.waveforms import waveform
from tests.collectors.rig import Rig, energy_j, gpu
from tests.collectors.virtual_clock import VirtualClock

WAVES: list[dict[str, Any]] = [
    {"type": "constant", "power_w": 300},
    {"type": "square", "low_w": 100, "high_w": 700, "period_s": 0.97, "duty": 0.7, "phase_s": 0.2},
    {"type": "sine", "mean_w": 400, "amplitude_w": 300, "period_s": 3.3, "phase_s": 1.0},
    {"type": "ramp", "low_w": 50, "high_w": 700, "period_s": 7.1},
    {"type": "steps", "low_w": 80, "high_w": 700, "step_s": 0.21, "seed": 3, "count": 10},
    {"type": "pieces", "pieces": [[0.3, 100, 700], [0.5, 700, 650], [0.1, 90, 90]], "phase_s": 0.4},
]


@pytest.mark.parametrize("spec", WAVES, ids=lambda spec: spec["type"])
def test_the_integral_is_that_of_the_power(spec):
    wave = waveform(spec)
    start_s, end_s, parts = 3.21, 9.87, 200_000
    step_s = (end_s - start_s) / parts
    summed_j = math.fsum(wave.power_w(start_s + (i + 0.5) * step_s) for i in range(parts)) * step_s
    assert wave.energy_j(end_s) - wave.energy_j(start_s) == pytest.approx(summed_j, rel=5e-5)
    assert wave.energy_j(0) == pytest.approx(0, abs=1e-9)


def test_faults_hold_while_they_last_and_only_for_their_call():
    clock = VirtualClock(boot_s=0)
    faults = [
        {"type": "unsupported", "call": "power", "at_s": 1, "until_s": 2},
        {"type": "lost", "at_s": 3},
    ]
    nvml = SyntheticNvml({"gpus": [gpu(faults=faults)]}, clock)
    assert nvml.ask("power_mw", 0) == 250_000
    clock.sleep(1.5)
    with pytest.raises(NotSupported):
        nvml.ask("power_mw", 0)
    assert nvml.ask("energy_mj", 0) == 375_000
    clock.sleep(1)
    assert nvml.ask("power_mw", 0) == 250_000
    clock.sleep(1)
    with pytest.raises(DeviceLost):
        nvml.ask("energy_mj", 0)


def test_a_trace_measures_as_its_source_did(tmp_path):
    rig = Rig(tmp_path, gpu({"type": "square", "low_w": 100, "high_w": 600, "period_s": 3.0}))
    recorder = record(rig.nvml, rig.clock, duration_s=60, rate_hz=50)
    trace = header(rig.nvml, recorder.calls)
    player = Rig(tmp_path / "replay")
    player.nvml = ReplayNvml(trace, recorder.calls, player.clock)  # type: ignore[assignment]
    meter = player.job(60)
    devices = [d for d in player.merged().devices if d.record.device_class == "gpu"]
    span_s = sum((i.end - i.start).total_seconds() for i in devices[0].intervals)
    assert span_s == pytest.approx(60)
    first = recorder.calls[0].mono_ns / NS_PER_S
    truth_j = rig.nvml.gpus[0].truth_j(first, first + 60)
    assert energy_j(devices[0].intervals) == pytest.approx(truth_j, rel=0.005)
    assert any(text.startswith("meter-synthetic: ") for text in meter.notices)


def test_a_part_time_sensor_tells_the_last_quarter_of_the_last_period():
    clock = VirtualClock(boot_s=1000.0)
    # 40 ms busy, 60 ms idle: the last quarter of each 100 ms is idle, and never seen busy
    square = {"type": "square", "low_w": 100, "high_w": 700, "period_s": 0.1, "duty": 0.4}
    nvml = SyntheticNvml({"gpus": [gpu(square, power="part"), gpu(square, power="mean")]}, clock)
    clock.sleep(0.02)
    assert nvml.ask("power_mw", 0) == pytest.approx(100_000)
    assert nvml.ask("power_mw", 1) == pytest.approx(340_000)
