"""Named windows of a job: the energy between their edges, and per unit done within them.

The meter cuts its intervals at a window's edges, so most windows are sums of whole intervals. Where
an edge falls inside an interval, as of a host that is read seldom, the part of it is taken in
proportion to time and is `estimated`. A window too short for the counter has no figure at all.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate

from gramwatt.sci.base import uncertainty
from gramwatt.sci.base.document import WindowDoc
from gramwatt.sci.base.notices import Notice
from gramwatt.sci.base.quantity import KINDS, Kind, Quantity, total
from gramwatt.sci.journal.merge import MergedDevice, MergedJob
from gramwatt.sci.journal.records import WINDOW_UNIT, CountRecord, format_time
from gramwatt.sci.score.context import Parts, doc
from gramwatt.sci.score.functional_unit import Conversion

USUAL_PERIOD_S = 0.1
"""Update period of a counter whose own is not known: the longest that is reported for NVML's."""
EDGE_TOLERANCE_S = 0.02
"""Two readings of the meter's search for an edge, 10 ms apart: nearer than this, an interval's end
is the window's own."""
WINDOWS_SHOWN = 2_000
"""As many as one writer journals at most."""
_RANK = {kind: rank for rank, kind in enumerate(KINDS)}


@dataclass(slots=True)
class Window:
    """One window over [start, end), with what was done in it by unit."""

    name: str
    start: datetime
    end: datetime
    counts: dict[str, float] = field(default_factory=dict)
    writers: set[tuple[str, str]] = field(default_factory=set)


def windows(parts: Parts) -> list[WindowDoc]:
    """Every window of the job in order of its start, with energy [J] where it can be told."""
    found = grouped(parts.job.windows)[:WINDOWS_SHOWN]
    spans = [_Spans(device) for device in parts.job.devices]
    least_s = resolution_s(parts.job)
    return [_row(window, spans, least_s, parts) for window in found]


def window_notices(job: MergedJob) -> list[Notice]:
    """What is to be said of windows that have no figure, or are not shown."""
    found = grouped(job.windows)
    least_s = resolution_s(job)
    short = sum(_length_s(window) < least_s for window in found)
    notices = []
    if short:
        text = f"{short} of {len(found)} windows are shorter than {least_s:.3g} s, which is twice "
        text += "the counter's period: their energy cannot be told."
        notices.append(Notice("below-resolution", text, "windows"))
    if len(found) > WINDOWS_SHOWN:
        text = f"Of {len(found)} windows the first {WINDOWS_SHOWN} are kept."
        notices.append(Notice("windows-left-out", text, "windows"))
    return notices


def resolution_s(job: MergedJob) -> float:
    """The shortest window whose energy can be told [s]: twice the slowest counter's period."""
    known = [device.record.update_period_s for device in job.devices]
    return 2 * max((period for period in known if period), default=USUAL_PERIOD_S)


def grouped(lines: Iterable[CountRecord]) -> list[Window]:
    """Windows out of their journal lines, whatever their order.

    The same window of several ranks, one name and overlapping in time, is one: from the first to
    enter to the last to leave, with the counts of all.
    """
    own: dict[tuple[str, str, str, datetime, datetime], dict[str, float]] = {}
    for line in lines:
        if line.since is not None:
            key = (line.phase or "", line.node, line.writer, line.since, line.at)
            counts = own.setdefault(key, {})
            if line.unit != WINDOW_UNIT:
                counts[line.unit] = counts.get(line.unit, 0.0) + line.amount
    found: list[Window] = []
    latest: dict[str, Window] = {}
    for name, node, writer, start, end in sorted(own, key=lambda key: (key[3], *key)):
        known = latest.get(name)
        if known is None or (node, writer) in known.writers or start >= known.end:
            known = latest[name] = Window(name, start, end)
            found.append(known)
        known.end = max(known.end, end)
        known.writers.add((node, writer))
        for unit, amount in own[name, node, writer, start, end].items():
            known.counts[unit] = known.counts.get(unit, 0.0) + amount
    return found


class _Spans:
    """One device's intervals, summed up so that any window is found in a few steps."""

    def __init__(self, device: MergedDevice) -> None:
        self.meter = device.record.meter
        self._intervals = device.intervals
        self._starts = [interval.start for interval in device.intervals]
        self._ends = [interval.end for interval in device.intervals]
        self._sums: dict[str, list[float]] = {
            kind: list(
                accumulate(
                    (i.energy_j if i.kind == kind else 0.0 for i in device.intervals), initial=0.0
                )
            )
            for kind in {interval.kind for interval in device.intervals}
        }

    def energy_j(self, start: datetime, end: datetime) -> dict[Kind, float]:
        """Joules by kind over [start, end); empty where the device has no interval there."""
        first, last = bisect_right(self._ends, start), bisect_left(self._starts, end)
        joules: dict[Kind, float] = defaultdict(float)
        edges = {first, last - 1} if last > first else set()
        for index in edges:
            kind, part_j = self._part(index, start, end)
            joules[kind] += part_j
        for kind in KINDS:
            if kind in self._sums and last - first > 2:
                inner = self._sums[kind]
                joules[kind] += inner[last - 1] - inner[first + 1]
        return dict(joules)

    def _part(self, index: int, start: datetime, end: datetime) -> tuple[Kind, float]:
        interval = self._intervals[index]
        kind: Kind = next(known for known in KINDS if known == interval.kind)
        inside = min(end, interval.end) - max(start, interval.start)
        length = interval.end - interval.start
        if (length - inside).total_seconds() > EDGE_TOLERANCE_S:
            kind = max(kind, "estimated", key=_RANK.__getitem__)
        return kind, interval.energy_j * (inside / length)


def _row(window: Window, spans: Sequence[_Spans], least_s: float, parts: Parts) -> WindowDoc:
    short = _length_s(window) < least_s
    energy = None if short or not parts.complete else _energy(window, spans)
    counts = _converted(window.counts, parts.conversions)
    return {
        "name": window.name,
        "start": format_time(window.start),
        "end": format_time(window.end),
        "energy_j": doc(energy),
        "below_resolution": short,
        "counts": counts,
        "energy_j_per_unit": {
            unit: energy.scaled(1 / amount, f"J/{unit}").to_doc() if energy else None
            for unit, amount in counts.items()
            if amount > 0
        },
    }


def _energy(window: Window, spans: Sequence[_Spans]) -> Quantity | None:
    figures = []
    for device in spans:
        joules = device.energy_j(window.start, window.end)
        if not joules:
            return None  # a device without a reading in the window: its energy is unknown, not 0
        figures += [uncertainty.energy(j, kind, device.meter) for kind, j in joules.items()]
    return total(figures)


def _converted(counts: dict[str, float], conversions: Sequence[Conversion]) -> dict[str, float]:
    factors = {conversion.unit: conversion for conversion in conversions}
    found: dict[str, float] = {}
    for unit, amount in sorted(counts.items()):
        factor = factors.get(unit)
        name, value = (factor.to, amount * factor.factor) if factor else (unit, amount)
        found[name] = found.get(name, 0.0) + value
    return found


def _length_s(window: Window) -> float:
    return (window.end - window.start).total_seconds()
