"""What the benchmark of plans takes from a plan."""

from datetime import UTC, datetime

import numpy as np

from benchmarks.planning.__main__ import SHAPE_H, Kind, _came
from gramwatt.sci.grid.zones import Zones
from gramwatt.sci.planning.hours import Hours, hour_of, moment_of
from gramwatt.sci.planning.outlook import ZoneData, expected_hours


def test_a_plan_is_judged_by_the_hours_that_came_and_the_range_that_it_stated():
    first = hour_of(datetime(2024, 1, 1, tzinfo=UTC))
    of_day = 300 + 200 * np.cos(np.arange(24) * np.pi / 12)
    hours = Hours(first, np.tile(of_day, SHAPE_H // 24 + 8))
    now = first + SHAPE_H
    outlook = expected_hours("DE", hours.until(now), "a trace", moment_of(now))
    came = _came("DE", ZoneData(Zones().zone("DE"), outlook), Kind(4, 24), hours, now)
    # At once from midnight: cos of 0 to 45 degrees; the least four hours lie around noon.
    assert came.at_once == of_day[:4].mean()
    assert came.planned < came.at_once / 2
    assert came.low <= came.saved <= came.high
