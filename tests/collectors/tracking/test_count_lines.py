"""Count lines of a client: what it sends, what it keeps, and how much memory that takes."""

from __future__ import annotations

from typing import Any

from gramwatt.collectors.tracking.count_lines import KEYS_MAX, NS_PER_S, CountLines


class Clock:
    def __init__(self) -> None:
        self.now_ns = 1_780_000_000 * NS_PER_S

    def __call__(self) -> int:
        return self.now_ns


class Wire:
    """A channel that takes so many lines."""

    def __init__(self, room: int = 10**6) -> None:
        self.room, self.lines = room, list[dict[str, Any]]()

    def __call__(self, line: dict[str, Any]) -> bool:
        if len(self.lines) >= self.room:
            return False
        self.lines.append(dict(line))
        return True

    def amounts(self) -> dict[int, tuple[str | None, str | None, float]]:
        """What the lines came to, by number."""
        return {line["seq"]: (line["unit"], line["phase"], line["amount"]) for line in self.lines}


def sent(lines: CountLines) -> Wire:
    wire = Wire()
    lines.add_up()
    lines.send(wire)
    return wire


def test_only_lines_that_changed_are_sent_and_all_of_them_to_a_new_meter() -> None:
    lines = CountLines(Clock())
    for phase in ("a", "b", "a"):
        lines.add("image", 2, phase)
    assert lines.unsent
    assert sent(lines).amounts() == {1: ("image", "a", 4), 2: ("image", "b", 2)}
    assert not lines.unsent
    assert not lines.add_up()
    lines.add("image", 7, "b")
    assert sent(lines).amounts() == {2: ("image", "b", 9)}
    lines.resend()
    assert sent(lines).amounts() == {1: ("image", "a", 4), 2: ("image", "b", 9)}


def test_a_line_that_a_meter_may_have_saved_never_changes_after_its_death() -> None:
    lines = CountLines(Clock())
    lines.add("image", 4, None)
    sent(lines)
    lines.resend()
    lines.add("image", 8, None)
    wire = sent(lines)
    assert wire.amounts() == {1: ("image", None, 4), 2: ("image", None, 8)}
    assert [line["closed"] for line in wire.lines] == [1, 1]


def test_lines_are_closed_after_a_sixtieth_of_the_job_and_at_most_five_minutes() -> None:
    clock = Clock()
    lines, began_ns = CountLines(clock), clock.now_ns
    ends_s: list[float] = []
    for _ in range(20_000):
        clock.now_ns += 2 * NS_PER_S
        lines.add("image", 1, None)
        for line in sent(lines).lines:
            if line["amount"] == 1:
                ends_s.append((clock.now_ns - began_ns) / NS_PER_S)
        lines.saved(10**9)
    lengths_s = [later - first for first, later in zip(ends_s, ends_s[1:], strict=False)]
    assert set(lengths_s[1:20]) == {10.0}
    assert max(lengths_s) == lengths_s[-1] == 300.0
    assert len(ends_s) < 60 + 60 * 4 + 80


def test_no_line_is_called_closed_before_its_last_amount_was_sent() -> None:
    clock, wire = Clock(), Wire(2)
    lines = CountLines(clock)
    for unit in ("image", "token", "page"):
        lines.add(unit, 1, None)
    lines.add_up()
    lines.send(wire)
    clock.now_ns += 60 * NS_PER_S
    lines.add("image", 5, None)
    lines.add_up()
    wire.room = 10
    lines.send(wire)
    assert wire.amounts()[3] == ("page", None, 1)
    for place, line in enumerate(wire.lines):
        later = wire.lines[place + 1 :]
        assert all(other["seq"] > line["closed"] for other in later)


def test_what_is_saved_is_forgotten() -> None:
    clock = Clock()
    lines = CountLines(clock)
    for _ in range(3):
        lines.add("image", 3, None)
        sent(lines)
        clock.now_ns += 60 * NS_PER_S
    lines.saved(2)
    lines.resend()
    assert sent(lines).amounts() == {3: ("image", None, 3)}


def test_memory_is_bounded_and_keeps_every_amount() -> None:
    clock, deaf = Clock(), Wire(0)
    lines = CountLines(clock)
    for number in range(3 * KEYS_MAX):
        clock.now_ns += NS_PER_S
        lines.add("image", 1, f"epoch-{number}")
        lines.add_up()
        lines.send(deaf)
    amounts = sent(lines).amounts()
    assert len(amounts) <= KEYS_MAX + 1
    assert sum(amount for *_, amount in amounts.values()) == 3 * KEYS_MAX
