"""A service: energy and carbon per request and token, by hour and day, and what they were for.

The counters of a server say what it did between two readings; the devices' energy of that time is
divided into `idle`, and `prefill` and `decode` where the server gives times of them, else `work`.
A server's times are seconds of requests, and requests that share a batch have the same seconds of
the device each: so only the proportion of prefill and decode is taken from them, and the range of
either is what no overlap can exceed. docs/serving.md ("How energy is divided") has the reasons.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta, tzinfo
from itertools import accumulate
from operator import add

from msgspec import Struct, field

from gramwatt.sci.figures.days import by_day, day_of
from gramwatt.sci.figures.document import ServiceDoc, ServicePartDoc, ServiceRowDoc
from gramwatt.sci.figures.quantity import Quantity, bare, weakest
from gramwatt.sci.records.merge import MergedJob
from gramwatt.sci.records.records import (
    SERVICE,
    SERVICE_BUSY_S,
    SERVICE_CACHED,
    SERVICE_DECODE_S,
    SERVICE_KNOWN_S,
    SERVICE_PREFILL_S,
    IntervalRecord,
    format_time,
)
from gramwatt.sci.score.functional_unit import ScoredJob
from gramwatt.sci.score.windows import Window, terms

HOURS_SHOWN = 48
HOUR = timedelta(hours=1)
IDLE_KNOWN = 0.9
"""A time is idle if its counters are known for so much of it, and none has moved."""
IDLE_LEAST_S = 60.0
"""The least idle time in a day that gives its power without requests [s]."""
PARTS = ("prefill", "decode", "work", "idle")
IDLE_SEEN = "no counter of the server moved in that time"
IDLE_ASSUMED = "time without requests, by the server's counters"
SPLIT = "the proportion of prefill and decode in its requests' times"
UNSPLIT = "the server gives no times of prefill and decode"
DIVIDED = "service:parts"
"""The id of how energy is divided into parts, as an input."""
SEEN_LEAST = 0.9
"""An idle part is `attributed` if so much of it is of time in which no counter moved."""
Span = tuple[datetime, datetime]
Share = tuple[float, float, float]
"""A part's energy with its least and most [J]."""
Counts = dict[tuple[str, str | None], float]


class _Sums(Struct):
    """What is known of a stretch of time: energy by part [J], and what was counted by unit."""

    energy_j: float = 0.0
    known_s: float = 0.0
    idle_seen_j: float = 0.0
    parts: dict[str, Share] = field(default_factory=dict)
    counts: Counts = field(default_factory=lambda: defaultdict(float))

    def add(self, other: _Sums) -> None:
        """Add another stretch: the ends of ranges by their sums, as one assumption makes all."""
        self.energy_j += other.energy_j
        self.known_s += other.known_s
        self.idle_seen_j += other.idle_seen_j
        for name, share in other.parts.items():
            before = self.parts.get(name, (0.0, 0.0, 0.0))
            self.parts[name] = (before[0] + share[0], before[1] + share[1], before[2] + share[2])
        for key, amount in other.counts.items():
            self.counts[key] += amount


class _Piece(Struct):
    """Time between two readings of the counters, within one hour and day; its energy [J]."""

    start: datetime
    end: datetime
    counts: Counts
    energy_j: float = 0.0

    @property
    def length_s(self) -> float:
        return (self.end - self.start).total_seconds()

    @property
    def worked(self) -> bool:
        """Return whether any counter has moved."""
        return any(n for (unit, _), n in self.counts.items() if unit != SERVICE_KNOWN_S)

    @property
    def is_idle(self) -> bool:
        known_s = self.counts.get((SERVICE_KNOWN_S, None), 0.0)
        return not self.worked and known_s >= IDLE_KNOWN * self.length_s


