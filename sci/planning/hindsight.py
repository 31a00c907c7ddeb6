"""What a run would have emitted at other hours or in other zones, from what came.

A run's power over time is moved to other starts, and joined with the intensity that was measured
there. Nothing of this could be known beforehand: it is hindsight, not a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from gramwatt.sci.advice.documents import BestDoc, ElsewhereDoc, WaitedDoc
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.base.units import s_from_h
from gramwatt.sci.grid.intensity import IntensityTrack
from gramwatt.sci.grid.zones import UNIT
from gramwatt.sci.planning.hours import WEEK_H, Floats, exact_hour, moment_text
from gramwatt.sci.planning.windows import Grid, Profile, means
from gramwatt.sci.score.assess import FINE_QUALITIES

PAST = timedelta(days=28)
FINE_H = 1 / 12
_ALL = 1 - 1e-6


@dataclass(frozen=True, slots=True)
class Part:
    """Energy [J] of a job over [start, end)."""

    start: datetime
    end: datetime
    energy_j: float


@dataclass(frozen=True, slots=True)
class Came:
    """Intensity of a zone that came, with its range, and where it is known."""

    zone: str
    grid: Grid
    low: Floats
    high: Floats
    known: Floats
    quality: str
    inputs: frozenset[str]
    """Names of the inputs that the intensity's error comes from."""

    @classmethod
    def of(cls, track: IntensityTrack) -> Came:
        """From a track of intensity."""
        values = np.array(track.values)
        low, high, known = values.copy(), values.copy(), np.zeros(len(values))
        for first, end, one in track.runs:
            figure, of_run = one.figure, slice(first, end)
            if figure.value > 0:
                low[of_run] *= figure.low / figure.value
                high[of_run] *= figure.high / figure.value
            known[of_run] = one.quality in FINE_QUALITIES
        qualities = (run.known.quality for run in track.runs)
        quality = max(qualities, key=lambda name: name in FINE_QUALITIES)
        edges = np.array([exact_hour(edge) for edge in track.edges])
        ranged = (run.known.figure for run in track.runs if run.known.figure.relative)
        inputs = frozenset(name for figure in ranged for name in figure.uncertainty.effects)
        zone = track.runs[0].known.zone
        return cls(zone, Grid(edges, values), low, high, known, quality, inputs)

    def mean(self, run: Run, start: float, name: str) -> Quantity:
        """Mean intensity by the run's energy from a start [h]."""
        at = np.array([start])
        ends = (self.grid.values, self.low, self.high)
        value, low, high = (
            float(means(self.grid.with_values(item), run.profile, at)[0]) for item in ends
        )
        source = f"intensity of {self.zone} {name}"
        return Quantity(value, min(low, value), max(high, value), UNIT, "estimated", source)

    def covers(self, run: Run, starts: Floats) -> np.ndarray:
        """Whether the hours that a run would use from each start are all known."""
        found: np.ndarray = means(self.grid.with_values(self.known), run.profile, starts) >= _ALL
        return found


@dataclass(frozen=True, slots=True)
class Run:
    """When a job drew how much: its start [h], its power over time, and its energy [J]."""

    start: float
    profile: Profile
    energy_j: float

    @classmethod
    def of(cls, parts: Sequence[Part], without: Sequence[tuple[datetime, datetime]] = ()) -> Run:
        """From energy in order of time; `without` are spans that are cut out, such as pauses."""
        begin = parts[0].start
        edges, power, energy_j = [0.0], list[float](), 0.0
        for part in parts:
            length = _seconds(part.start, part.end)
            gap = _seconds(begin, part.start) / s_from_h(1) - edges[-1] if not without else 0.0
            if gap > 1e-9:
                edges.append(edges[-1] + gap)
                power.append(0.0)
            cut = sum(_overlap(part, span) for span in without)
            left = max(0.0, length - cut)
            if left <= 0 or length <= 0:
                continue
            joules = part.energy_j * left / length
            edges.append(edges[-1] + left / s_from_h(1))
            power.append(joules / left)
            energy_j += joules
        lengths = np.diff(np.array(edges))
        mean = float((np.array(power) * lengths).sum() / lengths.sum())
        return cls(exact_hour(begin), Profile(np.array(edges), np.array(power) / mean), energy_j)

    @property
    def hours(self) -> float:
        """Its length [h]."""
        return self.profile.hours

    def power_w(self, count: int) -> tuple[float, ...]:
        """Mean power [W] of so many equal parts of it."""
        edges = self.profile.edges
        sums = np.concatenate([[0.0], np.cumsum(self.profile.power * np.diff(edges))])
        done = np.interp(np.linspace(0.0, self.hours, count + 1), edges, sums)
        mean_w = self.energy_j / s_from_h(self.hours)
        return tuple((np.diff(done) * count / self.hours * mean_w).tolist())


