"""The boards of a demonstration, and that nothing else replaces the real NVML."""

from __future__ import annotations

from typing import Any

import pytest

from gramwatt.collectors.devices.board import Place, SourceAbsent
from gramwatt.collectors.devices.nvml import Nvml, SyntheticNvml
from tests.collectors.rig import Rig, energy_j


def test_a_demonstration_measures_two_boards_of_known_power(tmp_path):
    rig = Rig(tmp_path)
    calls: Any = SyntheticNvml(rig.clock)
    rig.nvml = calls
    meter = rig.job(120)
    boards = [d for d in rig.merged().devices if d.record.device_class == "gpu"]
    assert [d.record.name for d in boards] == ["Synthetic GPU"] * 2
    for board in boards:  # 300 W in 40 of 60 s, else 100 W
        assert energy_j(board.intervals) == pytest.approx(2 * (40 * 300 + 20 * 100), rel=0.005)
        assert {interval.kind for interval in board.intervals} == {"measured"}
    assert any(text.startswith("meter-synthetic: ") for text in meter.notices)


@pytest.mark.parametrize("value", ["synthetic:/a.json", "replay:/nowhere", "other"])
def test_a_choice_that_is_not_valid_is_never_replaced_by_the_real_one(value):
    with pytest.raises(SourceAbsent, match="it takes synthetic"):
        Nvml.at(Place(environ={"GRAMWATT_NVML": value})).open()
