"""The job's edges lie between known counter ticks, whatever the counter's update period."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from gramwatt.collectors.devices.counter import Point, counter_at
from gramwatt.collectors.settings.clock import NS_PER_S
from tests.collectors.rig import Rig, energy_j, gpu

SQUARE = {"type": "square", "low_w": 100, "high_w": 700, "period_s": 2.0}


@pytest.mark.parametrize("period_s", [0.01, 0.02, 0.05, 0.1, 0.2, 0.4])
def test_any_update_period_is_found_and_both_edges_are_interpolated(tmp_path, period_s):
    draw = Random(f"{period_s}")
    for number in range(5):
        rig = Rig(tmp_path / str(number), gpu(SQUARE, update_period_s=period_s))
        rig.clock.sleep(draw.uniform(0, 10))
        rig.now()
        start_ns = rig.clock.now_ns()
        meter = rig.start()
        rig.run(10 + draw.random(), meter)
        assert meter.devices is not None
        if period_s >= 0.02:  # a faster counter ticks at every poll
            assert meter.devices.resolution_s() == pytest.approx(2 * period_s, abs=0.0202)
        end_ns = rig.clock.now_ns()
        rig.stop(meter)
        # 300 W above or below the mean for at most half a period, at each of two edges, and twice
        # 600 W for the 10 ms between two polls
        bound_j = 2 * 300 * period_s / 2 + 2 * 600 * 0.01
        truth_j = rig.truth_j(start_ns, end_ns)
        assert energy_j(rig.gpu_intervals()) == pytest.approx(truth_j, abs=bound_j)


@pytest.mark.parametrize(("period_s", "longest_s"), [(0.1, 0.16), (0.2, 0.28), (1.0, 0.52)])
def test_the_end_waits_no_longer_than_a_period_and_never_more_than_half_a_second(
    tmp_path, period_s, longest_s
):
    waits_s = []
    for number in range(8):
        rig = Rig(tmp_path / str(number), gpu(update_period_s=period_s))
        meter = rig.start()
        rig.run(6 + number * 0.123, meter)
        before_ns = rig.clock.now_ns()
        rig.stop(meter)
        waits_s.append((rig.clock.now_ns() - before_ns) / NS_PER_S)
    assert max(waits_s) <= longest_s


@pytest.mark.parametrize("fails_at_s", [0.03, 20.0])
def test_a_boundary_whose_reads_fail_ends_and_holds_no_other_device_up(tmp_path, fails_at_s):
    """The start waits at most 2.5 s and a window's edge 0.5 s, at 100 reads a second; after that
    the device is read once a second, and the profile of the other one every 5 s.
    """
    failing = {"type": "failing", "at_s": fails_at_s, "until_s": 80.0}
    rig = Rig(tmp_path, gpu(faults=[failing]), gpu())
    calls = [0, 0]
    fields = rig.nvml.fields

    def counted(index: int, *more: Any) -> Any:
        calls[index] += 1
        return fields(index, *more)

    rig.nvml.fields = counted  # type: ignore[method-assign]
    start_ns = rig.clock.now_ns()
    meter = rig.start()
    rig.run(fails_at_s, meter)
    for number in range(3):
        rig.send(meter, cmd="window", name=str(number), start_ns=rig.clock.now_ns())
    before = list(calls)
    rig.run(60, meter)
    assert calls[0] - before[0] <= 250 + 3 * 50 + 60 + 10
    assert calls[1] - before[1] >= 60
    end_ns = rig.clock.now_ns()
    rig.stop(meter)
    truth_j = rig.truth_j(start_ns, end_ns, 1)
    assert energy_j(rig.gpu_intervals(1)) == pytest.approx(truth_j, abs=250 * 0.1)


@pytest.mark.parametrize(
    ("time_ns", "counter_mj"),
    [(5, 100), (10, 100), (15, 150), (20, 200), (20.5, 200), (26, 260), (30, 300), (99, 300)],
)
def test_the_counter_is_linear_between_ticks_and_beyond_them_the_nearest_s(time_ns, counter_mj):
    ticks = [Point(10, 100), Point(20, 200), Point(20, 200), Point(21, 200), Point(31, 300)]
    if time_ns > 25:
        ticks = [Point(10, 100), Point(20, 200), Point(30, 300)]
    assert counter_at(time_ns, ticks) == counter_mj