def service(scored: ScoredJob) -> ServiceDoc | None:
    """Return how a job served, in all, by day and by hour; None for one that was no service.

    None also where the energy of a device is not known.
    """
    job, zone = scored.job, scored.context.zone
    if not job.service or not scored.complete:
        return None
    start, end = _extent(job)
    hours = list(_hour_spans(start, end, zone))
    divided = _divided_hours(job, zone, hours, _pieces(job, hours))
    days: dict[date, _Sums] = defaultdict(_Sums)
    whole = _Sums()
    for (left, _), sums in zip(hours, divided, strict=True):
        days[day_of(left, zone)].add(sums)
        whole.add(sums)
    of_day = {day_of(left, zone): (left, right) for left, right in by_day(start, end, zone)}
    shown = list(zip(hours, divided, strict=True))[-HOURS_SHOWN:]
    return ServiceDoc(
        total=_row(scored, (start, end), whole),
        days=[_row(scored, of_day[day], sums, day) for day, sums in days.items()],
        hours=[_row(scored, span, sums) for span, sums in shown],
    )


def _extent(job: MergedJob) -> Span:
    read = [device.intervals for device in job.devices]
    start = min([job.started_at, *(intervals[0].start for intervals in read)])
    return start, max([job.ended_at or job.last_seen, *(own[-1].end for own in read)])


def _hour_spans(start: datetime, end: datetime, zone: tzinfo) -> Iterator[Span]:
    """Yield the hours of UTC that a time meets, those that a midnight cuts in two."""
    for left, right in by_day(start, end, zone):
        while left < right:
            upto = min(right, left.replace(minute=0, second=0, microsecond=0) + HOUR)
            yield left, upto
            left = upto


def _pieces(job: MergedJob, hours: Sequence[Span]) -> list[list[_Piece]]:
    """Return the job's time in pieces between readings by hour, with energy and what was counted.

    What was counted over the end of an hour is divided by time.
    """
    start, end = hours[0][0], hours[-1][1]
    moments = {_second(line.at) for line in job.service if line.unit == SERVICE_KNOWN_S}
    edges = [start, *sorted(at for at in moments if start < at < end), end]
    counts: list[Counts] = [defaultdict(float) for _ in edges]
    for line in (*job.counts, *job.service):
        place = min(max(bisect_left(edges, _second(line.at)), 1), len(edges) - 1)
        counts[place][line.unit, line.phase] += line.amount
    energy = [_Energy(device.intervals) for device in job.devices]
    begins = [left for left, _ in hours]
    pieces: list[list[_Piece]] = [[] for _ in hours]
    for left, right, counted in zip(edges, edges[1:], counts[1:], strict=False):
        begun = left
        while begun < right:
            hour = bisect_right(begins, begun) - 1
            upto = min(right, hours[hour][1])
            part = (upto - begun) / (right - left)
            own = {key: amount * part for key, amount in counted.items()}
            joules = sum(device.between(begun, upto) for device in energy)
            pieces[hour].append(_Piece(begun, upto, own, joules))
            begun = upto
    return pieces


def _second(moment: datetime) -> datetime:
    """Return a reading's moment to the second, so that one just before an hour is its end."""
    return (moment + timedelta(microseconds=500_000)).replace(microsecond=0)


class _Energy:
    """The energy of a device over any time; an interval that is cut is divided by time."""

    def __init__(self, intervals: Sequence[IntervalRecord]) -> None:
        self._intervals = intervals
        self._ends = [interval.end for interval in intervals]
        self._sums = [0.0, *accumulate(interval.energy_j for interval in intervals)]

    def between(self, start: datetime, end: datetime) -> float:
        """Return the energy over [start, end) [J]."""
        return self._until(end) - self._until(start)

    def _until(self, moment: datetime) -> float:
        place = bisect_right(self._ends, moment)
        joules = self._sums[place]
        if place < len(self._intervals) and self._intervals[place].start < moment:
            interval = self._intervals[place]
            joules += interval.energy_j * (
                (moment - interval.start) / (interval.end - interval.start)
            )
        return joules


