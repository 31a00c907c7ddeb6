"""The time of a job on each of its nodes, and what becomes of lines outside it.

docs/journal.md, "Lines that contradict", has the rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from gramwatt.sci.figures.formatting import all_digits, duration
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.figures.units import J_PER_KWH
from gramwatt.sci.records.nodes import NAMED_AT_MOST, ReportedTime, Span
from gramwatt.sci.records.records import AnyRecord, CountRecord, IntervalRecord, format_time

TOLERANCE = timedelta(minutes=5)
"""How far readings may lie outside their node's time, and count: the longest ordinary interval."""


class Extent(Struct, frozen=True):
    """By node: first start and last end of its readings, and times of its first and last count."""

    read: dict[str, Span]
    counted: dict[str, Span]

    @property
    def last_seen(self) -> dict[str, datetime]:
        """Return the end of each node's last reading or count."""
        ends = {node: end for node, (_, end) in self.read.items()}
        for node, (_, at) in self.counted.items():
            ends[node] = max(at, ends.get(node, at))
        return ends


def joules_text(energy_j: float) -> str:
    """Return an amount of energy as notices name it, in J and kWh."""
    return f"{all_digits(round(energy_j, 6))} J ({energy_j / J_PER_KWH:.3g} kWh)"


def within_time(
    records: list[AnyRecord], times: Mapping[str, ReportedTime]
) -> tuple[list[AnyRecord], Extent, list[Notice]]:
    """Return the records without intervals and counts outside the job's time on their node.

    Also returns the extent of what is kept, and notices with the amount of what is not. Lines of a
    node without a job record may lie in the time of any node.
    """
    ends = [time.end for time in times.values()]
    last = None if None in ends else max(end for end in ends if end)
    whole = ReportedTime(min(time.start for time in times.values()), last)
    inside: list[AnyRecord] = []
    outside: dict[str, list[IntervalRecord | CountRecord]] = defaultdict(list)
    for record in records:
        if not isinstance(record, IntervalRecord | CountRecord) or _holds(
            times.get(record.node, whole), _span(record)
        ):
            inside.append(record)
        else:
            outside[record.node].append(record)
    nodes = sorted(outside)
    notices = [
        _notice(node, outside[node], times.get(node, whole)) for node in nodes[:NAMED_AT_MOST]
    ]
    if rest := [record for node in nodes[NAMED_AT_MOST:] for record in outside[node]]:
        text = f"The same applies to {_amounts(rest)} on more nodes."
        notices.append(Notice("records-outside", text, "energy_kwh"))
    return inside, extent_of(inside), notices


def extent_of(records: Iterable[AnyRecord]) -> Extent:
    """Return from when to when each node has readings and counts."""
    extent = Extent({}, {})
    for record in records:
        if isinstance(record, IntervalRecord):
            spans, start, end = extent.read, record.start, record.end
        elif isinstance(record, CountRecord):
            spans, start, end = extent.counted, record.at, record.at
        else:
            continue
        span = spans.get(record.node)
        if span is None:
            spans[record.node] = start, end
        elif start < span[0] or end > span[1]:
            spans[record.node] = min(start, span[0]), max(end, span[1])
    return extent


def reversed_notices(times: Mapping[str, ReportedTime]) -> list[Notice]:
    """Return a notice for each writer whose end is before its start."""
    return [
        Notice(
            "times-contradict",
            f"By writer {end.writer} the job ended on node {node} {duration(before_s)} before it "
            "began there; its last reading stands for that end.",
            "embodied_g",
        )
        for node, time in sorted(times.items())
        for end, before_s in time.reversed_ends[:NAMED_AT_MOST]
    ]


def _span(record: IntervalRecord | CountRecord) -> Span:
    if isinstance(record, IntervalRecord):
        return record.start, record.end
    return record.at, record.at


def _holds(time: ReportedTime, span: Span) -> bool:
    if span[0] < time.start - TOLERANCE:
        return False
    return time.end is None or span[1] <= time.end + TOLERANCE


def _notice(node: str, left: Sequence[IntervalRecord | CountRecord], time: ReportedTime) -> Notice:
    spans = [_span(record) for record in left]
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    end = format_time(time.end) if time.end else "now"
    text = (
        f"{_amounts(left)} on node {node}, between {format_time(first)} and {format_time(last)}, "
        f"lie outside the job's time there ({format_time(time.start)} to {end}) and are left out."
    )
    return Notice("records-outside", text, "energy_kwh")


def _amounts(left: Iterable[IntervalRecord | CountRecord]) -> str:
    """Return what lines say in all: energy, and counts by unit."""
    energy_j, intervals, counts = 0.0, 0, defaultdict[str, float](float)
    windows = 0
    for record in left:
        if isinstance(record, IntervalRecord):
            energy_j, intervals = energy_j + record.energy_j, intervals + 1
        elif record.since is None:
            counts[record.unit] += record.amount
        else:
            windows += 1
    texts = [f"{joules_text(energy_j)} in {_number(intervals, 'interval')}"] if intervals else []
    texts += [f"{all_digits(amount)} {unit}" for unit, amount in sorted(counts.items())]
    texts += [_number(windows, "line") + " of windows"] if windows else []
    return ", ".join(texts)


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
