"""Lines that arrived more than once, and those of one identity that contradict each other.

Of several lines with one identity one counts, whatever the order of arrival. A line that grew
contradicts nothing: an open interval, or a count that was sent again with a later time and no less.
docs/journal.md, "Lines that contradict", has the rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from math import fsum, isclose

from gramwatt.sci.figures.formatting import all_digits
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.records.nodes import NAMED_AT_MOST
from gramwatt.sci.records.records import SIDE, AnyRecord, CountRecord, IntervalRecord, encode
from gramwatt.sci.records.times import joules_text

OPEN = "-open"
"""How the name of a writer ends whose intervals still grow."""
EXACT = 1e-6
"""Relative difference [1], and energy [J], that are no contradiction: journals round to 1 uJ."""


def deduplicate(records: Iterable[AnyRecord]) -> tuple[list[AnyRecord], list[Notice]]:
    """Return each line that counts once, and notices with what contradicts it."""
    counting: dict[tuple[object, ...], AnyRecord] = {}
    others: dict[tuple[object, ...], list[AnyRecord]] = defaultdict(list)
    for record in records:
        key = _identity(record)
        existing = counting.setdefault(key, record)
        if existing is record or existing == record:
            continue
        if _preference(existing) < _preference(record):
            counting[key], record = record, existing
        if record not in others[key]:
            others[key].append(record)
    pairs = [
        (record, counting[key])
        for key, left in others.items()
        for record in left
        if contradicts(record, counting[key])
    ]
    return list(counting.values()), list(_notices(pairs))


def contradicts(record: AnyRecord, other: AnyRecord) -> bool:
    """Return whether two lines of one identity cannot both be true."""
    if record == other:
        return False
    first, last = sorted((record, other), key=_preference)
    if isinstance(first, IntervalRecord) and isinstance(last, IntervalRecord):
        alike = isclose(first.energy_j, last.energy_j, rel_tol=EXACT, abs_tol=EXACT)
        if first.end != last.end:
            return first.energy_j > last.energy_j and not alike
        repeated = first.writer == last.writer and first.seq != last.seq
        return not alike or (repeated and not first.writer.endswith(OPEN))
    if isinstance(first, CountRecord) and isinstance(last, CountRecord):
        grew = first.at <= last.at and first.amount <= last.amount
        return not grew or (first.unit, first.phase) != (last.unit, last.phase)
    return True


def impossible(records: Iterable[AnyRecord]) -> list[Notice]:
    """Return a notice for each figure beside the energy that was beyond its bounds."""
    values: dict[tuple[str, str], list[object]] = defaultdict(list)
    for record in records:
        for name in SIDE & record.extra.keys() if record.extra else ():
            place = getattr(record, "device_id", record.node)
            values[place, name].append(record.extra[name])
    return [
        Notice(
            "figure-impossible",
            f"{name} of {place} cannot be {str(first)[:40]}"
            f"{f', nor {len(rest)} more' if rest else ''}; the energy counts without it.",
            None,
        )
        for (place, name), (first, *rest) in sorted(values.items())
    ]


def set_back(energy_j: float) -> Notice:
    """Return the notice of energy [J] for times that its writer had stated before."""
    text = (
        f"Lines of one writer cover a time twice, as after a clock was set back: "
        f"{joules_text(energy_j)} of the second time are left out."
    )
    return Notice("clock-set-back", text, "energy_kwh")


def _identity(record: AnyRecord) -> tuple[object, ...]:
    if isinstance(record, IntervalRecord):
        return ("interval", record.job_id, record.node, record.device_id, record.start)
    return (record.TYPE, record.job_id, record.node, record.writer, record.seq)


def _preference(record: AnyRecord) -> tuple[object, ...]:
    """Return what decides which line counts: the greatest, so that no energy or count is lost.

    The encoded text decides between equals, so that the order of arrival does not matter.
    """
    if isinstance(record, IntervalRecord):
        return (record.end, record.seq, record.energy_j, encode(record))
    if isinstance(record, CountRecord):
        return (record.at, record.amount, encode(record))
    return (encode(record),)


def _notices(pairs: Sequence[tuple[AnyRecord, AnyRecord]]) -> Iterator[Notice]:
    """Yield what is said of lines, each with the one that counts in its place."""
    intervals: dict[str, list[tuple[IntervalRecord, IntervalRecord]]] = defaultdict(list)
    repeated: list[float] = []
    rest: list[tuple[AnyRecord, AnyRecord]] = []
    for left, counted in pairs:
        if not isinstance(left, IntervalRecord) or not isinstance(counted, IntervalRecord):
            rest.append((left, counted))
        elif left.writer == counted.writer and left.seq != counted.seq:
            repeated.append(left.energy_j)
        else:
            intervals[left.device_id].append((left, counted))
    if repeated:
        yield set_back(fsum(repeated))
    for device_id, disagreeing in sorted(intervals.items()):
        left_j = fsum(left.energy_j for left, _ in disagreeing)
        counted_j = fsum({id(c): c.energy_j for _, c in disagreeing}.values())
        text = (
            f"{len(disagreeing)} interval line{'' if len(disagreeing) == 1 else 's'} of device "
            f"{device_id} came with another figure for the same time: {joules_text(left_j)} "
            f"left out, {joules_text(counted_j)} counted."
        )
        yield Notice("identity-conflict", text, "energy_kwh")
    rest.sort(key=lambda pair: [encode(record) for record in pair])
    for left, counted in rest[:NAMED_AT_MOST]:
        yield Notice("identity-conflict", _disagree(left, counted), None)
    if len(rest) > NAMED_AT_MOST:
        text = f"The same applies to {len(rest) - NAMED_AT_MOST} more lines."
        yield Notice("identity-conflict", text, None)


def _disagree(left: AnyRecord, counted: AnyRecord) -> str:
    text = f"Line {left.seq} of writer {left.writer} ({left.TYPE}) came in two versions: "
    if isinstance(left, CountRecord) and isinstance(counted, CountRecord):
        amounts = [f"{all_digits(count.amount)} {count.unit}" for count in (left, counted)]
        return f"{text}{amounts[0]} left out, {amounts[1]} counted."
    names = [
        name for name in left.__struct_fields__ if getattr(left, name) != getattr(counted, name)
    ]
    return f"{text}{', '.join(names)} differ, and one of them counts."
