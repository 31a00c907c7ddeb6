"""Which devices a job has, and when they are due."""

from __future__ import annotations

from pathlib import Path

import pytest

from gramwatt.collectors.common.clock import NS_PER_S
from tests.collectors.rig import Rig, gpu


@pytest.mark.parametrize(("visible", "most"), [("0", 21), ("7", 4), ("", 4)])
def test_a_meter_wakes_once_a_second_and_less_often_without_a_gpu(
    tmp_path: Path, visible: str, most: int
) -> None:
    rig = Rig(tmp_path, gpu(power="mean"))
    meter = rig.start(environ={"CUDA_VISIBLE_DEVICES": visible})
    rig.run(30, meter)
    ticks, end_ns = 0, rig.clock.now_ns() + 20 * NS_PER_S
    while rig.clock.now_ns() < end_ns:
        meter.tick()
        ticks += 1
        rig.clock.advance_ns(max(1000, meter.due_ns() - meter.timeline.now_ns()))
    assert ticks <= most  # 20 s: readings each second, the open file each 10 s
