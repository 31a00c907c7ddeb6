"""The meter on the recording of a real H100: its energy, its edges, its choices."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from random import Random
from statistics import fmean
from typing import Any

import pytest

from gramwatt.collectors.devices.board import NotSupported
from gramwatt.collectors.devices.counter import Point, counter_at
from gramwatt.collectors.settings.clock import NS_PER_S
from gramwatt.sci.records.records import CountRecord
from tests.collectors.doubles.replay import ReplayNvml
from tests.collectors.recorded import RecordedRig, counted_j, loads, ticks, trace
from tests.collectors.rig import by_type, energy_j


class WithoutCounter(ReplayNvml):
    """The same board, had it no energy counter."""

    def ask(self, call: str, index: int) -> Any:
        if call == "energy_mj":
            raise NotSupported("no counter")
        return super().ask(call, index)

    def fields(self, index: int, ids: tuple[int, ...]) -> tuple[int | None, ...]:
        _, *powers = super().fields(index, ids)
        return (None, *powers)


@pytest.mark.parametrize("name", ["waves", "training"])
@pytest.mark.parametrize(("length_s", "bound"), [(10.0, 0.01), (60.0, 0.002)])
def test_a_job_is_billed_what_the_counter_counted(tmp_path, name, length_s, bound):
    times, _ = ticks(name)
    draw = Random(f"{name}{length_s}")
    for number in range(4):
        rig = RecordedRig(tmp_path / str(number), name)
        rig.forward(draw.uniform(times[1], times[-1] - length_s - 2))
        start_s, end_s = rig.billed(length_s + draw.random())
        found = rig.recorded_intervals()
        assert {item.kind for item in found} == {"measured"}
        assert energy_j(found) == pytest.approx(counted_j(name, start_s, end_s), rel=bound)


def test_a_window_of_a_training_is_billed_what_the_counter_counted(tmp_path):
    rig = RecordedRig(tmp_path, "training")
    draw = Random(5)
    rig.forward(loads("training", "training")[0]["start_ns"] / NS_PER_S)
    meter = rig.start()
    truths_j = {}
    for number in range(9):
        rig.run(draw.uniform(0.2, 0.5), meter)
        start_s, name = rig.moment_s, f"epoch-{number}"
        line = {"cmd": "window", "name": name, "start_ns": rig.clock.now_ns()}
        rig.send(meter, **line)
        rig.run(draw.uniform(3, 6), meter)
        rig.send(meter, **line, end_ns=rig.clock.now_ns(), counts=[])
        truths_j[name] = counted_j("training", start_s, rig.moment_s)
    rig.run(1, meter)
    rig.stop(meter)
    windows = [r for r in by_type(rig.records(), CountRecord) if r.since is not None]
    assert [w.phase for w in windows] == list(truths_j)
    for window in windows:
        assert window.since is not None
        slack_s = 0.001
        inside = [
            item
            for item in rig.recorded_intervals()
            if (item.start - window.since).total_seconds() > -slack_s
            and (window.at - item.end).total_seconds() > -slack_s
        ]
        assert energy_j(inside) == pytest.approx(truths_j[str(window.phase)], rel=0.01)


def test_the_counter_is_nearly_linear_between_two_ticks():
    """Held against the driver's power samples, 20 ms apart: their shape within each tick."""
    calls = trace("training")[1]
    kept = [call.value for call in calls if call.call == "power_samples"]
    samples = {time_us: power_mw for value in kept for time_us, power_mw in value}
    offset_ns = calls[0].wall_ns - calls[0].mono_ns
    at_s = [(time_us * 1000 - offset_ns) / NS_PER_S for time_us in sorted(samples)]
    watts = [samples[time_us] / 1000 for time_us in sorted(samples)]
    times, joules = ticks("training")

    def shape_j(start_s: float, end_s: float) -> float:
        total, here = 0.0, start_s
        for place in range(bisect_left(at_s, start_s), bisect_left(at_s, end_s) + 1):
            until = min(at_s[place], end_s)
            total += watts[place] * (until - here)
            here = until
        return total

    draw, plain, between = Random(2), [], []
    for _ in range(3000):
        moment_s = draw.uniform(max(at_s[5], times[1]), min(at_s[-5], times[-1]))
        after = bisect_right(times, moment_s)
        before_s, after_s = times[after - 1], times[after]
        step_j = joules[after] - joules[after - 1]
        truth_j = step_j * shape_j(before_s, moment_s) / shape_j(before_s, after_s)
        points = [Point(before_s, 0.0), Point(after_s, step_j)]
        between.append(abs(counter_at(moment_s, points) - truth_j))
        plain.append(truth_j)
    assert fmean(plain) > 10
    assert fmean(between) < 0.5
    assert max(between) < 0.1 * (700 - 120) / 2  # a tick that is at the highest power for half


def test_without_its_counter_the_drivers_samples_give_the_energy(tmp_path):
    rig = RecordedRig(tmp_path, "training", WithoutCounter)
    rig.forward(loads("training", "training")[0]["start_ns"] / NS_PER_S + 1)
    start_s, end_s = rig.billed(50)
    found = rig.recorded_intervals()
    assert energy_j(found, "integrated") > 0.98 * energy_j(found)
    assert energy_j(found) == pytest.approx(counted_j("training", start_s, end_s), rel=0.01)
