"""Energy segments -> journal intervals, cut where the grid's resolution and the reader need it.

Intervals are 10 s long for the first 5 minutes, 60 s to the end of the first hour, then 300 s,
always on whole multiples of their length in UTC, so that none crosses a 5-minute boundary and all
nodes cut at the same moments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.sci.journal.telemetry import MAXIMA

FINE_S, MIDDLE_S, COARSE_S, DAY_S = 10, 60, 300, 86_400
FINE_UNTIL_S, MIDDLE_UNTIL_S = 300, 3_600
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(time_ns: int) -> datetime:
    """Unix time [ns] -> UTC, exact to the microsecond."""
    return _EPOCH + timedelta(microseconds=time_ns // 1000)


def _summary(name: str, total: float, count: float, top: float) -> float:
    return top if name in MAXIMA else round(total / count, 4)


class Schedule:
    """Where intervals are cut: by the job's age, and coarser when the spool runs full."""

    __slots__ = ("coarse", "start_ns")

    def __init__(self, start_ns: int) -> None:
        self.start_ns = start_ns
        self.coarse = False

    def step_s(self, time_ns: int) -> int:
        """Length of the intervals at this moment of the job [s]."""
        age_s = (time_ns - self.start_ns) / NS_PER_S
        if self.coarse or age_s >= MIDDLE_UNTIL_S:
            return COARSE_S
        return FINE_S if age_s < FINE_UNTIL_S else MIDDLE_S

    def next_cut_ns(self, opened_ns: int, start_ns: int, end_ns: int) -> int:
        """The first cut after `start_ns` of a segment [start, end) in an interval opened before it.

        A segment of more than a day has no reading in between, so only days are worth cutting.
        """
        long = end_ns - start_ns > DAY_S * NS_PER_S
        step_ns = (DAY_S if long else self.step_s(opened_ns)) * NS_PER_S
        return (start_ns // step_ns + 1) * step_ns


class Interval:
    """Energy of one device over [start, end) with its profile; grows until it is cut."""

    __slots__ = (
        "end_ns",
        "energy_j",
        "kind",
        "memory_b",
        "power_w",
        "seen",
        "start_ns",
        "use_count",
        "use_max",
        "use_sum",
    )

    def __init__(self, start_ns: int, kind: str) -> None:
        self.start_ns = self.end_ns = start_ns
        self.kind = kind
        self.energy_j = 0.0
        self.power_w: float | None = None
        self.memory_b: float | None = None
        self.use_sum = self.use_max = 0.0
        self.use_count = 0
        self.seen: dict[str, list[float]] = {}

    def fields(self, device_id: str) -> dict[str, Any]:
        """This interval as the fields of an IntervalRecord."""
        used = self.use_count > 0
        return {
            "device_id": device_id,
            "start": moment(self.start_ns),
            "end": moment(self.end_ns),
            "energy_j": round(max(self.energy_j, 0.0), 6),
            "kind": self.kind,
            "utilisation_mean": round(self.use_sum / self.use_count, 4) if used else None,
            "utilisation_max": self.use_max if used else None,
            "memory_peak_b": self.memory_b,
            "power_max_w": self.power_w,
            "profile": {name: _summary(name, *told) for name, told in self.seen.items()},
        }

    def state(self) -> list[Any]:
        """Everything `restored` needs, JSON-ready."""
        times = [self.start_ns, self.end_ns, self.energy_j, self.kind]
        use = [self.use_sum, self.use_max, self.use_count]
        return [*times, self.power_w, self.memory_b, *use, self.seen]

    @classmethod
    def restored(cls, state: list[Any]) -> Interval:
        """The interval that `state` described."""
        self = cls(int(state[0]), str(state[3]))
        self.end_ns, self.energy_j = int(state[1]), float(state[2])
        self.power_w, self.memory_b = state[4], state[5]
        self.use_sum, self.use_max, self.use_count = state[6], state[7], int(state[8])
        self.seen = state[9] if len(state) > 9 else {}
        return self


class Ledger:
    """One device's energy: takes segments in time order, hands out intervals as they are cut.

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
        """`kind` stands for that of all energy that is not `estimated`: `derived` for a percentage
        of a rated power.
        """
        self.device_id = device_id
        self._kind = kind
        self.open: Interval | None = None
        self._schedule = schedule
        self._emit = emit

    def add(
        self, start_ns: int, end_ns: int, energy_j: float, kind: str, power_w: float | None = None
    ) -> None:
        """Book `energy_j` [J] over [start, end); a segment without length is ignored."""
        if self._kind and kind != "estimated":
            kind = self._kind
        if self.open and (self.open.kind != kind or self.open.end_ns != start_ns):
            self.close()
        while start_ns < end_ns:
            if self.open is None:
                self.open = Interval(start_ns, kind)
            # By the open interval's own start: one that began fine ends fine.
            cut_ns = self._schedule.next_cut_ns(self.open.start_ns, start_ns, end_ns)
            until_ns = min(cut_ns, end_ns)
            whole = until_ns == end_ns
            part_j = energy_j if whole else energy_j * (until_ns - start_ns) / (end_ns - start_ns)
            self._grow(until_ns, part_j, power_w)
            energy_j -= part_j
            start_ns = until_ns
            if until_ns == cut_ns:
                self.close()

    def observe(self, utilisation: float | None, memory_b: float | None) -> None:
        """Note a reading of utilisation (0 to 1) and memory in use [B] in the open interval."""
        interval = self.open
        if interval is None:
            return
        if utilisation is not None:
            interval.use_sum += utilisation
            interval.use_max = max(interval.use_max, utilisation)
            interval.use_count += 1
        if memory_b is not None:
            interval.memory_b = max(interval.memory_b or 0.0, memory_b)

    def note(self, profile: Mapping[str, float]) -> None:
        """Note readings of how the device runs (sci/journal/telemetry.py) in the open interval."""
        if self.open is None:
            return
        for name, value in profile.items():
            told = self.open.seen.setdefault(name, [0.0, 0.0, value])
            told[0] += value
            told[1] += 1
            told[2] = max(told[2], value)

    def close(self) -> None:
        """Hand out the open interval, if there is one."""
        interval, self.open = self.open, None
        if interval is not None and interval.end_ns > interval.start_ns:
            self._emit(self.device_id, interval)

    def _grow(self, end_ns: int, energy_j: float, power_w: float | None) -> None:
        interval = self.open
        assert interval is not None  # add() has just opened it
        interval.end_ns = end_ns
        interval.energy_j += energy_j
        if power_w is not None and power_w > (interval.power_w or -1.0):
            interval.power_w = power_w
