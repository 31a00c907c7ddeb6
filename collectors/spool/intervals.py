"""Energy segments -> journal intervals, cut as the grid's resolution and a reader need them.

Intervals are 10 s long for the first 5 minutes, 60 s to the end of the first hour, then 300 s,
always on whole multiples of their length in UTC, so that none crosses a 5-minute boundary and all
nodes cut at the same moments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct, field

from gramwatt.collectors.settings.clock import NS_PER_S
from gramwatt.sci.figures.structs import convert
from gramwatt.sci.records.records import MAXIMA, UNREAD_W

FINE_S, MIDDLE_S, COARSE_S, DAY_S = 10, 60, 300, 86_400
FINE_UNTIL_S, MIDDLE_UNTIL_S = 300, 3_600
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(time_ns: int) -> datetime:
    """Return a Unix time [ns] as UTC, exact to the microsecond."""
    return _EPOCH + timedelta(microseconds=time_ns // 1000)


class Samples(Struct):
    """Sum, number and highest of the samples of one quantity."""

    total: float = 0.0
    count: int = 0
    highest: float | None = None

    def add(self, value: float) -> None:
        """Add one sample."""
        self.total += value
        self.count += 1
        self.highest = value if self.highest is None else max(self.highest, value)

    @property
    def mean(self) -> float | None:
        """Mean of the samples; None without any."""
        return round(self.total / self.count, 4) if self.count else None


class Schedule:
    """Where intervals are cut: by the job's age, and coarser when the spool runs full."""

    __slots__ = ("begin_ns", "coarse", "end_ns", "start_ns")

    def __init__(self, start_ns: int) -> None:
        self.start_ns = start_ns
        self.coarse = False
        self.begin_ns = 0
        """The job's begin [ns], where it was not known before the first reading: energy before it
        is left out."""
        self.end_ns: int | None = None
        """The job's end [ns]; None while it runs."""

    def step_s(self, time_ns: int) -> int:
        """Length of the intervals at this moment of the job [s]."""
        age_s = (time_ns - self.start_ns) / NS_PER_S
        if self.coarse or age_s >= MIDDLE_UNTIL_S:
            return COARSE_S
        return FINE_S if age_s < FINE_UNTIL_S else MIDDLE_S

    def next_cut_ns(self, opened_ns: int, start_ns: int, end_ns: int) -> int:
        """Return the first cut [ns] in a segment [start, end) of an interval that is open.

        A segment of more than a day has no reading in between, so only days are worth cutting.
        """
        long = end_ns - start_ns > DAY_S * NS_PER_S
        step_ns = (DAY_S if long else self.step_s(opened_ns)) * NS_PER_S
        return (start_ns // step_ns + 1) * step_ns


class Interval(Struct):
    """Energy of one device over [start, end) with its profile; grows until it is cut."""

    start_ns: int
    kind: str
    end_ns: int = 0
    energy_j: float = 0.0
    power_max_w: float | None = None
    memory_peak_b: float | None = None
    most_w: float | None = None
    """The most that the device can have drawn, where nothing was read [W]; else None."""
    utilisation: Samples = field(default_factory=Samples)
    profile: dict[str, Samples] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.end_ns = max(self.end_ns, self.start_ns)

    def fields(self, device_id: str) -> dict[str, Any]:
        """Return the fields of an IntervalRecord."""
        return {
            "device_id": device_id,
            "start": moment(self.start_ns),
            "end": moment(self.end_ns),
            "energy_j": round(max(self.energy_j, 0.0), 6),
            "kind": self.kind,
            "utilisation_mean": self.utilisation.mean,
            "utilisation_max": self.utilisation.highest,
            "memory_peak_b": self.memory_peak_b,
            "power_max_w": self.power_max_w,
            "profile": self._profile(),
        }

    def _profile(self) -> dict[str, float | None]:
        profile = {
            name: samples.highest if name in MAXIMA else samples.mean
            for name, samples in self.profile.items()
        }
        return profile if self.most_w is None else {**profile, UNREAD_W: round(self.most_w, 3)}

    @classmethod
    def restored(cls, state: object) -> Interval | None:
        """Return the interval that a meter's state holds, as read from JSON; None without one."""
        return None if state is None else convert(state, cls)


class Ledger:
    """One device's energy: segments in, in order of time; intervals out, as they are cut.

    The energy of the intervals is the energy of the segments: a segment that crosses a cut is
    shared in proportion to time, and the last part gets what is left.
    """

    __slots__ = ("_emit", "_kind", "_schedule", "device_id", "open")

    def __init__(
        self,
        device_id: str,
        schedule: Schedule,
        emit: Callable[[str, Interval], None],
        *,
        kind: str | None = None,
    ) -> None:
        """`kind` is that of all energy that is not `estimated`: `derived` for a percentage
        of a rated power.
        """
        self.device_id = device_id
        self._kind = kind
        self.open: Interval | None = None
        self._schedule = schedule
        self._emit = emit

    def add(
        self,
        start_ns: int,
        end_ns: int,
        energy_j: float,
        kind: str,
        power_w: float | None = None,
        most_w: float | None = None,
    ) -> None:
        """Add `energy_j` [J] over [start, end). A segment without length is ignored.

        `most_w` is for a segment in which nothing was read: the most that it can hold [W].
        """
        begin_ns = self._schedule.begin_ns
        if start_ns < begin_ns:
            inside = max(0, end_ns - begin_ns) / max(1, end_ns - start_ns)
            energy_j, start_ns = energy_j * inside, begin_ns
        if self._kind and kind != "estimated":
            kind = self._kind
        before = self.open
        if before and (before.kind, before.end_ns, before.most_w) != (kind, start_ns, most_w):
            self.close()
        while start_ns < end_ns:
            if self.open is None:
                self.open = Interval(start_ns, kind, most_w=most_w)
            interval = self.open
            # By the open interval's own start: one that began fine ends fine.
            cut_ns = self._schedule.next_cut_ns(interval.start_ns, start_ns, end_ns)
            until_ns = min(cut_ns, end_ns)
            whole = until_ns == end_ns
            part_j = energy_j if whole else energy_j * (until_ns - start_ns) / (end_ns - start_ns)
            interval.end_ns = until_ns
            interval.energy_j += part_j
            if power_w is not None:
                interval.power_max_w = max(interval.power_max_w or 0.0, power_w)
            energy_j -= part_j
            start_ns = until_ns
            if until_ns == cut_ns:
                self.close()

    def see(self, power_w: float) -> None:
        """Take the lowest of the mean powers of seconds [W], which a shared board has a use for."""

    def observe(self, utilisation: float | None, memory_b: float | None) -> None:
        """Add a sample of utilisation (0 to 1) and of memory in use [B] to the open interval."""
        interval = self.open
        if interval is None:
            return
        if utilisation is not None:
            interval.utilisation.add(utilisation)
        if memory_b is not None:
            interval.memory_peak_b = max(interval.memory_peak_b or 0.0, memory_b)

    def note(self, profile: Mapping[str, float]) -> None:
        """Add samples of how the device runs (sci/records/records.py) to the open interval."""
        if self.open is None:
            return
        for name, value in profile.items():
            self.open.profile.setdefault(name, Samples()).add(value)

    def close(self) -> None:
        """Cut the open interval, if there is one, and emit it.

        What it holds after the job's end is left out: a job may end before the first reading.
        """
        interval, self.open = self.open, None
        end_ns = self._schedule.end_ns
        if interval is not None and end_ns is not None and end_ns < interval.end_ns:
            kept_ns = max(0, end_ns - interval.start_ns)
            fraction = kept_ns / (interval.end_ns - interval.start_ns)
            interval.energy_j *= fraction
            interval.end_ns = interval.start_ns + kept_ns
        if interval is not None and interval.end_ns > interval.start_ns:
            self._emit(self.device_id, interval)
