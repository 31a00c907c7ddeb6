"""The test kit is held to the same standard as what it tests."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from gramwatt.collectors.devices.board import (
    DeviceLost,
    NotSupported,
)
from gramwatt.collectors.devices.nvml import FAST_FIELDS, NvmlCalls
from gramwatt.collectors.settings.clock import NS_PER_S
from tests.collectors.doubles.record import (
    changes,
    header,
    record,
    update_period_s,
)
from tests.collectors.doubles.replay import ReplayNvml, read_trace, write_trace
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
def test_the_integral_is_that_of_the_power(spec: dict[str, Any]) -> None:
    wave = waveform(spec)
    start_s, end_s, parts = 3.21, 9.87, 200_000
    step_s = (end_s - start_s) / parts
    summed_j = math.fsum(wave.power_w(start_s + (i + 0.5) * step_s) for i in range(parts)) * step_s
    assert wave.energy_j(end_s) - wave.energy_j(start_s) == pytest.approx(summed_j, rel=5e-5)
    assert wave.energy_j(0) == pytest.approx(0, abs=1e-9)


def test_the_counter_ticks_and_the_power_does_not_wait() -> None:
    clock = VirtualClock(boot_s=1000.0)
    ramp = {"type": "ramp", "low_w": 0, "high_w": 1000, "period_s": 1000}
    nvml = SyntheticNvml({"gpus": [gpu(ramp, update_period_s=0.5)]}, clock)
    values, powers = [], []
    for _ in range(10):
        values.append(nvml.ask("energy_mj", 0))
        powers.append(nvml.ask("power_mw", 0))
        clock.sleep(0.1)
    assert len(set(values)) == 2
    assert values[0] == 500_000_000  # 1000 s of a ramp to 1000 W: half a million joules
    assert powers == [pytest.approx(100 * n) for n in range(10)]


def test_faults_hold_while_they_last_and_only_for_their_call() -> None:
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


def test_what_was_recorded_replays_as_it_was(tmp_path: Path) -> None:
    clock = VirtualClock()
    square = {"type": "square", "low_w": 100, "high_w": 600, "period_s": 3.0}
    source = SyntheticNvml({"gpus": [gpu(square), gpu(counter=False, fields=False)]}, clock)
    recorder = record(source, clock, duration_s=30, rate_hz=20)
    path = tmp_path / "trace.jsonl"
    write_trace(path, header(source, recorder.calls), recorder.calls)
    again, calls = read_trace(path)
    assert calls == recorder.calls
    assert again["gpus"][0]["update_period_s"] == pytest.approx(0.1, abs=0.005)
    assert again["gpus"][0]["uuid"] != source.ask("uuid", 0)

    played = VirtualClock()
    replay: NvmlCalls = ReplayNvml.from_file(path, played)
    played.sleep((calls[-1].mono_ns - calls[0].mono_ns) / NS_PER_S)
    ours = [c for c in calls if (c.gpu, c.call) == (0, "energy_mj")]
    assert replay.ask("energy_mj", 0) == ours[-1].value
    assert replay.fields(0, FAST_FIELDS)[0] == ours[-1].value
    assert replay.ask("memory_b", 0) == (40 * 2**30, 80 * 2**30)
    with pytest.raises(NotSupported):
        replay.ask("energy_mj", 1)


def test_a_trace_measures_as_its_source_did(tmp_path: Path) -> None:
    rig = Rig(tmp_path, gpu({"type": "square", "low_w": 100, "high_w": 600, "period_s": 3.0}))
    recorder = record(rig.nvml, rig.clock, duration_s=60, rate_hz=50)
    trace = header(rig.nvml, recorder.calls)
    player = Rig(tmp_path / "replay")
    player.nvml = ReplayNvml(trace, recorder.calls, player.clock)  # type: ignore[assignment]
    meter = player.start()
    player.run(60, meter)
    player.stop(meter)
    devices = [d for d in player.merged().devices if d.record.device_class == "gpu"]
    span_s = sum((i.end - i.start).total_seconds() for i in devices[0].intervals)
    assert span_s == pytest.approx(60)
    first = recorder.calls[0].mono_ns / NS_PER_S
    truth_j = rig.nvml.gpus[0].truth_j(first, first + 60)
    assert energy_j(devices[0].intervals) == pytest.approx(truth_j, rel=0.005)
    assert any(text.startswith("meter-synthetic: ") for text in meter.notices)


def test_a_counter_that_never_changed_has_no_period() -> None:
    assert update_period_s([]) is None


def test_another_file_is_not_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text('{"v": 1}\n')
    with pytest.raises(ValueError, match="not a trace"):
        read_trace(path)


def test_a_part_time_sensor_tells_the_last_quarter_of_the_last_period() -> None:
    clock = VirtualClock(boot_s=1000.0)
    # 40 ms busy, 60 ms idle: the last quarter of each 100 ms is idle, and never seen busy
    square = {"type": "square", "low_w": 100, "high_w": 700, "period_s": 0.1, "duty": 0.4}
    nvml = SyntheticNvml({"gpus": [gpu(square, power="part"), gpu(square, power="mean")]}, clock)
    clock.sleep(0.02)
    assert nvml.ask("power_mw", 0) == pytest.approx(100_000)
    assert nvml.ask("power_mw", 1) == pytest.approx(340_000)


def test_a_trace_of_changes_replays_the_same_at_every_call(tmp_path: Path) -> None:
    clock = VirtualClock()
    square = {"type": "square", "low_w": 100, "high_w": 600, "period_s": 3.0}
    source = SyntheticNvml({"gpus": [gpu(square)]}, clock)
    recorder = record(source, clock, duration_s=8, rate_hz=20)
    path = tmp_path / "trace.jsonl.gz"
    write_trace(path, header(source, recorder.calls), changes(recorder.calls))
    assert path.read_bytes()[:2] == b"\x1f\x8b"
    assert len(read_trace(path)[1]) < len(recorder.calls) / 10
    again = VirtualClock()
    replay = ReplayNvml.from_file(path, again)
    began_ns = recorder.calls[0].mono_ns
    for call in recorder.calls:
        again.advance_ns(call.mono_ns - began_ns - (again.now_ns() - int(1000 * 1e9)))
        if call.call == "energy_mj":
            assert replay.ask("energy_mj", 0) == call.value
