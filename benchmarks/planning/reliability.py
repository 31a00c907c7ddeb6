"""Whether plans called reliable save in nearly every week that follows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gramwatt.sci.planning.forecast import HORIZON_H, Forecaster
from gramwatt.sci.planning.hours import WEEK_H, Hours
from gramwatt.sci.planning.replay import EVERY_H, judge, replay

KINDS = (
    (1, 24, False),
    (4, 24, False),
    (8, 24, False),
    (24, 24, False),
    (24, 72, False),
    (48, 72, False),
    (24, 72, True),
)
EVERY_WEEKS = 4
"""Between two moments at which the record is asked."""


def positive_weeks(histories: Mapping[str, tuple[Hours, int]]) -> float:
    """The share of weeks with a saving, among the four that follow each `reliable`.

    The record and the forecast are made anew every four weeks, from what lies before.
    """
    positive = weeks = 0
    for hours, cut in histories.values():
        for at in range(cut, len(hours.values) - HORIZON_H - WEEK_H, EVERY_WEEKS * WEEK_H):
            past = hours.until(hours.first + at)
            forecaster = Forecaster.fit(past)
            assert forecaster is not None
            last = min(at + EVERY_WEEKS * WEEK_H, len(hours.values) - HORIZON_H)
            for length, slack, interruptible in KINDS:
                record = replay(past, length, slack, interruptible=interruptible)
                if record is None or not record.reliable:
                    continue
                issues = np.arange(at, last, EVERY_H)
                came = judge(forecaster, hours, issues, length, slack, interruptible=interruptible)
                positive += int((came.weekly() > 0).sum())
                weeks += len(came.weekly())
    return positive / weeks
