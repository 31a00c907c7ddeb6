"""Which devices a job has, and when they are due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from gramwatt.collectors.devices.board import Board, Visible
from gramwatt.collectors.meter.device_manager import Dependencies
from gramwatt.collectors.settings.clock import NS_PER_S
from gramwatt.sci.records.records import EndRecord
from tests.collectors.doubles.synthetic import SyntheticNvml
from tests.collectors.rig import Rig, by_type, energy_j, gpu


@pytest.mark.parametrize("visible", ["0", "7", ""])
@pytest.mark.parametrize("look_s", [0.05, 0.5, 0.925])
def test_a_meter_wakes_once_a_second_with_and_without_a_gpu(tmp_path, visible, look_s):
    rig = Rig(tmp_path, gpu(power="mean"))
    meter = rig.start(environ={"CUDA_VISIBLE_DEVICES": visible})
    rig.run(30 + look_s, meter)
    meter.wake()  # a process has written: a look between two readings
    ticks, end_ns = 0, rig.clock.now_ns() + 20 * NS_PER_S
    while rig.clock.now_ns() < end_ns:
        meter.tick()
        ticks += 1
        rig.clock.advance_ns(max(1000, meter.due_ns() - meter.timeline.now_ns()))
    assert ticks <= 24  # 20 s: readings with looks at the job's processes, and two saves


class Raises(SyntheticNvml):
    """A vendor whose library is of another version: one call raises until it is mended."""

    call = ""

    def wants_none(self, environ: Mapping[str, str]) -> bool:
        if self.call == "wants_none":
            raise KeyError("wants_none")
        return super().wants_none(environ)

    def visible(self, environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
        if self.call == "visible":
            raise KeyError("visible")
        return super().visible(environ, boards)


@pytest.mark.parametrize("call", ["wants_none", "visible"])
def test_a_port_that_raises_costs_no_other_device_and_is_tried_again(tmp_path, monkeypatch, call):
    rig = Rig(tmp_path, gpu())
    origin_s = rig.clock.now_ns() / NS_PER_S
    first = Raises({"gpus": [gpu(uuid="GPU-other")], "origin_s": origin_s}, rig.clock)
    first.call = call

    def with_ports(**given: object) -> Dependencies:
        return Dependencies(**{**given, "ports": lambda _: [first, rig.nvml]})  # type: ignore[arg-type]

    monkeypatch.setattr("tests.collectors.rig.Dependencies", with_ports)
    meter = rig.start()
    rig.run(100, meter)
    first.call = ""
    rig.run(100, meter)
    rig.stop(meter)
    found = {device.record.device_id: device for device in rig.merged().devices}
    whole_j = energy_j(found[rig.nvml.gpus[0].uuid].intervals)
    assert whole_j == pytest.approx(200 * 250, rel=0.01)
    assert {device.record.device_class for device in found.values()} == {"gpu", "cpu", "ram"}
    assert energy_j(found["GPU-other"].intervals) > 30 * 250
    (end,) = by_type(rig.records(), EndRecord)
    assert sum(call in text for text in end.notices) == 1


def test_a_device_that_raises_at_a_tick_costs_no_other(tmp_path, monkeypatch):
    rig = Rig(tmp_path, gpu(), gpu())
    meter = rig.start()
    rig.run(10, meter)
    assert meter.devices is not None
    broken = meter.devices._groups[0]

    def fail() -> None:
        raise KeyError("tick")

    monkeypatch.setattr(broken, "tick", fail)
    rig.run(100, meter)
    rig.stop(meter)
    found = {device.record.device_class: device for device in rig.merged().devices}
    length_s = sum((i.end - i.start).total_seconds() for i in found["cpu"].intervals)
    assert length_s == pytest.approx(110, abs=1)
    (end,) = by_type(rig.records(), EndRecord)
    assert sum("tick" in text for text in end.notices) == 1
