"""Named windows of a job: energy and carbon, in all and per unit counted within them.

The meter cuts its intervals at a window's boundaries, so most windows are sums of whole intervals.
Where a boundary falls inside an interval, as of a host that is read seldom, the part of it is taken
in proportion to time and is `estimated`. A window too short for the counter has no figure at all.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate

from gramwatt.sci.base import uncertainty
from gramwatt.sci.base.document import WindowDoc, doc
from gramwatt.sci.base.notices import Notice
from gramwatt.sci.base.quantity import KINDS, Kind, Quantity, total
from gramwatt.sci.base.uncertainty import Sensors
from gramwatt.sci.base.units import J_PER_KWH
from gramwatt.sci.journal.merge import MergedDevice, MergedJob
from gramwatt.sci.journal.records import WINDOW_UNIT, CountRecord, IntervalRecord, format_time
from gramwatt.sci.score.functional_unit import ScoredJob

USUAL_PERIOD_S = 0.1
"""Update period of a counter whose own is not known: the longest that is reported for NVML's."""
BOUNDARY_TOLERANCE_S = 0.02
"""Two readings of the meter's search for a boundary, 10 ms apart: nearer than this, an interval's
end is the window's own."""
WINDOWS_SHOWN = 2_000
"""As many as one writer journals at most."""
_KINDS: Mapping[str, Kind] = {kind: kind for kind in KINDS}
_RANK = {kind: rank for rank, kind in enumerate(KINDS)}


@dataclass(slots=True)
class Window:
    """One window over [start, end), with what was counted in it by unit."""

    name: str
    start: datetime
    end: datetime
    counts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    writers: set[tuple[str, str]] = field(default_factory=set)

    @property
    def length_s(self) -> float:
        """Length of the window [s]."""
        return (self.end - self.start).total_seconds()


def windows(scored: ScoredJob) -> list[WindowDoc]:
    """Return every window in order of its start, with energy [J] where it is known."""
    found = grouped(scored.job.windows)
    if not found:
        return []
    devices = [_Readings(device) for device in scored.job.devices]
    least_s = resolution_s(scored.job)
    rows: list[WindowDoc] = []
    for window in found[:WINDOWS_SHOWN]:
        short = window.length_s < least_s
        energy = None if short or not scored.complete else _energy_j(window, devices)
        terms = _terms_g(window, devices, scored) if energy else (None, None, None)
        operational, embodied, carbon = map(doc, terms)
        counts = dict(sorted(window.counts.items()))
        rows.append(
            {
                "name": window.name,
                "start": format_time(window.start),
                "end": format_time(window.end),
                "energy_j": doc(energy),
                "energy_kwh": doc(energy.scaled(1 / J_PER_KWH, "kWh")) if energy else None,
                "operational_g": operational,
                "embodied_g": embodied,
                "total_g": carbon,
                "below_resolution": short,
                "counts": counts,
                "energy_j_per_unit": {
                    unit: energy.scaled(1 / amount, f"J/{unit}").to_doc() if energy else None
                    for unit, amount in counts.items()
                    if amount > 0
                },
            }
        )
    return rows


def window_notices(job: MergedJob) -> list[Notice]:
    """Return notices of windows that have no figure, or are not shown."""
    found, least_s = grouped(job.windows), resolution_s(job)
    short = sum(window.length_s < least_s for window in found)
    notices = []
    if short:
        text = f"{short} of {len(found)} windows are shorter than {least_s:.3g} s, which is twice "
        text += "the counter's period: their energy is not known."
        notices.append(Notice("below-resolution", text, "windows"))
    if len(found) > WINDOWS_SHOWN:
        text = f"Of {len(found)} windows the first {WINDOWS_SHOWN} are kept."
        notices.append(Notice("windows-left-out", text, "windows"))
    return notices


def resolution_s(job: MergedJob) -> float:
    """The shortest window with a figure [s]: twice the slowest counter's period."""
    known = [device.record.update_period_s for device in job.devices]
    return 2 * max((period for period in known if period), default=USUAL_PERIOD_S)