def _seconds(start: datetime, end: datetime) -> float:
    return (end - start).total_seconds()


def _overlap(part: Part, span: tuple[datetime, datetime]) -> float:
    return max(0.0, _seconds(max(part.start, span[0]), min(part.end, span[1])))


def best_start(came: Came, run: Run, earliest: float, latest: float) -> float | None:
    """The start [h] of least emissions in [earliest, latest] of those known; None without any.

    Looked for every five minutes, or every hour where there are more than seven days.
    """
    step = FINE_H if latest - earliest <= WEEK_H else 1.0
    first = step * np.ceil(earliest / step)
    starts = np.unique(np.concatenate([[earliest, latest], np.arange(first, latest, step)]))
    starts = starts[came.covers(run, starts)]
    if not len(starts):
        return None
    return float(starts[means(came.grid, run.profile, starts).argmin()])


def best(came: Came, run: Run, operational: Quantity) -> BestDoc | None:
    """The best start of the 28 days before the run's, its own among them."""
    if not came.covers(run, np.array([run.start]))[0]:
        return None
    start = best_start(came, run, max(run.start - _hours(PAST), came.grid.edges[0]), run.start)
    if start is None:
        return None
    new, then = came.mean(run, start, "at the best start"), came.mean(run, run.start, "then")
    emitted = _emitted(operational, came, new, then)
    ratio = _ratio(new, then)
    return {"start": moment_text(start), "operational_g": emitted.to_doc(), "ratio": ratio.to_doc()}


def elsewhere(here: Came, there: Came, run: Run, operational: Quantity) -> ElsewhereDoc:
    """The same run at the same time in another zone."""
    new, then = there.mean(run, run.start, "then"), here.mean(run, run.start, "then")
    return {
        "zone": there.zone,
        "quality": there.quality,
        "operational_g": _emitted(operational, here, new, then).to_doc(),
        "ratio": _ratio(new, then).to_doc(),
    }


@dataclass(frozen=True, slots=True)
class Waiting:
    """When a job was asked for and began, until when it had to end, and when it was paused."""

    asked: datetime
    began: datetime
    deadline: datetime | None = None
    pauses: Sequence[tuple[datetime, datetime]] = ()
    paused_j: float = 0.0
    """What the job used in its pauses [J]."""


def waited(came: Came, parts: Sequence[Part], waiting: Waiting, operational: Quantity) -> WaitedDoc:
    """What waiting and pauses did; energy of pauses belongs to what came, not to the other."""
    actual, at_once = Run.of(parts), Run.of(parts, waiting.pauses)
    asked = exact_hour(waiting.asked)
    answer: WaitedDoc = {
        "asked_at": moment_text(asked),
        "started_at": moment_text(exact_hour(waiting.began)),
        "waited_s": round(_seconds(waiting.asked, waiting.began)),
        "paused_s": round(sum(_seconds(*span) for span in waiting.pauses)),
        "at_once_g": None,
        "actual_g": None,
        "saved_g": None,
        "saved_ratio": None,
        "best_start": None,
        "best_g": None,
    }
    known = came.covers(actual, np.array([actual.start]))[0]
    if not (known and came.covers(at_once, np.array([asked]))[0]):
        return answer
    work = operational.scaled(1 - waiting.paused_j / actual.energy_j)
    then = came.mean(actual, actual.start, "then")
    new = came.mean(at_once, asked, "at once")
    other = _emitted(work, came, new, then)
    saved = _ratio(then, new).scaled(operational.value / work.value)
    ends = 1 - saved.value, 1 - saved.high, 1 - saved.low
    answer["at_once_g"], answer["actual_g"] = other.to_doc(), operational.to_doc()
    answer["saved_g"] = other.value - operational.value
    answer["saved_ratio"] = Quantity(*ends, "share saved", "estimated", saved.source).to_doc()
    end = waiting.deadline and exact_hour(waiting.deadline) - at_once.hours
    start = best_start(came, at_once, asked, max(asked, end or exact_hour(waiting.began)))
    if start is not None:
        least = came.mean(at_once, start, "at the best start")
        answer["best_start"] = moment_text(start)
        answer["best_g"] = _emitted(work, came, least, then).to_doc()
    return answer


def _emitted(operational: Quantity, came: Came, new: Quantity, then: Quantity) -> Quantity:
    """What was emitted at the intensity `then`, at a new one: the old one's error is in none."""
    exact = Quantity.exact(then.value, then.unit, then.kind, then.source)
    return operational.with_exact(came.inputs).times(_ratio(new, exact), operational.unit)


def _ratio(new: Quantity, present: Quantity) -> Quantity:
    return new.over(present, "ratio")


def _hours(span: timedelta) -> float:
    return span / timedelta(hours=1)
