"""What every provider answers: values in equal steps, by quality."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from gramwatt.sci.figures.document import Quality
from gramwatt.sci.grid.fuels import is_explained, mix_intensity
from gramwatt.sci.grid.intensity import Basis, Signal
from gramwatt.sci.grid.plausible import LARGEST
from gramwatt.sci.grid.zones import Scope

FIVE_MINUTES_S = 300
DAY_S = 86_400


class ProviderError(Exception):
    """A provider that gave nothing usable; the message has no key in it."""


class RestingError(ProviderError):
    """A provider that failed lately, and is not asked for a while."""


class AnswerError(ProviderError):
    """An answer that is not in the documented shape, or about another zone."""


class Kind(NamedTuple):
    """What a series of values is: its signal, its basis, and whether imports are traced."""

    signal: Signal
    basis: Basis
    scope: Scope


DERIVED = Kind("average", "lifecycle", "production")
"""What our factors make of generation by fuel."""
SCORED = ("average", "lifecycle")
"""Signal and basis that scores use."""


class Reading(NamedTuple):
    """One value [gCO2e/kWh] of the step that begins at `start`; None where it is not known."""

    start: datetime
    value: float | None
    quality: Quality


@dataclass(frozen=True, slots=True)
class Values:
    """Values in equal steps from `start` on, NaN where not known, for each quality."""

    start: datetime
    step_s: int
    by_quality: Mapping[Quality, Sequence[float]] = field(default_factory=dict)


def in_steps(readings: Iterable[Reading], step_s: int, start: datetime, end: datetime) -> Values:
    """Return the readings within [start, end) as values in steps, in whatever order they come.

    A step that ends later is left out: its value may change until it is over. Of several
    for one step the last counts, as providers append what they revised. Raises AnswerError for a
    value or a time that cannot be.
    """
    if step_s <= 0 or step_s % FIVE_MINUTES_S or DAY_S % step_s:
        raise AnswerError(f"steps of {step_s} s do not fit 5 minutes and the day")
    step = timedelta(seconds=step_s)
    by_start: dict[datetime, tuple[float, Quality]] = {}
    for reading in readings:
        if (reading.start.timestamp()) % step_s:
            raise AnswerError(f"{reading.start} does not begin a step of {step_s} s")
        if not start - step < reading.start <= end - step:
            continue
        if reading.value is None:
            by_start.pop(reading.start, None)
        elif 0 <= reading.value <= LARGEST:
            by_start[reading.start] = reading.value, reading.quality
        else:
            raise AnswerError(f"{reading.value} is not an intensity in gCO2e/kWh")
    if not by_start:
        return Values(start, step_s, {})
    first = min(by_start)
    count = (max(by_start) - first) // step + 1
    by_quality: dict[Quality, list[float]] = {}
    for moment, (value, quality) in by_start.items():
        values = by_quality.setdefault(quality, [math.nan] * count)
        values[(moment - first) // step] = value
    return Values(first, step_s, by_quality)


def moment(text: object) -> datetime:
    """Return a time of an answer, UTC unless it says otherwise; raises AnswerError."""
    try:
        parsed = datetime.fromisoformat(str(text))
    except ValueError:
        raise AnswerError(f"{str(text)[:40]!r} is not a time") from None
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)


def number(value: object) -> float | None:
    """Return a number of an answer, also one written as text; None for null. Raises AnswerError."""
    if value is None or value == "":
        return None
    try:
        parsed = float(value)  # type: ignore[arg-type]  # what cannot be is refused below
    except (TypeError, ValueError):
        raise AnswerError(f"{str(value)[:40]!r} is not a number") from None
    if isinstance(value, bool) or not math.isfinite(parsed):
        raise AnswerError(f"{str(value)[:40]!r} is not a number")
    return parsed


def expect(name: str, answer: object, question: str) -> None:
    """Raise AnswerError where an answer is about something else than was asked for."""
    if answer != question:
        raise AnswerError(f"the answer is about {name} {str(answer)[:60]!r}, not {question!r}")


class Generation:
    """Generation of several series of a zone, whose steps may differ; one unit for all."""

    def __init__(self) -> None:
        self.fuels: dict[str, str] = {}
        """The fuel of each series."""
        self.amounts: dict[str, dict[datetime, float]] = defaultdict(dict)
        self._steps: dict[str, int] = {}

    @property
    def step_s(self) -> int:
        """The finest step [s]; 0 without any series."""
        return min(self._steps.values(), default=0)

    def add(self, series: str, fuel: str, at: datetime, step_s: int, amount: float) -> None:
        """Add the mean power of a step; a later amount for the same time replaces the earlier."""
        self.fuels[series] = fuel
        self._steps[series] = min(step_s, self._steps.get(series, step_s))
        fine = 300  # whatever steps come, so that a coarse one covers the fine ones in it
        for offset in range(0, step_s, fine):
            self.amounts[series][at + timedelta(seconds=offset)] = amount


def readings(generation: Generation, basis: Basis) -> Iterator[Reading]:
    """Yield the intensity of every step for which each series that generates has an amount."""
    step = timedelta(seconds=generation.step_s)
    active = {
        name: of for name, of in generation.amounts.items() if any(a > 0 for a in of.values())
    }
    times = sorted({time for of in active.values() for time in of})
    for time in times:
        if time.timestamp() % step.total_seconds() or any(time not in of for of in active.values()):
            continue
        mix: dict[str, float] = defaultdict(float)
        for name, of in active.items():
            mix[generation.fuels[name]] += max(of[time], 0.0)
        yield of_mix(time, mix, basis)


def of_mix(time: datetime, mix: Mapping[str, float], basis: Basis) -> Reading:
    """Return the intensity of a mix of fuels, measured where nearly all of it has a fuel's name."""
    quality: Quality = "measured" if is_explained(mix) else "estimated"
    return Reading(time, mix_intensity(mix, basis), quality)
