"""Seeded random lives of meters: kills, restarts, suspends, clock jumps, one to three ranks.

Whatever happens, no joule and no unit is counted twice, and a kill of everything loses at most the
10 s since the open file was last replaced.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from gramwatt.collectors.meter.job_meter import JobMeter
from gramwatt.collectors.spool.recovery import close_dead
from tests.collectors.rig import Rig, energy_j, gpu

pytestmark = pytest.mark.long

SLACK_J = 80.0
"""One counter period (0.1 s x 700 W) and the rounding of edges."""
RAM_W = 64 * 0.19


class Life:
    """One job's history, drawn from a seed."""

    def __init__(self, home: Path, seed: int) -> None:
        self.draw = Random(seed)
        step_s = self.draw.choice([0.21, 1.7, 13])
        steps = {"type": "steps", "low_w": 80, "high_w": 700, "step_s": step_s, "seed": seed}
        self.rig = Rig(home, gpu(steps), gpu())
        self.rig.clock.sleep(self.draw.uniform(0, 600))
        self.start_ns = self.rig.now()
        self.counted = 0
        ranks = self.draw.choice([1, 1, 2, 3])
        self.meters: list[JobMeter] = [self._start(rank) for rank in range(ranks)]

    def live(self) -> None:
        for _ in range(self.draw.randrange(1, 12)):
            most_s = self.draw.choice([0.05, 0.3, 2, 11, 45, 200, 900])
            self.rig.run(most_s * self.draw.random(), *self.meters)
            self.rig.count(1)
            self.counted += 1
            self._incident()

    def _incident(self) -> None:
        chance = self.draw.random()
        if chance < 0.35:
            rank = self.draw.randrange(len(self.meters))
            self.rig.kill(self.meters[rank])
            self.rig.clock.sleep(self.draw.choice([0, 0.1, 5, 70]) * self.draw.random())
            self.meters[rank] = self._start(rank, restart=1)
            self.rig.run(1.2, *self.meters)
        elif chance < 0.45:
            self.rig.clock.jump_wall(self.draw.uniform(-1e5, 1e5))
        elif chance > 0.95:
            self.rig.clock.suspend(self.draw.uniform(1, 5_000))
            self.rig.run(11, *self.meters)

    def _start(self, rank: int, **more: int) -> JobMeter:
        return self.rig.start(pid=100 + rank, role="track", **more)


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_counted_twice_and_no_more_than_ten_seconds_are_lost(
    tmp_path: Path, seed: int
) -> None:
    life = Life(tmp_path, seed)
    life.live()
    rig, end_ns = life.rig, life.rig.clock.now_ns()
    everything_dies = life.draw.random() < 0.4
    for meter in life.meters:
        (rig.kill if everything_dies else rig.stop)(meter)
    assert close_dead(rig.folder())

    job = rig.merged()
    lost_ns = 10_200_000_000 if everything_dies else 0
    for place in (0, 1):
        booked_j = energy_j(rig.gpu_intervals(place))
        least_j = rig.truth_j(life.start_ns, max(life.start_ns, end_ns - lost_ns), place)
        most_j = rig.truth_j(life.start_ns, rig.clock.now_ns(), place)
        assert least_j - SLACK_J <= booked_j <= most_j + SLACK_J
    ram = next(d for d in job.devices if d.record.device_class == "ram")
    whole_j = RAM_W * (end_ns - life.start_ns) / 1e9
    assert whole_j - RAM_W * (lost_ns / 1e9 + 0.3) <= energy_j(ram.intervals) <= whole_j + 8
    assert sum(count.amount for count in job.counts) <= life.counted
    assert not any(notice.code == "overlap-removed" for notice in job.notices)
    assert job.state == ("lost" if everything_dies else "completed")
