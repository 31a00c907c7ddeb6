"""The counter is read rarely where the driver gives means: it costs milliseconds on an H100."""

from __future__ import annotations

import pytest

from gramwatt.collectors.devices.nvml import TOTAL_ENERGY_FIELD
from gramwatt.collectors.settings.clock import NS_PER_S
from tests.collectors.doubles.replay import ReplayNvml
from tests.collectors.doubles.synthetic import SyntheticNvml
from tests.collectors.recorded import RecordedRig, counted_j, loads
from tests.collectors.rig import Rig, energy_j, gpu

SQUARE = {"type": "square", "low_w": 100, "high_w": 700, "period_s": 7.0}


class _Costly:
    """Reading the counter takes a while; power is free."""

    counted, cost_s = 0, 0.004

    def fields(self, index, ids):
        if TOTAL_ENERGY_FIELD in ids:
            self.counted += 1
            self._clock.sleep(self.cost_s)
        return super().fields(index, ids)


class Costly(_Costly, SyntheticNvml):
    """A board of that kind."""


class CostlyRig(Rig):
    """A machine with such boards."""

    double = Costly


class CostlyReplay(_Costly, ReplayNvml):
    """The recorded H100, whose counter takes as long as it did at the median."""

    cost_s = 0.0031


def test_it_is_read_every_ten_seconds_and_nothing_is_lost(tmp_path):
    rig = CostlyRig(tmp_path, gpu(SQUARE, power="mean"))
    start_ns = rig.clock.now_ns()
    meter = rig.start()
    rig.run(30, meter)
    before = rig.nvml.counted
    rig.run(120, meter)
    assert 120 / 10 - 1 <= rig.nvml.counted - before <= 120 / 10 + 1
    end_ns = rig.clock.now_ns()
    rig.stop(meter)
    found = rig.gpu_intervals()
    assert energy_j(found) == pytest.approx(rig.truth_j(start_ns, end_ns), rel=0.002)
    assert {item.kind for item in found[2:]} == {"measured"}
    # The mean over a second reaches 700 W in every 7 s; so does what is kept of 10 s.
    assert {item.power_max_w for item in found[2:-1]} == {700.0}
    assert all(item.utilisation_mean == 1.0 for item in found[2:-1])


def test_a_tick_that_is_late_reads_the_counter_all_the_same(tmp_path):
    rig = CostlyRig(tmp_path, gpu(SQUARE, power="mean"))
    meter = rig.start()
    rig.run(30, meter)
    for _ in range(3):
        before = rig.nvml.counted
        past_s = meter.timeline.now_ns() / NS_PER_S % 10
        rig.clock.sleep(10 - past_s + 1.3)
        meter.tick()
        assert rig.nvml.counted > before


def test_a_recorded_training_is_billed_with_a_tenth_of_the_readings(tmp_path):
    rig = RecordedRig(tmp_path, "training", CostlyReplay)
    rig.forward(loads("training", "training")[0]["start_ns"] / NS_PER_S + 0.4)
    start_s, end_s = rig.billed(57)
    assert rig.nvml.counted < 57 / 10 + 35  # the start reads until it has seen two ticks
    truth_j = counted_j("training", start_s, end_s)
    assert energy_j(rig.recorded_intervals()) == pytest.approx(truth_j, rel=0.002)
    assert rig.notices("meter-cross-check") == []


FAULTS = {
    # A jump, and 90 s without a count: both are in doubt, and power of each second is known.
    "jump": {"type": "spike", "at_s": 44.0, "joules": 1e6},
    "standstill": {"type": "frozen", "at_s": 44.0, "until_s": 134.0},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_span_without_a_counter_is_that_of_the_means_of_its_seconds(tmp_path, fault):
    rig = CostlyRig(tmp_path, gpu(SQUARE, power="mean", faults=[FAULTS[fault]]))
    start_ns = rig.clock.now_ns()
    meter = rig.start()
    rig.run(200, meter)
    end_ns = rig.clock.now_ns()
    rig.stop(meter)
    found = rig.gpu_intervals()
    assert energy_j(found) == pytest.approx(rig.truth_j(start_ns, end_ns), rel=0.01)
    assert "integrated" in {item.kind for item in found}
    assert "estimated" not in {item.kind for item in found[1:]}


def test_a_board_that_is_lost_between_two_readings_of_its_counter_is_noticed_at_once(tmp_path):
    rig = CostlyRig(tmp_path, gpu(power="mean", faults=[{"type": "lost", "at_s": 33.5}]))
    meter = rig.start()
    rig.run(36, meter)
    assert any("was lost" in text for text in meter.notices)
