"""Running totals of a client: what it sends, what it keeps, and how much memory that takes."""

from __future__ import annotations

import json
from typing import Any

from gramwatt.collectors.client.count_totals import KEYS_MAX, CountTotals


class Wire:
    """A channel that takes so many lines."""

    def __init__(self, room: int) -> None:
        self.room, self.lines = room, list[dict[str, Any]]()

    def __call__(self, line: bytes) -> bool:
        if len(self.lines) >= self.room:
            return False
        self.lines.append(json.loads(line))
        return True

    def totals(self) -> dict[tuple[str | None, str | None], float]:
        return {(line["unit"], line["phase"]): line["total"] for line in self.lines}


def test_only_totals_that_changed_are_sent_and_all_of_them_to_a_new_meter() -> None:
    wire, totals = Wire(100), CountTotals()
    for phase in ("a", "b", "a"):
        totals.add("image", 2, phase)
    assert totals.unsent
    assert totals.add_up()
    totals.send(wire)
    assert wire.totals() == {("image", "a"): 4, ("image", "b"): 2}
    assert not totals.unsent
    assert not totals.add_up()
    totals.add("image", 7, "b")
    totals.add_up()
    totals.send(wire)
    assert len(wire.lines) == 3
    totals.reset()
    new = Wire(100)
    totals.send(new)
    assert new.totals() == wire.totals() == {("image", "a"): 4, ("image", "b"): 9}


def test_a_line_the_channel_has_no_room_for_goes_out_later_with_the_newest_total() -> None:
    wire, totals = Wire(1), CountTotals()
    for unit in ("image", "token"):
        totals.add(unit, 1, None)
    totals.add_up()
    totals.send(wire)
    totals.add("token", 4, None)
    totals.add_up()
    wire.room = 10
    totals.send(wire)
    assert wire.totals() == {("image", None): 1, ("token", None): 5}
    assert len(wire.lines) == 2


def test_a_line_says_what_an_earlier_meter_had_saved() -> None:
    wire, totals = Wire(10), CountTotals()
    totals.add("image", 3, "a")
    totals.add_up()
    totals.send(wire)
    totals.saved("image", "a", 3)
    totals.add("image", 4, "a")
    totals.add_up()
    totals.send(wire)
    assert [(line["total"], line["saved"]) for line in wire.lines] == [(3, 0), (7, 3)]


def test_memory_is_bounded_and_keeps_every_amount() -> None:
    deaf, totals = Wire(0), CountTotals()
    for number in range(3 * KEYS_MAX):
        totals.add("image", 1, f"epoch-{number}")
        totals.add_up()
        totals.send(deaf)
    wire = Wire(10**6)
    totals.send(wire)
    assert len(wire.lines) == KEYS_MAX + 1
    assert sum(wire.totals().values()) == 3 * KEYS_MAX
    assert wire.totals()["image", None] == 2 * KEYS_MAX