def _divided_hours(
    job: MergedJob, zone: tzinfo, hours: Sequence[Span], pieces: Sequence[Sequence[_Piece]]
) -> list[_Sums]:
    """Return the sums of each hour, each divided with what is known of its day only.

    So a day that is over has the same figures as long as the service runs.
    """
    of_day: dict[date, list[_Piece]] = defaultdict(list)
    for (start, _), own in zip(hours, pieces, strict=True):
        of_day[day_of(start, zone)] += own
    idle_w = {day: _idle_power_w(result) for day, result in of_day.items()}
    times = {day: _times_s(result) for day, result in of_day.items()}
    peaks = _peaks_w(job, [start for start, _ in hours])
    result = []
    for (start, _), own, peak_w in zip(hours, pieces, peaks, strict=True):
        day = day_of(start, zone)
        result.append(_divided(own, idle_w[day], times[day], peak_w))
    return result


def _idle_power_w(pieces: Iterable[_Piece]) -> float | None:
    """Return the mean power while no counter moved [W]; None without enough of such time."""
    idle = [piece for piece in pieces if piece.is_idle]
    length_s = sum(piece.length_s for piece in idle)
    return sum(piece.energy_j for piece in idle) / length_s if length_s >= IDLE_LEAST_S else None


def _times_s(pieces: Iterable[_Piece]) -> tuple[float, float]:
    """Return the time of requests in prefill and decode [s]."""
    counts = [piece.counts for piece in pieces]
    keys = (SERVICE_PREFILL_S, None), (SERVICE_DECODE_S, None)
    prefill_s, decode_s = (sum(count.get(key, 0.0) for count in counts) for key in keys)
    return prefill_s, decode_s


def _peaks_w(job: MergedJob, begins: Sequence[datetime]) -> list[float]:
    """Return the highest power of all devices in each hour [W]: the sum of their own."""
    sums = [0.0] * len(begins)
    for device in job.devices:
        highest = [0.0] * len(begins)
        for interval in device.intervals:
            length_s = (interval.end - interval.start).total_seconds()
            mean_w = interval.energy_j / length_s if length_s else 0.0
            first = max(bisect_right(begins, interval.start) - 1, 0)
            for hour in range(first, max(bisect_left(begins, interval.end), first + 1)):
                highest[hour] = max(highest[hour], mean_w, interval.power_max_w or 0.0)
        sums = list(map(add, sums, highest))
    return sums


def _divided(
    pieces: Sequence[_Piece], idle_w: float | None, day_times_s: tuple[float, float], peak_w: float
) -> _Sums:
    """Return the sums of an hour, its energy divided into parts."""
    sums = _Sums()
    for piece in pieces:
        sums.energy_j += piece.energy_j
        sums.known_s += piece.counts.get((SERVICE_KNOWN_S, None), 0.0)
        for key, amount in piece.counts.items():
            sums.counts[key] += amount
    resting = [piece.energy_j for piece in pieces if not piece.worked]
    sums.idle_seen_j = sum(resting)
    working = [piece for piece in pieces if piece.worked]
    working_j = sum(piece.energy_j for piece in working)
    idle = _idle_at_work(working, working_j, idle_w)
    work: Share = (working_j - idle[0], working_j - idle[2], working_j - idle[1])
    idle_parts = tuple(sums.idle_seen_j + joules for joules in idle)
    sums.parts["idle"] = (idle_parts[0], idle_parts[1], idle_parts[2])
    prefill_s, decode_s = own = _times_s(pieces)
    if not any(own):
        prefill_s, decode_s = day_times_s
    if not prefill_s + decode_s:
        sums.parts["work"] = work
        return sums
    share = prefill_s / (prefill_s + decode_s)
    limits = (own[0] * peak_w, own[1] * peak_w) if any(own) else (work[2], work[2])
    sums.parts["prefill"] = _bounded(work, share, *limits)
    sums.parts["decode"] = _bounded(work, 1.0 - share, *reversed(limits))
    return sums


