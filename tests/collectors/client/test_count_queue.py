"""Counts that a meter was told and has not saved: none is lost with it, none counts twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gramwatt.collectors.client.count_queue import KEYS_MAX, LINES_MAX, Unsaved
from gramwatt.collectors.journal.spool import close_dead
from gramwatt.collectors.meter.node_meter import NodeMeter
from gramwatt.sci.journal.records import CountRecord
from tests.collectors.rig import Rig, by_type


class Wire:
    """A channel that takes so many lines; `told` says which."""

    def __init__(self, room: int) -> None:
        self.room, self.told = room, list[bytes]()

    def __call__(self, line: bytes) -> bool:
        if len(self.told) >= self.room:
            return False
        self.told.append(line)
        return True

    def amounts(self) -> dict[int, tuple[float, str | None]]:
        lines = [json.loads(line) for line in self.told]
        return {line["n"]: (line["amount"], line["phase"]) for line in lines}


def test_amounts_become_numbered_lines_and_stay_until_they_are_saved() -> None:
    wire, unsaved = Wire(100), Unsaved()
    for phase in ("a", "b", "a"):
        unsaved.add("image", 2, phase)
    assert unsaved.send(wire, fresh=True)
    unsaved.add("image", 7, None)
    assert unsaved.send(wire, fresh=True)
    assert wire.amounts() == {1: (4, "a"), 2: (2, "b"), 3: (7, None)}
    assert not unsaved.unsent
    unsaved.saved(1)
    unsaved.again()
    assert unsaved.unsent
    second = Wire(100)
    unsaved.send(second, fresh=False)
    assert second.told == wire.told[1:]


def test_a_line_the_channel_has_no_room_for_goes_out_later_as_it_was() -> None:
    wire, unsaved = Wire(1), Unsaved()
    unsaved.add("image", 1, "a")
    unsaved.add("image", 2, "b")
    unsaved.send(wire, fresh=True)
    unsaved.add("image", 4, "b")
    unsaved.send(wire, fresh=True)  # the line of 2 is in its way
    wire.room = 2
    unsaved.send(wire, fresh=True)
    wire.room = 3
    unsaved.send(wire, fresh=True)
    assert wire.amounts() == {1: (1, "a"), 2: (2, "b"), 3: (4, "b")}


def test_a_meter_that_saves_nothing_gets_so_many_lines_and_the_rest_at_the_end() -> None:
    wire, unsaved = Wire(10 * LINES_MAX), Unsaved()
    for _ in range(3 * LINES_MAX):
        unsaved.add("image", 1, None)
        unsaved.send(wire, fresh=True)
    assert len(wire.told) == LINES_MAX
    unsaved.send(wire, fresh=True, last=True)
    assert len(wire.told) == LINES_MAX + 1
    assert sum(amount for amount, _ in wire.amounts().values()) == 3 * LINES_MAX


def test_memory_is_bounded_and_keeps_every_amount() -> None:
    deaf, unsaved = Wire(0), Unsaved()
    for number in range(20 * KEYS_MAX):
        unsaved.add("image", 1, f"epoch-{number}")
        unsaved.send(deaf, fresh=True)
    assert len(unsaved._lines) + len(unsaved._amounts) <= LINES_MAX + KEYS_MAX
    wire = Wire(10**6)
    unsaved.send(wire, fresh=True, last=True)
    assert sum(amount for amount, _ in wire.amounts().values()) == 20 * KEYS_MAX


def tell(meter: NodeMeter, number: int, amount: float) -> None:
    meter.handle({"cmd": "count", "unit": None, "amount": amount, "n": number})


def counted(rig: Rig) -> float:
    return sum(c.amount for c in by_type(rig.records(), CountRecord))


def test_what_is_sent_again_counts_once_though_the_answer_was_lost(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    first = rig.start()
    tell(first, 1, 4)
    rig.run(21, first)
    tell(first, 2, 8)
    assert first.counts.saved == 1
    rig.kill(first)
    second = rig.start(restart=1)
    for number, amount in ((1, 4), (2, 8), (3, 16)):  # the answer did not arrive
        tell(second, number, amount)
    rig.kill(second)  # before it has saved any
    third = rig.start(restart=2)
    for number, amount in ((2, 8), (3, 16)):
        tell(third, number, amount)
    rig.stop(third)
    assert counted(rig) == 28


def test_a_recovery_in_between_changes_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    first = rig.start()
    rig.run(400, first)  # one-minute intervals now: the count is in the open file only
    tell(first, 1, 4)
    rig.run(10.5, first)
    tell(first, 2, 8)
    rig.run(10.5, first)
    rig.kill(first)
    assert close_dead(rig.folder())
    second = rig.start(restart=1)
    for number, amount in ((1, 4), (2, 8), (3, 16)):
        tell(second, number, amount)
    rig.stop(second)
    assert counted(rig) == 28


def test_counts_that_the_disk_took_late_are_saved_together_with_newer_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path)
    meter = rig.start()
    rig.run(400, meter)
    tell(meter, 1, 4)
    with monkeypatch.context() as patch:
        patch.setattr(meter.journal, "_append", full)
        rig.run(10.5, meter)
    assert meter.counts.saved == 0
    tell(meter, 2, 8)  # not due for a minute
    rig.run(10.5, meter)
    assert meter.counts.saved == 2
    rig.kill(meter)
    rig.stop(rig.start(restart=1))
    assert counted(rig) == 12


def test_a_meter_without_a_line_on_disk_has_saved_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path)
    monkeypatch.setattr("gramwatt.collectors.journal.writer.Journal._append", full)
    first = rig.start()
    tell(first, 1, 4)
    rig.run(30, first)
    assert first.counts.saved == 0
    rig.kill(first)
    monkeypatch.undo()
    second = rig.start(restart=1)
    tell(second, 1, 4)
    rig.stop(second)
    assert counted(rig) == 4


def test_a_meter_that_ended_had_everything_though_its_state_is_older(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path)
    first = rig.start()
    tell(first, 1, 4)
    rig.run(21, first)
    tell(first, 2, 8)
    with monkeypatch.context() as patch:
        patch.setattr(first.journal, "write_open", lambda *_: False)
        rig.stop(first)
    second = rig.start(restart=1)  # its client has not heard that it closed
    tell(second, 2, 8)
    rig.stop(second)
    assert counted(rig) == 12


def test_another_client_of_the_process_begins_at_one_again(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    first = rig.start()
    tell(first, 1, 4)
    rig.run(21, first)
    rig.stop(first)
    rig.now()
    second = rig.start()
    tell(second, 1, 8)
    rig.kill(second)
    third = rig.start(restart=1)
    tell(third, 1, 8)
    rig.stop(third)
    assert counted(rig) == 12


def full(*_: Any) -> None:
    raise OSError("no space")
