"""Named windows of a job: energy and carbon, in all and per unit counted within them.

The meter cuts its intervals at a window's boundaries, so most windows are sums of whole intervals.
Where a boundary falls inside an interval, as of a host that is read seldom, the part of it is taken
in proportion to time and is `estimated`. A window too short for the counter has no figure at all.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from operator import add

import msgspec

from gramwatt.sci.figures.document import WindowDoc
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.figures.quantity import Kind, Quantity, bare, total
from gramwatt.sci.figures.units import J_PER_KWH
from gramwatt.sci.records.merge import MergedJob
from gramwatt.sci.records.records import WINDOW_UNIT, CountRecord, IntervalRecord, format_time
from gramwatt.sci.score.functional_unit import ScoredJob
from gramwatt.sci.score.operational import by_cell, reading, unread_of

USUAL_PERIOD_S = 0.1
"""Update period of a counter whose own is not known: the longest that is reported for NVML's."""
BOUNDARY_TOLERANCE_S = 0.02
"""Two readings of the meter's search for a boundary, 10 ms apart: nearer than this, an interval's
end is the window's own."""
WINDOWS_SHOWN = 2_000
"""As many as one writer journals at most."""


class Window(msgspec.Struct):
    """One window over [start, end), with what was counted in it by unit."""

    name: str
    start: datetime
    end: datetime
    counts: dict[str, float] = msgspec.field(default_factory=lambda: defaultdict(float))
    writers: set[tuple[str, str]] = msgspec.field(default_factory=set)

    @property
    def length_s(self) -> float:
        """Length of the window [s]."""
        return (self.end - self.start).total_seconds()


def windows(scored: ScoredJob) -> list[WindowDoc]:
    """Return every window in order of its start, with energy [J] where it is known."""
    least_s = resolution_s(scored.job)
    return [
        _window(window, scored, least_s) for window in grouped(scored.job.windows)[:WINDOWS_SHOWN]
    ]


def _window(window: Window, scored: ScoredJob, least_s: float) -> WindowDoc:
    short = window.length_s < least_s
    figures = None if short or not scored.complete else terms(window, scored)
    energy, operational, embodied, carbon = figures or (None, None, None, None)
    counts = dict(sorted(window.counts.items()))
    return WindowDoc(
        name=window.name,
        start=format_time(window.start),
        end=format_time(window.end),
        energy_j=bare(energy),
        energy_kwh=bare(energy.scaled(1 / J_PER_KWH, "kWh")) if energy else None,
        operational_g=bare(operational),
        embodied_g=bare(embodied),
        total_g=bare(carbon),
        below_resolution=short,
        counts=counts,
        energy_j_per_unit={
            unit: energy.scaled(1 / amount, f"J/{unit}").bare() if energy else None
            for unit, amount in counts.items()
            if amount > 0
        },
    )


def window_notices(job: MergedJob) -> list[Notice]:
    """Return notices of windows that have no figure, or are not shown."""
    shown, least_s = grouped(job.windows), resolution_s(job)
    short = sum(window.length_s < least_s for window in shown)
    notices = []
    if short:
        text = f"{short} of {len(shown)} windows are shorter than {least_s:.3g} s, which is twice "
        text += "the counter's period: their energy is not known."
        notices.append(Notice("below-resolution", text, "windows"))
    if len(shown) > WINDOWS_SHOWN:
        text = f"Of {len(shown)} windows the first {WINDOWS_SHOWN} are kept."
        notices.append(Notice("windows-left-out", text, "windows"))
    return notices


def resolution_s(job: MergedJob) -> float:
    """Return the shortest window with a figure [s]: twice the slowest counter's period."""
    periods = [device.record.update_period_s for device in job.devices]
    return 2 * max((period for period in periods if period), default=USUAL_PERIOD_S)


def grouped(lines: Iterable[CountRecord]) -> list[Window]:
    """Return windows out of their journal lines, whatever their order.

    The same window of several ranks, one name and overlapping in time, is one: from the first to
    enter to the last to leave, with the counts of all.
    """
    own: dict[tuple[datetime, str, str, str, datetime], list[CountRecord]] = defaultdict(list)
    for line in lines:
        if line.since is not None:
            own[line.since, line.phase or "", line.node, line.writer, line.at].append(line)
    result: list[Window] = []
    latest: dict[str, Window] = {}
    for key in sorted(own):
        start, name, node, writer, end = key
        window = latest.get(name)
        if window is None or (node, writer) in window.writers or start >= window.end:
            window = latest[name] = Window(name, start, end)
            result.append(window)
        window.end = max(window.end, end)
        window.writers.add((node, writer))
        for line in own[key]:
            if line.unit != WINDOW_UNIT:
                window.counts[line.unit] += line.amount
    return result


_Terms = tuple[Quantity, Quantity | None, Quantity | None, Quantity | None]


def terms(window: Window, scored: ScoredJob, *, every_device: bool = True) -> _Terms | None:
    """Return energy [J], O, M and their sum [gCO2e].

    None where a device has no reading; unless for `every_device`, where none has.

    A device of a node that was not reserved then, as before a requeue to it, has no part in it.
    O is summed over devices and points of the grid's intensity, as the job's is. Of M a window has
    the part that the job's is charged for in that time.
    """
    job, energy = scored.job, scored.energy
    edges = energy.sites[0][0].edges
    first = max(bisect_right(edges, window.start) - 1, 0)
    last = min(bisect_left(edges, window.end), len(edges) - 1)
    sums: dict[tuple[str, Kind, int], Sequence[float]] = {}
    figures = []
    for device in job.devices:
        inside = _inside(device.intervals, window)
        spans = job.reserved(device.nodes) if every_device and not inside else ()
        if any(start < window.end and end > window.start for start, end in spans):
            return None
        meter, site = device.record.meter, energy.site_of.get(device.record.node, 0)
        sensor = energy.devices[device.key].sensor
        unread = unread_of(inside, meter, device.identity)
        for kind, joules in by_cell(inside, edges[first : last + 1]).items():
            figures.append(reading(sum(joules), kind, meter, sensor, unread))
            before = sums.get((meter, kind, site))
            sums[meter, kind, site] = list(map(add, before, joules)) if before else joules
    energy_j = total(figures)
    if energy_j is None:
        return None
    operational = energy.emitted_g(sums, first)
    embodied = scored.embodied.within(window.start, window.end)
    carbon = operational + embodied if operational and embodied else None
    return energy_j, operational, embodied, carbon


def _inside(intervals: Sequence[IntervalRecord], window: Window) -> list[IntervalRecord]:
    """Return what lies within a window; an interval that it cuts is `estimated`."""
    first = bisect_right(intervals, window.start, key=lambda interval: interval.end)
    last = bisect_left(intervals, window.end, key=lambda interval: interval.start)
    inside = list(intervals[first:last])
    for number in {0, len(inside) - 1} if inside else ():
        inside[number] = _part(inside[number], window)
    return inside


def _part(interval: IntervalRecord, window: Window) -> IntervalRecord:
    start, end = max(window.start, interval.start), min(window.end, interval.end)
    inside, length = end - start, interval.end - interval.start
    outside_s = (length - inside).total_seconds()
    kind = "estimated" if outside_s > BOUNDARY_TOLERANCE_S else interval.kind
    energy_j = interval.energy_j * (inside / length)
    return msgspec.structs.replace(interval, start=start, end=end, kind=kind, energy_j=energy_j)