def _idle_at_work(pieces: Sequence[_Piece], energy_j: float, idle_w: float | None) -> Share:
    """Return the idle part of stretches in which the server worked at times [J].

    They are idle where no counter moved from reading to reading, and also within, as far as the
    requests' times are shorter. These cannot overlap more than wholly, which gives the most.
    """
    length_s = sum(piece.length_s for piece in pieces)
    if not length_s:
        return 0.0, 0.0, 0.0
    moved_s = sum(piece.counts.get((SERVICE_BUSY_S, None), 0.0) for piece in pieces)
    moved_s = min(moved_s or length_s, length_s)
    requests_s = sum(_times_s(pieces))
    busy_s = min(moved_s, requests_s) if requests_s else moved_s
    is_full = requests_s >= moved_s
    least_s, most_s = length_s - moved_s, length_s - (moved_s if is_full else 0.0)
    if idle_w is None:  # not seen alone: at most the mean power
        return energy_j * (1 - busy_s / length_s), 0.0, energy_j * most_s / length_s
    value, low, high = (
        min(idle_w * idle_s, energy_j) for idle_s in (length_s - busy_s, least_s, most_s)
    )
    return value, low, high


def _bounded(work: Share, share: float, own_limit_j: float, other_limit_j: float) -> Share:
    """Return a phase's part of the work [J].

    Its devices were busy with it no longer than its requests, and drew no more than their highest
    power; nor was more left for the other phase than that one could draw.
    """
    value = work[0] * share
    low = min(max(0.0, work[1] - other_limit_j), value)
    return value, low, max(min(work[2], own_limit_j), value)


def _row(scored: ScoredJob, span: Span, sums: _Sums, day: date | None = None) -> ServiceRowDoc:
    """Return a stretch of time as JSON-ready data; the sum of its parts is its energy."""
    start, end = span
    figures = terms(Window("", start, end), scored, every_device=False)
    energy, carbon = (figures[0], figures[3]) if figures else (None, None)
    units: dict[str, float] = defaultdict(float)
    for (unit, _), amount in sums.counts.items():
        if not unit.startswith(SERVICE):
            units[unit] += amount
    return ServiceRowDoc(
        day=day.isoformat() if day else None,
        start=format_time(start),
        end=format_time(end),
        closed=scored.job.state != "running" or end < _extent(scored.job)[1],
        energy_j=bare(energy),
        total_g=bare(carbon),
        counts=dict(sorted(units.items())),
        cached_tokens=sums.counts.get((SERVICE_CACHED, None), 0.0),
        known_s=sums.known_s,
        parts=_parts(sums, energy, carbon),
        energy_j_per_unit=_per(energy, units, "J"),
        total_g_per_unit=_per(carbon, units, "gCO2e"),
    )


def _per(
    figure: Quantity | None, units: Mapping[str, float], of: str
) -> dict[str, Quantity | None]:
    return {
        unit: figure.scaled(1 / amount, f"{of}/{unit}").bare() if figure else None
        for unit, amount in sorted(units.items())
        if amount > 0
    }


def _parts(sums: _Sums, energy: Quantity | None, carbon: Quantity | None) -> list[ServicePartDoc]:
    """Return the parts of energy and carbon; of carbon in the proportion of their energy."""
    rows: list[ServicePartDoc] = []
    for name in PARTS:
        if name not in sums.parts or energy is None or not sums.energy_j:
            continue
        share = sums.parts[name]
        seen = name == "idle" and sums.idle_seen_j >= SEEN_LEAST * share[0]
        why = {"idle": IDLE_SEEN if seen else IDLE_ASSUMED, "work": UNSPLIT}.get(name, SPLIT)
        tokens = sums.counts.get(("token", name), 0.0)
        own_j = _part(energy, share, sums.energy_j, seen, why)
        own_g = _part(carbon, share, sums.energy_j, seen, why) if carbon else None
        per_token = own_j.scaled(1 / tokens, "J/token").bare() if tokens else None
        rows.append(ServicePartDoc(name, bare(own_j), bare(own_g), tokens, per_token))
    return rows


def _part(whole: Quantity, share: Share, energy_j: float, seen: bool, why: str) -> Quantity:
    value, low, high = (joules / energy_j for joules in share)
    kind = weakest((whole.kind, "attributed" if seen else "estimated"))
    fraction = Quantity(value, low, high, "1", kind, why).as_input(DIVIDED)
    part = whole.times(fraction, whole.unit).sourced(why)
    return part if low > 0 else part.at_most()
