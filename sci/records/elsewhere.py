"""Nothing twice: what a better reporter's job measured is taken out of a lesser one's.

A device's time counts once, whoever reports it, in the order of `records.REPORTERS`. Which spans of
a device are counted elsewhere stands in its record, put there by the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from math import fsum

import msgspec

from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.records.nodes import Span
from gramwatt.sci.records.records import Elsewhere, IntervalRecord
from gramwatt.sci.records.times import joules_text

Charged = tuple[datetime, datetime, float]
"""A span, and the part of it for which a device is charged to a job."""


def lesser_reporters(reporter: str | None, names: Sequence[str]) -> tuple[str, ...]:
    """Return the reporters after one in the order of `names`; None is the first of them."""
    return tuple(names[names.index(reporter) + 1 if reporter else 1 :])


def parts_taken(jobs: Iterable[Iterable[Elsewhere]], share: float = 1.0) -> tuple[Elsewhere, ...]:
    """Return which part of a device's energy counts elsewhere, by time.

    Each of `jobs` has spans of one better job with the part of the board that it has. What they
    leave of the board goes to the lesser job, at most its own `share` of it.
    """
    edges: list[tuple[datetime, float]] = []
    for spans in jobs:
        edges += ((at, sign * part) for s, e, part in spans for at, sign in ((s, 1), (e, -1)))
    taken_spans: list[Elsewhere] = []
    held, since = 0.0, None
    for at, change in sorted(edges):
        taken = 1.0 - min(1.0, max(0.0, 1.0 - held) / share)
        if since is not None and taken > 1e-9 and since < at:
            last = taken_spans[-1] if taken_spans else None
            if last and (last.end, last.part) == (since, taken):
                taken_spans[-1] = Elsewhere(last.start, at, taken)
            else:
                taken_spans.append(Elsewhere(since, at, taken))
        held, since = round(held + change, 12), at
    return tuple(taken_spans)


def without(
    intervals: Sequence[IntervalRecord], taken: Sequence[Elsewhere]
) -> tuple[tuple[IntervalRecord, ...], float]:
    """Return the intervals with the energy that counts here, and what counts elsewhere [J].

    An interval that is partly elsewhere is cut, in proportion to time, and so estimated.
    """
    intervals_here: list[IntervalRecord] = []
    for interval in intervals:
        intervals_here += _pieces(interval, taken)
    before_j, left_j = (sum(i.energy_j for i in of) for of in (intervals, intervals_here))
    return tuple(intervals_here), before_j - left_j


def _pieces(interval: IntervalRecord, taken: Sequence[Elsewhere]) -> Iterator[IntervalRecord]:
    start, end, power_w = interval.start, interval.end, 0.0
    inside = [span for span in taken if span.start < end and span.end > start]
    if not inside:
        yield interval
        return
    whole = len(inside) == 1 and inside[0].start <= start and inside[0].end >= end
    kind = interval.kind if whole else "estimated"
    power_w = interval.energy_j / (end - start).total_seconds()
    at = start
    for span in inside:
        first, last = max(span.start, start), min(span.end, end)
        for since, until, part in ((at, first, 0.0), (first, last, span.part)):
            if since < until:
                energy_j = power_w * (until - since).total_seconds() * (1.0 - part)
                yield msgspec.structs.replace(
                    interval, start=since, end=until, energy_j=energy_j, kind=kind
                )
        at = last
    if at < end:
        energy_j = power_w * (end - at).total_seconds()
        yield msgspec.structs.replace(interval, start=at, energy_j=energy_j, kind=kind)


def charged(reserved: Iterable[Span], taken: Sequence[Elsewhere]) -> tuple[Charged, ...]:
    """Return the reserved spans in pieces, each with the part (0 to 1] that counts here."""
    pieces: list[Charged] = []
    for start, end in reserved:
        at = start
        for span in taken:
            first, last = max(span.start, at), min(span.end, end)
            if first < last:
                pieces += [(at, first, 1.0), (first, last, 1.0 - span.part)]
                at = last
        pieces.append((at, end, 1.0))
    return tuple(piece for piece in pieces if piece[0] < piece[1] and piece[2] > 0)


def charged_s(
    pieces: Iterable[Charged], since: datetime | None = None, until: datetime | None = None
) -> float:
    """Return the length of pieces [s], each by its part: all, or those from `since` to `until`."""
    return fsum(
        part * max(0.0, (min(end, until or end) - max(start, since or start)).total_seconds())
        for start, end, part in pieces
    )


def notice(reporter: str | None, left_out: Sequence[float]) -> Notice:
    """Return the notice of energy [J] of a reporter's devices that counts in other jobs."""
    devices = f"{len(left_out)} device{'' if len(left_out) == 1 else 's'}"
    text = (
        f"{joules_text(sum(left_out))} that {reporter or 'a meter'} reported of {devices} are left "
        "out: a source that comes before it measured the same time, and it counts there."
    )
    return Notice("counted-elsewhere", text, "energy_kwh")
