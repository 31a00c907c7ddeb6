"""The counter against the power sensor: said when they differ, and never by chance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gramwatt.collectors.devices.counter import CrossCheck
from gramwatt.collectors.settings.clock import NS_PER_S
from tests.collectors.meter.test_job_meter import WAVES
from tests.collectors.rig import Rig, energy_j, gpu

ALIASED = {"type": "square", "low_w": 100, "high_w": 400, "period_s": 1.0, "duty": 0.7}
RARE = {"type": "square", "low_w": 60, "high_w": 700, "period_s": 30.0, "duty": 0.05}
SENSORS = ("mean", "instant")


def findings(home: Path, duration_s: float, **board: Any) -> list[str]:
    rig = Rig(home, gpu(**board))
    rig.job(duration_s)
    return rig.notices("meter-cross-check: ")


@pytest.mark.parametrize("sensor", SENSORS)
@pytest.mark.parametrize("gain", [0.5, 2.0])
def test_a_counter_that_counts_half_or_double_is_told_once(tmp_path, gain, sensor):
    wave = {"type": "square", "low_w": 100, "high_w": 500, "period_s": 2.0}
    found = findings(tmp_path, 1500, waveform=wave, power=sensor, counter_gain=gain)
    assert len(found) == 1
    counter_w, power_w = 300 * gain, 300
    told = [float(word) for word in found[0].replace(",", "").split() if word.isdigit()]
    assert told[-2:] == [pytest.approx(counter_w, rel=0.05), pytest.approx(power_w, rel=0.15)]
    assert found[0].endswith("the counter is used.")


@pytest.mark.parametrize("gain", [0.01, 0.3, 2.9])
def test_a_counter_that_is_another_quantity_is_no_longer_used(tmp_path, gain):
    """amdsmi #38: a hundredth of the power."""
    rig = Rig(tmp_path, gpu(power="mean", counter_gain=gain))
    rig.job(1000)
    is_used = gain > 1 / 3
    counted_s = 1000 if is_used else 64
    expected_j = 250 * (gain * counted_s + 1000 - counted_s)
    assert energy_j(rig.gpu_intervals()) == pytest.approx(expected_j, rel=0.02)
    assert {i.kind for i in rig.gpu_intervals()} >= {"measured" if is_used else "integrated"}
    (text,) = rig.notices("meter-cross-check: ")
    assert text.endswith("the counter is used." if is_used else "power is integrated from here on.")


def test_the_power_of_a_gpu_says_nothing_of_the_counter_of_its_module(tmp_path):
    rig = Rig(tmp_path, gpu(name="NVIDIA GH200 480GB", counter_gain=4.0, fields=False))
    rig.job(1000)
    assert energy_j(rig.gpu_intervals(), "measured") == pytest.approx(1000 * 1000, rel=1e-3)
    assert rig.notices("meter-cross-check: ") == []


def test_means_over_the_second_tell_within_minutes_and_a_tenth_is_no_difference(tmp_path):
    steady = {"type": "constant", "power_w": 500}
    assert findings(tmp_path / "a", 90, waveform=steady, power="mean", counter_gain=0.7)
    assert not findings(tmp_path / "b", 600, waveform=steady, power="mean", counter_gain=0.92)
    assert not findings(tmp_path / "c", 40, waveform=steady, power="mean", counter_gain=0.7)


@pytest.mark.parametrize("sensor", SENSORS)
@pytest.mark.parametrize("wave", [*WAVES, ALIASED, RARE], ids=str)
def test_no_wave_is_taken_for_a_difference(tmp_path, wave, sensor):
    assert not findings(tmp_path, 900, waveform=wave, power=sensor)


@pytest.mark.parametrize("sensor", SENSORS)
@pytest.mark.parametrize(
    "fault",
    [
        {"type": "reset", "at_s": 100},
        {"type": "lost", "at_s": 200, "until_s": 320},
        {"type": "spike", "at_s": 200, "until_s": 203, "joules": 20e6},
        {"type": "backward", "at_s": 200, "joules": 1e5},
        {"type": "frozen", "at_s": 200, "until_s": 260},
    ],
    ids=lambda fault: fault["type"],
)
def test_what_the_meter_does_not_believe_is_not_compared(tmp_path, fault, sensor):
    steady = {"type": "constant", "power_w": 500}
    assert not findings(tmp_path, 700, waveform=steady, power=sensor, faults=[fault])


def test_looking_costs_one_call_in_two_seconds_and_none_where_means_are_offered(tmp_path):
    calls = {}
    for sensor in SENSORS:
        rig = Rig(tmp_path / sensor, gpu(power=sensor))
        meter = rig.start()
        rig.run(100, meter)
        before = rig.nvml.calls
        rig.run(1000, meter)
        calls[sensor] = (rig.nvml.calls - before) / 1000
        rig.stop(meter)
        assert energy_j(rig.gpu_intervals()) == pytest.approx(250 * 1100, rel=1e-3)
    assert calls["instant"] - calls["mean"] == pytest.approx(0.5, abs=0.05)
    # A reading each second, use and memory each 5 s, heat, encoder and clocks each 10 s, and the
    # limit each 60 s.
    assert calls["mean"] == pytest.approx(1 + 2 / 5 + 3 / 10 + 1 / 60, abs=0.05)


@pytest.mark.parametrize(("power_w", "reported"), [(1143.2, False), (1143.6, True)])
def test_at_random_moments_only_what_chance_cannot_do_is_reported(power_w, reported):
    """Maurer and Pontil (2009), theorem 4, at odds of one in a million, ln(2e6) = 14.5087.

    Of 10 000 samples of 800 W more or less: variance 800^2 x 10 000 / 9 999, so
    sqrt(2 x 640 064 x 14.5087 / 10 000) = 43.10 W; of power up to 1.5 x 30 W:
    7 x 45 x 14.5087 / (3 x 9 999) = 0.15 W. With 10 % of the counter's 1 000 W: 143.25 W.
    """
    check = CrossCheck()
    check.add_reading(0, 0.0, None, trusted=True)
    for second in range(1, 10_001):
        check.add_power(1000 * (power_w + (800 if second % 2 else -800)))
        check.add_reading(second * NS_PER_S, second * 1e6, None, trusted=True)
    assert (check.finding(30.0, final=True) is not None) == reported
