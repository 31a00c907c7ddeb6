"""Counts over the deaths of meters: every unit is journaled once, whatever is sent again."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gramwatt.collectors.journal import spool
from gramwatt.collectors.journal.recovery import close_dead
from gramwatt.collectors.meter.node_meter import NodeMeter
from gramwatt.sci.journal.records import AnyRecord, CountRecord, decode
from tests.collectors.mortal import Death
from tests.collectors.rig import Rig, by_type


def unique(records: list[AnyRecord]) -> list[CountRecord]:
    """The counts; a line that arrives twice counts once, and is the same both times."""
    found: dict[tuple[str, int], CountRecord] = {}
    for record in by_type(records, CountRecord):
        assert found.setdefault((record.writer, record.seq), record) == record
    return list(found.values())


def counted(records: list[AnyRecord]) -> float:
    return sum(record.amount for record in unique(records))


def full(*_: Any) -> None:
    raise OSError("no space")


def test_what_is_sent_again_counts_once_though_the_reply_was_lost(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    first = rig.start()
    rig.count(first, 4)
    rig.run(21, first)
    rig.count(first, 8)
    rig.kill(first)
    second = rig.start(restart=1)
    rig.count(second, 16)
    rig.kill(second)  # before it has saved any
    third = rig.start(restart=2)
    rig.send_counts(third)
    rig.stop(third)
    assert counted(rig.records()) == 28


def test_a_recovery_in_between_changes_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    first = rig.start()
    rig.run(400, first)  # one-minute intervals now: the count is in the open file only
    rig.count(first, 4)
    rig.run(10.5, first)
    rig.count(first, 8)
    rig.run(10.5, first)
    rig.kill(first)
    assert close_dead(rig.folder())
    assert counted(rig.records()) == 12
    second = rig.start(restart=1)
    rig.count(second, 16)
    rig.stop(second)
    assert counted(rig.records()) == 28


def deliver(rig: Rig) -> list[AnyRecord]:
    """What a sync does with a folder in which nobody lives: close it, send it, delete it."""
    assert close_dead(rig.folder())
    records = rig.records()
    spool.discard(rig.home, rig.folder())
    return records


def test_a_folder_that_was_delivered_and_deleted_in_between_counts_once(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    first = rig.start()
    rig.count(first, 4)
    rig.run(21, first)
    rig.confirm_counts(first)
    rig.count(first, 8)
    rig.kill(first)
    delivered = deliver(rig)
    assert counted(delivered) == 4
    second = rig.start(restart=1)
    rig.count(second, 16)
    rig.run(21, second)
    rig.kill(second)  # its reply is lost, but its folder says what it had found missing
    third = rig.start(restart=2)
    rig.count(third, 32)
    rig.run(21, third)
    rig.kill(third)
    assert close_dead(rig.folder())
    assert counted(delivered + rig.records()) == 60


@pytest.mark.parametrize("seed", range(30))
def test_random_lives_of_meters_journal_every_count_once(tmp_path: Path, seed: int) -> None:
    """Two clients, three units (one of them counted by its name and without), two windows."""
    draw, rig, delivered = Random(seed), Rig(tmp_path), list[AnyRecord]()
    meters = [rig.start(pid=100 + number) for number in range(2)]
    sent: dict[tuple[str, str | None], float] = {}
    for _ in range(40):
        number = draw.randrange(2)
        amount, unit = draw.randrange(1, 100), draw.choice([None, "image", "token", "page"])
        phase = draw.choice([None, "epoch-1"])
        key = (unit or "image", phase)
        sent[key] = sent.get(key, 0) + amount
        rig.count(meters[number], amount, unit, phase)
        rig.run(draw.choice([0, 1, 12, 70]) * draw.random(), *meters)
        if draw.random() < 0.3:
            rig.confirm_counts(meters[number])
        if draw.random() < 0.2:
            rig.kill(meters[number])
            meters[number] = restart(rig, number)
        elif draw.random() < 0.1:
            rig.run(11, *meters)
            for meter in meters:
                rig.confirm_counts(meter)
                rig.kill(meter)
            delivered += deliver(rig)
            meters = [restart(rig, number) for number in range(2)]
    for meter in meters:
        rig.send_counts(meter)
        rig.stop(meter)
    journaled: dict[tuple[str, str | None], float] = {}
    for record in unique(delivered + rig.records()):
        key = (record.unit, record.phase)
        journaled[key] = journaled.get(key, 0) + record.amount
    assert journaled == sent


def restart(rig: Rig, number: int) -> NodeMeter:
    meter = rig.start(pid=100 + number, restart=1)
    rig.send_counts(meter)
    return meter


def test_counts_that_the_disk_took_late_are_saved_together_with_newer_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path)
    meter = rig.start()
    rig.run(400, meter)
    rig.count(meter, 4)
    rig.run(10.5, meter)
    rig.count(meter, 8)  # no longer in the line of the first
    with monkeypatch.context() as patch:
        patch.setattr(meter.journal, "_append", full)
        rig.run(10.5, meter)
    assert meter.counts.saved == 0
    rig.run(10.5, meter)
    assert meter.counts.saved == 1
    rig.kill(meter)
    rig.stop(rig.start(restart=1))
    assert counted(rig.records()) == 12


def test_a_full_disk_keeps_one_line_per_unit_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path)
    meter = rig.start()
    with monkeypatch.context() as patch:
        patch.setattr(meter.journal, "_append", full)
        for _ in range(200):
            rig.count(meter, 1)
            rig.run(11, meter)
        assert sum(kind is CountRecord for kind, _ in meter.journal.pending) <= 1
    rig.stop(meter)
    assert counted(rig.records()) == 200


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_an_append_torn_by_a_kill_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    rig = Rig(tmp_path)
    meter = rig.start()
    for unit in ("image", "token", "page"):
        rig.count(meter, 5, unit)

    def torn(descriptor: int, data: bytes) -> None:
        os.write(descriptor, b"".join(data.splitlines(keepends=True)[-3:][:kept]) + b'{"v":1,"ty')
        raise Death

    monkeypatch.setattr(meter.journal, "_append", torn)
    with pytest.raises(Death):
        rig.run(11, meter)
    rig.kill(meter)
    assert close_dead(rig.folder())
    found = by_type([decode(line) for line in rig.folder().lines()], CountRecord)
    assert sorted((c.unit, c.amount) for c in found) == [("image", 5), ("page", 5), ("token", 5)]


def test_a_meter_without_a_line_on_disk_has_saved_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path)
    monkeypatch.setattr("gramwatt.collectors.journal.writer.Journal._append", full)
    first = rig.start()
    rig.count(first, 4)
    rig.run(30, first)
    assert first.counts.saved == 0
    rig.kill(first)
    monkeypatch.undo()
    second = rig.start(restart=1)
    rig.send_counts(second)
    rig.stop(second)
    assert counted(rig.records()) == 4


def test_a_meter_that_ended_had_everything_though_its_state_is_older(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path)
    first = rig.start()
    rig.count(first, 4)
    rig.run(21, first)
    rig.count(first, 8)
    with monkeypatch.context() as patch:
        patch.setattr(first.journal, "write_open", lambda *_: False)
        rig.stop(first)
    second = rig.start(restart=1)  # its client has not heard that it closed
    rig.send_counts(second)
    rig.stop(second)
    assert counted(rig.records()) == 12


def test_another_client_of_the_process_begins_at_zero(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    first = rig.start()
    rig.count(first, 4)
    rig.run(21, first)
    rig.stop(first)
    rig.now()
    second = rig.start()
    rig.count(second, 8)
    rig.kill(second)
    third = rig.start(restart=1)
    rig.send_counts(third)
    rig.stop(third)
    assert counted(rig.records()) == 12
