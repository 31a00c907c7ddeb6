"""The counter is read rarely where the driver gives means: it costs milliseconds on an H100."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gramwatt.collectors.devices.nvml import TOTAL_ENERGY_FIELD
from gramwatt.collectors.settings.clock import NS_PER_S
from tests.collectors.doubles.replay import ReplayNvml
from tests.collectors.doubles.synthetic import SyntheticNvml
from tests.collectors.recorded import RecordedRig, counted_j, loads
from tests.collectors.rig import Rig, energy_j, gpu

COST_S = 0.004
SQUARE = {"type": "square", "low_w": 100, "high_w": 700, "period_s": 7.0}


class Costly(SyntheticNvml):
    """Reading the counter takes 4 ms; power is free."""

    counted = 0

    def fields(self, index: int, ids: tuple[int, ...]) -> tuple[int | None, ...]:
        values = super().fields(index, ids)
        if TOTAL_ENERGY_FIELD in ids:
            self.counted += 1
            self._clock.sleep(COST_S)  # type: ignore[attr-defined]
        return values


class CostlyRig(Rig):
    """A machine with one such board."""

    def __init__(self, home: Path, **board: Any) -> None:
        super().__init__(home)
        spec = {"gpus": [gpu(**board)], "origin_s": self.clock.now_ns() / NS_PER_S}
        self.nvml: Costly = Costly(spec, self.clock)


class CostlyReplay(ReplayNvml):
    """The recorded H100, whose counter takes as long as it did at the median."""

    counted = 0

    def fields(self, index: int, ids: tuple[int, ...]) -> tuple[int | None, ...]:
        values = super().fields(index, ids)
        if TOTAL_ENERGY_FIELD in ids:
            self.counted += 1
            self._clock.sleep(0.0031)  # type: ignore[attr-defined]
        return values


def test_it_is_read_every_five_seconds_and_nothing_is_lost(tmp_path):
    rig = CostlyRig(tmp_path, waveform=SQUARE, power="mean")
    start_ns = rig.clock.now_ns()
    meter = rig.start()
    rig.run(30, meter)
    before = rig.nvml.counted
    rig.run(120, meter)
    assert 120 / 5 - 1 <= rig.nvml.counted - before <= 120 / 5 + 1
    end_ns = rig.clock.now_ns()
    rig.stop(meter)
    found = rig.gpu_intervals()
    assert energy_j(found) == pytest.approx(rig.truth_j(start_ns, end_ns), rel=0.002)
    assert {item.kind for item in found[2:]} == {"measured"}
    # The mean over a second reaches 700 W in every 7 s; so does what is kept of 10 s.
    assert {item.power_max_w for item in found[2:-1]} == {700.0}
    assert all(item.utilisation_mean == 1.0 for item in found[2:-1])


def test_a_recorded_training_is_billed_with_a_fifth_of_the_readings(tmp_path):
    rig = RecordedRig(tmp_path, "training", CostlyReplay)
    rig.forward(loads("training", "training")[0]["start_ns"] / NS_PER_S + 0.4)
    start_s = rig.moment_s
    meter = rig.start()
    rig.run(57, meter)
    assert rig.nvml.counted < 57 / 5 + 30  # the start reads until it has seen two ticks
    end_s = rig.moment_s
    rig.stop(meter)
    truth_j = counted_j("training", start_s, end_s)
    assert energy_j(rig.recorded_intervals()) == pytest.approx(truth_j, rel=0.002)
    assert not [text for text in meter.notices if text.startswith("meter-cross-check")]
