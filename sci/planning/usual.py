"""What is usual for the hours of a zone's day, for plans without a history of it.

`odbl/intensity_hours.csv` has the usual shape of a day by month. How much of it a day keeps, and
how far days stray from it, is fitted to years that the shape was not made of:
`odbl/intensity_shift.csv`, by `python -m benchmarks.planning --write`. Days count as alike: only
hours of the day are told from each other. Standard library only, so that every command may ask.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import accumulate
from typing import NamedTuple

from msgspec import Struct

from gramwatt.sci.figures.csv_data import rows
from gramwatt.sci.figures.quantity import EIGHT_IN_TEN, Quantity
from gramwatt.sci.grid.spreads import MONTHS, HoursRow, ShiftRow

LEAST_SAVING = 0.01
"""Smaller savings are no reason to wait."""
SAVED = "fraction saved"
LENGTHS_H = (1, 4, 8, 12, 24)
WAITS_H = (0, 2, 4, 6, 8, 12, 24, 48, 72)
WIDTHS = (
    (0.05, 0.34, 0.64, 0.87, 0.98, 1.07, 1.1, 1.3, 1.35),
    (0.05, 0.24, 0.53, 0.79, 0.92, 1.0, 1.1, 1.28, 1.35),
    (0.05, 0.18, 0.41, 0.61, 0.75, 0.88, 0.97, 1.13, 1.2),
    (0.03, 0.13, 0.28, 0.43, 0.56, 0.69, 0.78, 0.95, 1.0),
    (0.02, 0.06, 0.13, 0.2, 0.26, 0.39, 0.61, 0.7, 0.75),
)
"""Ranges by the job's length (rows) and its wait, over those of 4 h after half a day or more: the
mean over 26 zones of what held eight in ten."""
OTHER_YEARS = 1.1
"""Ranges over those of the years that were fitted: grids go on changing."""
ODDS = (
    (0.9, "sure", " (at least 9 in 10)"),
    (0.8, "likely", " (4 in 5)"),
    (0.6, "more likely than not", ""),
    (0.0, "too close to call", ""),
)
"""Words for a probability, from the least that they are said of."""


class UsualDay(Struct, frozen=True):
    """The usual day of a zone: `shape` by month and hour (UTC), as multiples of the day's mean.

    `low` and `high` are the ends, as logarithms, of the ratio of two spans over the usual one.
    """

    zone: str
    shape: Sequence[Sequence[float]]
    low: float
    high: float

    @classmethod
    def of(cls, row: ShiftRow, months: Sequence[Sequence[float]]) -> UsualDay:
        """Return the usual day of hours by month, at any level, and of what days keep of it."""
        shape = [_weighted(hours, row.weight) for hours in months]
        return cls(row.zone, shape, math.log(row.low), math.log(row.high))

    def at(self, moment: datetime) -> float:
        """Return the usual intensity of the hour of a moment, over the mean of its day."""
        moment = moment.astimezone(UTC)
        return self.shape[moment.month - 1][moment.hour]

    def ends(self, wait_h: float, hours: float) -> tuple[float, float]:
        """Return the range, as logarithms, of the ratio of a span [h] so much later to an earlier
        one, over the usual ratio.
        """
        columns = [
            _interpolated(LENGTHS_H, of_wait, hours) for of_wait in zip(*WIDTHS, strict=True)
        ]
        width = OTHER_YEARS * _interpolated(WAITS_H, columns, wait_h)
        return self.low * width, self.high * width

    def source(self, moment: datetime) -> str:
        """Return how figures name it."""
        return (
            f"usual hours of {self.zone} in {moment.astimezone(UTC):%B}, "
            "from the hourly history of Electricity Maps (ODbL 1.0)"
        )


class Waiting(NamedTuple):
    """What waiting usually saves: the best start, the fraction saved, and how likely it is to save
    anything, from 0 to 1.
    """

    start: datetime
    saving: Quantity
    odds: float


def usual_day(zone: str) -> UsualDay | None:
    """Return the usual day of a zone of the catalog; None where it is not known."""
    return _days().get(zone)


def usual_saving(zone: str, hours: float, wait_h: float, now: datetime) -> Waiting | None:
    """Return what a job of `hours` [h] usually saves by waiting at most `wait_h` [h] in a zone.

    None where the hours of the zone are not known. A saving of 0 with odds of 0.5 says that no
    start is better than now. The range is that of eight in ten days.
    """
    day = usual_day(zone)
    if day is None:
        return None
    now = now.astimezone(UTC)
    first = now.replace(minute=0, second=0, microsecond=0)
    into_h = (now - first) / timedelta(hours=1)
    count = math.ceil(into_h + wait_h + hours) + 1
    sums = [0.0, *accumulate(day.at(first + timedelta(hours=hour)) for hour in range(count))]

    def mean(start_h: float) -> float:
        return (_integral(sums, start_h + hours) - _integral(sums, start_h)) / hours

    latest = into_h + wait_h
    edges = [*range(count), *(hour - hours for hour in range(count))]
    starts = [into_h, *sorted(start for start in edges if into_h < start <= latest), latest]
    best = min(starts, key=mean)
    ratio = math.log(mean(best) / mean(into_h))
    low, high = day.ends(best - into_h, hours) if best > into_h else (0.0, 0.0)
    saving = Quantity(
        1 - math.exp(ratio),
        1 - math.exp(ratio + high),
        1 - math.exp(ratio + low),
        SAVED,
        "estimated",
        day.source(now),
    )
    return Waiting(first + timedelta(hours=best), saving, chance_below(ratio, high))


def chance_below(log_ratio: float, high: float) -> float:
    """Return how likely a ratio is below 1, of its logarithm and how far its high end lies above.

    Half the range of eight in ten stands for a normal distribution's.
    """
    if high <= 0:
        return 1.0 if log_ratio < 0 else 0.5
    return math.erfc(log_ratio * EIGHT_IN_TEN / high / math.sqrt(2)) / 2


def odds_word(odds: float) -> str:
    """Return how likely something is, in a word."""
    return _named(odds)[0]


def odds_text(odds: float) -> str:
    """Return how likely something is, in a word and a number."""
    return "".join(_named(odds))


def _named(odds: float) -> tuple[str, str]:
    return next((word, number) for least, word, number in ODDS if odds >= least)


def _integral(sums: Sequence[float], hour: float) -> float:
    whole = min(int(hour), len(sums) - 2)
    return sums[whole] + (hour - whole) * (sums[whole + 1] - sums[whole])


def _interpolated(at: Sequence[float], values: Sequence[float], where: float) -> float:
    """Return a value between the points of a table, and at its ends beyond them."""
    for n in range(1, len(at)):
        if where <= at[n]:
            fraction = max(0.0, (where - at[n - 1]) / (at[n] - at[n - 1]))
            return values[n - 1] + fraction * (values[n] - values[n - 1])
    return values[-1]


@cache
def _days() -> Mapping[str, UsualDay]:
    """Return the usual day of each zone."""
    of_zone: dict[str, list[list[float]]] = {}
    for row in sorted(rows(HoursRow), key=lambda row: row.hour):
        of_zone.setdefault(row.zone, []).append([getattr(row, month) for month in MONTHS])
    return {
        row.zone: UsualDay.of(row, list(zip(*of_zone[row.zone], strict=True)))
        for row in rows(ShiftRow)
        if row.zone in of_zone
    }


def _weighted(hours: Sequence[float], weight: float) -> list[float]:
    """Return a day's shape, with a mean of 1, drawn towards it."""
    drawn = [value**weight for value in hours]
    mean = sum(drawn) / len(drawn)
    return [value / mean for value in drawn]
