"""What a run would have emitted at other hours or in other zones, by the intensity there was.

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

HOUR = timedelta(hours=1)
PAST = timedelta(days=28)
FINE_H = 1 / 12
_ALL = 1 - 1e-6


@dataclass(frozen=True, slots=True)
class EnergySpan:
    """Energy [J] of a job over [start, end)."""

    start: datetime
    end: datetime
    energy_j: float


@dataclass(frozen=True, slots=True)
class ActualIntensity:
    """Measured intensity of a zone over time, with its range, and where it is known."""

    zone: str
    grid: Grid
    low: Floats
    high: Floats
    known: Floats
    quality: str
    inputs: frozenset[str]
    """Names of the inputs that the intensity's error comes from."""

    @classmethod
    def of(cls, track: IntensityTrack) -> ActualIntensity:
        """Return that of a track of intensity."""
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

    def mean(self, run: LoadCurve, start: float, name: str) -> Quantity:
        """Return the mean intensity by the run's energy from a start [h]."""
        at = np.array([start])
        ends = (self.grid.values, self.low, self.high)
        value, low, high = (
            float(means(self.grid.with_values(item), run.profile, at)[0]) for item in ends
        )
        source = f"intensity of {self.zone} {name}"
        return Quantity(value, min(low, value), max(high, value), UNIT, "estimated", source)

    def covers(self, run: LoadCurve, starts: Floats) -> np.ndarray:
        """Return whether the hours that a run would use from each start are all known."""
        found: np.ndarray = means(self.grid.with_values(self.known), run.profile, starts) >= _ALL
        return found


@dataclass(frozen=True, slots=True)
class LoadCurve:
    """When a job drew how much: its start [h], its power over time, and its energy [J]."""

    start: float
    profile: Profile
    energy_j: float

    @classmethod
    def of(
        cls, parts: Sequence[EnergySpan], without: Sequence[tuple[datetime, datetime]] = ()
    ) -> LoadCurve:
        """Return that of energy in order of time; `without` are spans cut out, such as pauses."""
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
        """Return its length [h]."""
        return self.profile.hours

    def power_w(self, count: int) -> tuple[float, ...]:
        """Return the mean power [W] of so many equal parts of it."""
        edges = self.profile.edges
        sums = np.concatenate([[0.0], np.cumsum(self.profile.power * np.diff(edges))])
        done = np.interp(np.linspace(0.0, self.hours, count + 1), edges, sums)
        mean_w = self.energy_j / s_from_h(self.hours)
        return tuple((np.diff(done) * count / self.hours * mean_w).tolist())


def _seconds(start: datetime, end: datetime) -> float:
    return (end - start).total_seconds()


def _overlap(part: EnergySpan, span: tuple[datetime, datetime]) -> float:
    return max(0.0, _seconds(max(part.start, span[0]), min(part.end, span[1])))


def best_start(
    actual: ActualIntensity, run: LoadCurve, earliest: float, latest: float
) -> float | None:
    """Return the known start [h] of least emissions in [earliest, latest]; None without any.

    Looked for every five minutes, or every hour where there are more than seven days.
    """
    step = FINE_H if latest - earliest <= WEEK_H else 1.0
    first = step * np.ceil(earliest / step)
    starts = np.unique(np.concatenate([[earliest, latest], np.arange(first, latest, step)]))
    starts = starts[actual.covers(run, starts)]
    if not len(starts):
        return None
    return float(starts[means(actual.grid, run.profile, starts).argmin()])


def best(actual: ActualIntensity, run: LoadCurve, operational: Quantity) -> BestDoc | None:
    """Return the best start of the 28 days before the run's, its own among them."""
    earliest = max(run.start - PAST / HOUR, actual.grid.edges[0])
    found = _best_within(actual, run, earliest, run.start)
    if found is None:
        return None
    start, new, then = found
    emitted = _emitted(operational, actual, new, then)
    ratio = new.over(then, "ratio")
    return {"start": moment_text(start), "operational_g": emitted.to_doc(), "ratio": ratio.to_doc()}


def saved_within(
    actual: ActualIntensity, run: LoadCurve, operational: Quantity, hours: float
) -> Quantity | None:
    """Return what the best known start within some hours after the run's would have saved [gCO2e].

    None where the intensity of the run is not known by the hour.
    """
    found = _best_within(actual, run, run.start, run.start + hours)
    if found is None:
        return None
    _, new, then = found
    return new.over(then, "ratio").complement("1").scaled(operational.value, operational.unit)


def _best_within(
    actual: ActualIntensity, run: LoadCurve, earliest: float, latest: float
) -> tuple[float, Quantity, Quantity] | None:
    """Return the best known start [h], the mean intensity from it, and that of the run itself.

    None where the intensity of the run is not known by the hour.
    """
    if not actual.covers(run, np.array([run.start]))[0]:
        return None
    start = best_start(actual, run, earliest, latest)
    if start is None:
        return None
    new, then = actual.mean(run, start, "at the best start"), actual.mean(run, run.start, "then")
    return start, new, then


def elsewhere(
    here: ActualIntensity, there: ActualIntensity, run: LoadCurve, operational: Quantity
) -> ElsewhereDoc:
    """Return what the same run would have emitted at the same time in another zone."""
    new, then = there.mean(run, run.start, "then"), here.mean(run, run.start, "then")
    return {
        "zone": there.zone,
        "quality": there.quality,
        "operational_g": _emitted(operational, here, new, then).to_doc(),
        "ratio": new.over(then, "ratio").to_doc(),
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


def waited(
    actual: ActualIntensity,
    parts: Sequence[EnergySpan],
    waiting: Waiting,
    operational: Quantity,
) -> WaitedDoc:
    """Return what waiting and pauses did; the energy of pauses was used only because of them."""
    ran, at_once = LoadCurve.of(parts), LoadCurve.of(parts, waiting.pauses)
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
    known = actual.covers(ran, np.array([ran.start]))[0]
    if not (known and actual.covers(at_once, np.array([asked]))[0]):
        return answer
    work = operational.scaled(1 - waiting.paused_j / ran.energy_j)
    then = actual.mean(ran, ran.start, "then")
    new = actual.mean(at_once, asked, "at once")
    other = _emitted(work, actual, new, then)
    ratio = then.over(new, "ratio").scaled(operational.value / work.value)
    answer["at_once_g"], answer["actual_g"] = other.to_doc(), operational.to_doc()
    answer["saved_g"] = other.value - operational.value
    answer["saved_ratio"] = ratio.complement("share saved").to_doc()
    end = waiting.deadline and exact_hour(waiting.deadline) - at_once.hours
    start = best_start(actual, at_once, asked, max(asked, end or exact_hour(waiting.began)))
    if start is not None:
        least = actual.mean(at_once, start, "at the best start")
        answer["best_start"] = moment_text(start)
        answer["best_g"] = _emitted(work, actual, least, then).to_doc()
    return answer


def _emitted(
    operational: Quantity, actual: ActualIntensity, new: Quantity, then: Quantity
) -> Quantity:
    """Return what a new intensity instead of `then` had emitted: the old one's error is in none."""
    exact = Quantity.exact(then.value, then.unit, then.kind, then.source)
    return operational.with_exact(actual.inputs).times(new.over(exact, "ratio"), operational.unit)
