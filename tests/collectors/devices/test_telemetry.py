"""How a device ran: looked at now and then, kept per interval, put together over the job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gramwatt.sci.records.records import IntervalRecord, joined
from tests.collectors.rig import Rig, gpu

CAPPED, BRAKED = 0x4, 0x80


def profiles(home: Path, duration_s: float, **board: Any) -> list[IntervalRecord]:
    rig = Rig(home, gpu(**board))
    rig.job(duration_s)
    return rig.gpu_intervals()


def test_an_interval_tells_use_heat_and_what_held_the_clocks_down(tmp_path):
    board = {"memory_percent": 35, "encoder_percent": 12, "temperature_c": 71}
    found = profiles(tmp_path, 60, clock_reasons=CAPPED | BRAKED, **board)[2]
    assert found.profile == {
        "memory_busy": 0.35,
        "encoder_busy": 0.12,
        "temperature_c": 71,
        "power_capped": 1.0,
        "thermally_slowed": 0.0,
        "hardware_slowed": 1.0,
    }


def test_what_a_board_does_not_offer_is_asked_once_and_stays_out(tmp_path):
    board = {"encoder_percent": None, "temperature_c": None, "clock_reasons": None}
    rig = Rig(tmp_path, gpu(power="mean", **board))
    meter = rig.start()
    rig.run(60, meter)
    before = rig.nvml.calls
    rig.run(600, meter)
    assert (rig.nvml.calls - before) / 600 == pytest.approx(1 + 2 / 5 + 1 / 60, abs=0.02)
    rig.stop(meter)
    assert all(set(i.profile) <= {"memory_busy"} for i in rig.gpu_intervals())


def test_a_failing_call_costs_its_own_readings_only(tmp_path):
    faults = [{"type": "failing", "call": "temperature", "at_s": 0, "until_s": 100}]
    found = profiles(tmp_path, 200, faults=faults)
    early = [i for i in found if (i.end - found[0].start).total_seconds() <= 90]
    late = [i for i in found if (i.start - found[0].start).total_seconds() >= 100]
    assert not any("temperature_c" in i.profile for i in early)
    assert all(i.profile["temperature_c"] == 60 for i in late[:5])
    assert all("encoder_busy" in i.profile for i in early[1:])


def test_profiles_are_joined_by_length_and_by_their_highest():
    parts = [
        {"power_capped": 1.0, "temperature_c": 60.0},
        {"power_capped": 0.0, "temperature_c": 75.0, "encoder_busy": 0.5},
        {},
    ]
    assert joined(parts, [30.0, 10.0, 1000.0]) == {
        "power_capped": 0.75,
        "encoder_busy": 0.5,
        "temperature_c": 75.0,
    }
    assert joined([], []) == {}
