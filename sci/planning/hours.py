"""Hourly intensity of a zone, as an array."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
from msgspec import Struct

Floats = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]
LEAST = 0.1
"""Values below are taken for it [gCO2e/kWh]: logarithms and ratios need more than 0."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = timedelta(hours=1)
DAY_H = 24
WEEK_H = 7 * DAY_H


class Hours(Struct, frozen=True, eq=False):
    """Mean intensity [gCO2e/kWh] of consecutive hours from `first`, counted since 1970 in UTC.

    An hour without data is NaN.
    """

    first: int
    values: Floats

    @property
    def after(self) -> int:
        """Return the hour after the last."""
        return self.first + len(self.values)

    def until(self, hour: int) -> Hours:
        """Return the hours before `hour`."""
        return Hours(self.first, self.values[: max(0, hour - self.first)])

    def filled(self) -> Hours:
        """Return the same without gaps: a missing hour has the value of that hour the day before.

        No value is below `LEAST`. Hours before the first known day are left out; without any known
        day nothing is left.
        """
        values = self.values.copy()
        finite = np.flatnonzero(np.isfinite(values))
        if not len(finite):
            return Hours(self.first, values[:0])
        start = int(finite[0])
        values = np.maximum(values[start:], LEAST)
        for hour in np.flatnonzero(~np.isfinite(values)):
            values[hour] = values[hour - DAY_H] if hour >= DAY_H else values[hour - 1]
        return Hours(self.first + start, values)


def hour_of(moment: datetime) -> int:
    """Return the hour that a moment lies in, counted since 1970 in UTC."""
    return (moment - _EPOCH) // _HOUR


def exact_hour(moment: datetime) -> float:
    """Return a moment in hours since 1970 in UTC."""
    return (moment - _EPOCH) / _HOUR


def moment_of(hour: float) -> datetime:
    """Return when an hour, or a part of one, begins."""
    return _EPOCH + hour * _HOUR


def moment_text(hour: float) -> str:
    """Return when an hour, or a part of one, begins, to the second: 2026-05-01T08:00:00Z."""
    return f"{moment_of(round(hour * 3600) / 3600):%Y-%m-%dT%H:%M:%SZ}"
