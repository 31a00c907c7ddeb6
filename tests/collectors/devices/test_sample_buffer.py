"""The driver's own buffer of power samples, for boards without an energy counter."""

from __future__ import annotations

import pytest

from gramwatt.collectors.devices.counter import SILENT_NS, SampleBuffer
from gramwatt.collectors.settings.clock import NS_PER_S
from gramwatt.sci.records.records import DeviceRecord
from tests.collectors.meter.test_job_meter import WAVES
from tests.collectors.rig import Rig, by_type, energy_j, gpu

BUFFER = {"period_s": 0.02, "length": 150}
S_US = 1_000_000


@pytest.mark.parametrize("wave", WAVES, ids=lambda wave: f"{wave['type']}-{wave.get('period_s')}")
def test_every_wave_is_within_2_percent_at_60_s_with_one_look_a_second(tmp_path, wave):
    rig = Rig(tmp_path, gpu(wave, counter=False, samples=BUFFER))
    truth_j = rig.measured(60)
    intervals = rig.gpu_intervals()
    assert energy_j(intervals) == pytest.approx(truth_j, rel=0.02)
    assert {i.kind for i in intervals} <= {"integrated", "estimated"}
    assert rig.nvml.calls < 60 * 4  # 10 to 15 readings a second without the buffer
    [device] = [d for d in by_type(rig.records(), DeviceRecord) if d.device_class == "gpu"]
    assert device.kind == "integrated"


def test_a_buffer_that_reaches_back_too_little_is_read_as_often_as_power(tmp_path):
    short = {"period_s": 0.02, "length": 20}
    wave = {"type": "square", "low_w": 100, "high_w": 700, "period_s": 2.0}
    rig = Rig(tmp_path, gpu(wave, counter=False, samples=short))
    truth_j = rig.measured(60)
    assert energy_j(rig.gpu_intervals()) == pytest.approx(truth_j, rel=0.01)
    assert rig.nvml.calls > 60 * 8


@pytest.mark.parametrize("late_s", [2.0, 5.0, 8.0, 15.0])
def test_what_a_late_look_has_lost_is_estimated_and_said(tmp_path, late_s):
    wave = {"type": "square", "low_w": 100, "high_w": 700, "period_s": 17.0}
    rig = Rig(tmp_path, gpu(wave, counter=False, samples=BUFFER))
    meter = rig.start()
    rig.run(31, meter)
    rig.clock.sleep(late_s)
    rig.run(30, meter)
    rig.stop(meter)
    kinds = {i.kind: 0.0 for i in rig.gpu_intervals()}
    for interval in rig.gpu_intervals()[1:]:
        kinds[interval.kind] += (interval.end - interval.start).total_seconds()
    lost_s = late_s - 3.0  # the buffer reaches 3 s back
    assert kinds.get("estimated", 0.0) == pytest.approx(max(0.0, lost_s), abs=1.1)
    said = [text for text in meter.notices if "read too late" in text]
    assert len(said) == (lost_s > 0)


class Driver:
    """A buffer in the test's hands, its clock an hour ahead."""

    def __init__(self) -> None:
        self.samples: list[tuple[int, int]] = [(3600 * S_US, 100), (3601 * S_US, 100)]

    def __call__(self, since_us: int) -> list[tuple[int, int]]:
        return [item for item in self.samples if item[0] > since_us]


def test_the_least_delayed_look_sets_the_offset():
    driver = Driver()
    buffer = SampleBuffer(driver, 10 * NS_PER_S + 15_000_000)
    driver.samples.append((3602 * S_US, 200))
    [(time_ns, _)] = buffer.drain(11 * NS_PER_S)
    assert time_ns == 11 * NS_PER_S
    driver.samples.append((3603 * S_US, 200))
    [(time_ns, _)] = buffer.drain(12 * NS_PER_S + 15_000_000)
    assert time_ns == pytest.approx(12 * NS_PER_S, abs=150_000)


def test_a_clock_set_back_is_followed_and_a_dead_buffer_is_given_up():
    driver = Driver()
    buffer = SampleBuffer(driver, 10 * NS_PER_S)
    driver.samples = [(1800 * S_US, 400)]
    assert buffer.drain(11 * NS_PER_S) == []
    assert buffer.drain(10 * NS_PER_S + SILENT_NS) == []
    driver.samples.append((1804 * S_US, 500))
    assert buffer.drain(15 * NS_PER_S) == [(11 * NS_PER_S, 400), (15 * NS_PER_S, 500)]
    driver.samples = []
    assert buffer.drain(15 * NS_PER_S + SILENT_NS) == []
    assert not buffer.silent
    assert buffer.drain(15 * NS_PER_S + 2 * SILENT_NS) == []
    assert buffer.silent
