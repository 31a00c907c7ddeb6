"""Windows of a job as the meter reads and journals them, against the exact integral."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from gramwatt.collectors.meter.job_meter import JobMeter
from gramwatt.collectors.spool.counts import WINDOWS_MAX
from gramwatt.collectors.spool.recovery import close_dead
from gramwatt.sci.records.records import CountRecord
from tests.collectors.rig import Rig, by_type, energy_j, gpu

SQUARE = {"type": "square", "low_w": 100, "high_w": 700, "period_s": 2.0}
FAST = {"type": "square", "low_w": 100, "high_w": 700, "period_s": 0.137}
STEPS = {"type": "steps", "low_w": 80, "high_w": 700, "step_s": 0.21, "seed": 3}


class Windows:
    """A client's words for one meter."""

    def __init__(self, rig: Rig, meter: JobMeter) -> None:
        self.rig, self.meter = rig, meter

    def enter(self, name: str) -> dict[str, Any]:
        line = {"cmd": "window", "name": name, "start_ns": self.rig.clock.now_ns()}
        self.rig.send(self.meter, **line)
        return line

    def leave(self, line: dict[str, Any], *counts: tuple[str | None, float]) -> None:
        ended = {**line, "end_ns": self.rig.clock.now_ns(), "counts": list(counts)}
        self.rig.send(self.meter, **ended)


def lines(rig: Rig) -> list[CountRecord]:
    return [r for r in by_type(rig.records(), CountRecord) if r.since is not None]


def booked_j(rig: Rig, line: CountRecord, slack_s: float = 0.001) -> float:
    """The GPU's whole intervals between a window's edges [J]; none may cross them."""
    assert line.since is not None
    inside = [
        i
        for i in rig.gpu_intervals()
        if (i.start - line.since).total_seconds() >= -slack_s
        and (line.at - i.end).total_seconds() >= -slack_s
    ]
    covered_s = sum((i.end - i.start).total_seconds() for i in inside)
    assert covered_s == pytest.approx((line.at - line.since).total_seconds(), abs=slack_s)
    return energy_j(inside)


@pytest.mark.parametrize("wave", [SQUARE, FAST, STEPS], ids=["2s", "0.137s", "steps"])
@pytest.mark.parametrize("length_s", [3.3, 10.7, 61.0])
def test_intervals_end_at_a_windows_edges_and_hold_its_energy(tmp_path, wave, length_s):
    draw = Random(f"{wave}{length_s}")
    bound = {3.3: 0.04, 10.7: 0.01, 61.0: 0.002}[length_s]
    for number in range(4):
        rig = Rig(tmp_path / str(number), gpu(wave))
        meter = rig.start()
        rig.run(5 + draw.random(), meter)
        client, start_ns = Windows(rig, meter), rig.clock.now_ns()
        window = client.enter("epoch-1")
        rig.run(length_s, meter)
        end_ns = rig.clock.now_ns()
        client.leave(window, (None, 64.0), ("token", 7.0))
        rig.run(4 + draw.random(), meter)
        rig.stop(meter)
        image, token = lines(rig)
        assert (image.phase, image.unit, image.amount) == ("epoch-1", "image", 64.0)
        assert (token.unit, token.amount, token.since) == ("token", 7.0, image.since)
        assert booked_j(rig, image) == pytest.approx(rig.truth_j(start_ns, end_ns), rel=bound)


def test_windows_one_after_the_other_share_every_edge_and_lose_nothing(tmp_path):
    rig = Rig(tmp_path, gpu(STEPS), gpu())
    start_ns = rig.clock.now_ns()
    meter = rig.start()
    client = Windows(rig, meter)
    for epoch in range(12):
        window = client.enter(f"epoch-{epoch}")
        rig.run(2.37, meter)
        inner = client.enter(f"epoch-{epoch}/validation")
        rig.run(0.81, meter)
        client.leave(inner)
        client.leave(window)
    end_ns = rig.clock.now_ns()
    rig.stop(meter)
    assert energy_j(rig.gpu_intervals()) == pytest.approx(rig.truth_j(start_ns, end_ns), rel=3e-3)
    assert energy_j(rig.gpu_intervals(1)) == pytest.approx(250 * 12 * 3.18, rel=1e-6)
    found = lines(rig)
    assert len(found) == 24
    assert {line.unit for line in found} == {"window"}
    second = [line for line in found if line.phase == "epoch-5"][0]
    assert booked_j(rig, second) > 0
    assert rig.merged().counts == ()


@pytest.mark.parametrize(
    "more",
    [{"counter": False}, {"faults": [{"type": "frozen", "at_s": 5.0}]}],
    ids=["no counter", "frozen counter"],
)
def test_a_device_whose_power_is_sampled_is_cut_too(tmp_path, more):
    rig = Rig(tmp_path, gpu(**more))
    meter = rig.start()
    rig.run(30.3, meter)
    client = Windows(rig, meter)
    window = client.enter("w")
    rig.run(8.4, meter)
    client.leave(window)
    rig.run(3, meter)
    rig.stop(meter)
    (line,) = lines(rig)
    assert booked_j(rig, line, slack_s=0.02) == pytest.approx(250 * 8.4, rel=0.01)


@pytest.mark.long
def test_a_tight_loop_of_windows_keeps_the_journal_small(tmp_path):
    rig = Rig(tmp_path, gpu())
    meter = rig.start()
    client = Windows(rig, meter)
    for _ in range(WINDOWS_MAX + 500):  # what a client lets through is at most four a second
        window = client.enter("step")
        rig.run(0.25, meter)
        client.leave(window)
    rig.stop(meter)
    assert len(lines(rig)) == WINDOWS_MAX
    assert any(text.startswith("windows-left-out: ") for text in meter.notices)
    assert rig.folder().size_b() < 3e6
    assert energy_j(rig.gpu_intervals()) == pytest.approx(
        250 * 0.25 * (WINDOWS_MAX + 500), rel=1e-6
    )


def test_a_meter_that_came_in_between_knows_the_window_and_no_count_is_lost(tmp_path):
    rig = Rig(tmp_path, gpu())
    meter = rig.start()
    window = Windows(rig, meter).enter("epoch-1")
    rig.run(15, meter)
    rig.count(5, None, "epoch-1")
    rig.run(10, meter)
    rig.kill(meter)
    second = rig.start()
    rig.run(5, second)
    Windows(rig, second).leave(window, (None, 5.0))
    rig.count(3, None, "later")
    rig.run(12, second)
    rig.kill(second)  # and nobody comes back: the recovery adds what waits
    assert close_dead(rig.folder())
    (line,) = lines(rig)
    assert line.since is not None
    assert (line.amount, (line.at - line.since).total_seconds()) == (5.0, 30.0)
    assert {c.phase: c.amount for c in rig.merged().counts} == {"epoch-1": 5.0, "later": 3.0}