def grouped(lines: Iterable[CountRecord]) -> list[Window]:
    """Windows out of their journal lines, whatever their order.

    The same window of several ranks, one name and overlapping in time, is one: from the first to
    enter to the last to leave, with the counts of all.
    """
    own: dict[tuple[datetime, str, str, str, datetime], list[CountRecord]] = defaultdict(list)
    for line in lines:
        if line.since is not None:
            own[line.since, line.phase or "", line.node, line.writer, line.at].append(line)
    found: list[Window] = []
    latest: dict[str, Window] = {}
    for key in sorted(own):
        start, name, node, writer, end = key
        window = latest.get(name)
        if window is None or (node, writer) in window.writers or start >= window.end:
            window = latest[name] = Window(name, start, end)
            found.append(window)
        window.end = max(window.end, end)
        window.writers.add((node, writer))
        for line in own[key]:
            if line.unit != WINDOW_UNIT:
                window.counts[line.unit] += line.amount
    return found


class _Readings:
    """One device's intervals with running sums, so that a window costs two searches."""

    def __init__(self, device: MergedDevice) -> None:
        self.meter, self.node = device.record.meter, device.record.node
        self.sensor = Sensors(device.identity, 1.0)
        self._intervals = device.intervals
        self._starts = [interval.start for interval in device.intervals]
        self._ends = [interval.end for interval in device.intervals]
        self._sums = {
            kind: list(
                accumulate(
                    (i.energy_j if i.kind == kind else 0.0 for i in device.intervals), initial=0.0
                )
            )
            for kind in KINDS
            if any(interval.kind == kind for interval in device.intervals)
        }

    def energy_j(self, window: Window, start: datetime, end: datetime) -> dict[Kind, float]:
        """Joules by kind over [start, end) in a window; empty where the device has no interval.

        Energy is `estimated` where the window cuts an interval, not where only [start, end) does.
        """
        first, last = bisect_right(self._ends, start), bisect_left(self._starts, end)
        joules: dict[Kind, float] = defaultdict(float)
        for index in {first, last - 1} if last > first else ():
            kind, part_j = self._part(window, index, start, end)
            joules[kind] += part_j
        if last - first > 2:
            for kind, sums in self._sums.items():
                joules[kind] += sums[last - 1] - sums[first + 1]
        return joules

    def _part(
        self, window: Window, index: int, start: datetime, end: datetime
    ) -> tuple[Kind, float]:
        interval = self._intervals[index]
        kind = _KINDS[interval.kind]
        length = interval.end - interval.start
        inside = _overlap(interval, window.start, window.end)
        if (length - inside).total_seconds() > BOUNDARY_TOLERANCE_S:
            kind = max(kind, "estimated", key=_RANK.__getitem__)
        return kind, interval.energy_j * (_overlap(interval, start, end) / length)


def _overlap(interval: IntervalRecord, start: datetime, end: datetime) -> timedelta:
    return min(end, interval.end) - max(start, interval.start)


def _energy_j(window: Window, devices: Sequence[_Readings]) -> Quantity | None:
    """Energy of all devices in the window [J]; None where one has no reading in it."""
    figures = []
    for device in devices:
        joules = device.energy_j(window, window.start, window.end)
        if not joules:
            return None
        figures += [
            uncertainty.energy(j, kind, device.meter, device.sensor) for kind, j in joules.items()
        ]
    return total(figures)


def _terms_g(
    window: Window, devices: Sequence[_Readings], scored: ScoredJob
) -> tuple[Quantity | None, Quantity | None, Quantity | None]:
    """O, M and their sum in the window [gCO2e].

    O is summed over devices and points of the grid's intensity, as the job's is; M is the part of
    the job's that the window has of its time.
    """
    energy = scored.energy
    edges = energy.sites[0][0].edges
    first = max(bisect_right(edges, window.start) - 1, 0)
    last = min(bisect_left(edges, window.end), len(edges) - 1)
    sums: dict[tuple[str, Kind, int], list[float]] = {}
    for device in devices:
        site = energy.site_of.get(device.node, 0)
        for index in range(first, last):
            left, right = max(window.start, edges[index]), min(window.end, edges[index + 1])
            for kind, joules in device.energy_j(window, left, right).items():
                row = sums.setdefault((device.meter, kind, site), [0.0] * (last - first))
                row[index - first] += joules
    job = scored.job
    operational = energy.emitted_g(sums, first)
    job_s = ((job.ended_at or job.last_seen) - job.started_at).total_seconds()
    share = min(1.0, window.length_s / job_s) if job_s > 0 else 1.0
    embodied = scored.embodied_g.scaled(share) if scored.embodied_g else None
    return operational, embodied, operational + embodied if operational and embodied else None
