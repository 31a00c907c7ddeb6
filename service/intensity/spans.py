"""Points of intensity as spans of equal steps, in UTC.

The step of a file may change, such as from 60 to 15 minutes (ENTSO-E since October 2025): a new
length is a change where it is there twice, and a missing row where it is not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from gramwatt.service.intensity.points import DAY_S

STEPS_S = range(300, 3601, 300)
"""From 5 to 60 minutes; those that do not divide a day are refused."""


LONGEST = timedelta(hours=1)


class IntensityFileError(ValueError):
    """What cannot be imported; the message names the line or point and what to change."""


class Point(NamedTuple):
    """A value [gCO2e/kWh] from a time on, and where it stands; NaN where it is not known."""

    where: str
    start: datetime
    value: float


class Span(NamedTuple):
    """Values in equal steps from `start` on."""

    start: datetime
    step: timedelta
    values: list[float]

    @property
    def end(self) -> datetime:
        """When the last step ends."""
        return self.start + self.step * len(self.values)


def spans(
    points: Sequence[Point], step: timedelta | None = None, *, gaps: bool = False
) -> list[Span]:
    """Return points, in order, as spans; with `gaps`, rows that are missing are not known.

    `step` is the length of the first, where it is stated. Raises IntensityFileError for a step
    that cannot be kept, or a missing row.
    """
    if not points:
        raise IntensityFileError("no row has a value")
    lengths = [after.start - point.start for point, after in zip(points, points[1:], strict=False)]
    if step is None:
        if not lengths:
            raise IntensityFileError("fewer than two rows: the length of a step cannot be known")
        step = min(lengths[:24]) if gaps else lengths[0]
    span = Span(points[0].start, _checked(points[:2], step), [points[0].value])
    found = [span]
    for number, length in enumerate(lengths, start=1):
        point = points[number]
        missing = length // span.step - 1 if length > span.step else 0
        twice = lengths[number : number + 1] == [length]
        if length != span.step and twice and not (gaps and length > LONGEST):
            value = span.values.pop()  # its step is the first of the new length
            _checked(points[number - 1 : number + 1], length)
            span = Span(points[number - 1].start, length, [value])
            found.append(span)
        elif gaps and missing and not length % span.step:
            span.values.extend([math.nan] * missing)
        elif length != span.step:
            raise IntensityFileError(
                f"{point.where}: starts at {point.start:%Y-%m-%dT%H:%M:%SZ}, and "
                f"{span.end:%Y-%m-%dT%H:%M:%SZ} is due: write every step once, in order, and leave "
                "its value empty where it is not known"
            )
        span.values.append(point.value)
    return [_on_the_day(span) for span in found if span.values]


def _checked(points: Sequence[Point], step: timedelta) -> timedelta:
    """Return a step that the store can keep; raises IntensityFileError for another."""
    seconds = step.total_seconds()
    if seconds not in STEPS_S or DAY_S % seconds:
        raise IntensityFileError(
            f"{points[-1].where}: a step of {seconds / 60:g} minutes; 5, 10, 15, 20, 30 and 60 are"
            " known"
        )
    if _since_midnight(points[0].start) % timedelta(seconds=STEPS_S.start):
        raise IntensityFileError(
            f"{points[0].where}: {points[0].start:%H:%M:%S} is not a whole number of steps after "
            "midnight UTC"
        )
    return step


def _on_the_day(span: Span) -> Span:
    """Return a span whose steps begin at midnight UTC: an hour of India is two half hours."""
    seconds = round(span.step.total_seconds())
    finer = math.gcd(seconds, round(_since_midnight(span.start).total_seconds()))
    times = seconds // finer
    values = [value for value in span.values for _ in range(times)] if times > 1 else span.values
    return Span(span.start, timedelta(seconds=finer), values)


def _since_midnight(moment: datetime) -> timedelta:
    return moment - moment.replace(hour=0, minute=0, second=0, microsecond=0)
