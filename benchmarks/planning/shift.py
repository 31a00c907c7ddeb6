"""Fits how much of a zone's usual day comes true, on years that the day was not made of.

Jobs of 4 h with a day of slack wait for the usual best start. `weight` is the slope of what came
against what was usual, of logarithms; the range holds eight in ten of the rest, of waits of 9 h or
more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.calibration.fitting import Trace, rolling, shape_of
from gramwatt.sci.grid.spreads import ShiftRow

HOURS, SPAN_H, FAR_H, EVERY_H = 4, 28, 9, 5
IN_SAMPLE = 1.15
"""A range over that of a year which the day was made of, the only year there is."""


def lines(zones: Mapping[str, Sequence[Trace]]) -> list[str]:
    """Return the lines of intensity_shift.csv."""
    fitted = [row_of(zone, traces) for zone, traces in sorted(zones.items())]
    return [
        "zone,weight,low,high,years,source",
        *(
            f"{row.zone},{row.weight:.2f},{row.low:.3f},{row.high:.3f},{row.years},{row.source}"
            for row in fitted
        ),
    ]


def row_of(zone: str, traces: Sequence[Trace]) -> ShiftRow:
    """Return the row of a zone; of each year, by the usual day of its other years."""
    parts = []
    for trace in traces:
        rest = [other for other in traces if other is not trace] or traces
        parts.append(_decided(trace, shape_of(rest)))
    usual, came, wait_h = np.concatenate(parts, axis=1)
    weight = float(np.clip((usual * came).sum() / (usual * usual).sum(), 0, 1))
    low, high = np.quantile((came - weight * usual)[wait_h >= FAR_H], (0.1, 0.9))
    wider = IN_SAMPLE if len(traces) == 1 else 1.0
    ends = float(np.exp(low * wider)), float(np.exp(high * wider))
    return ShiftRow(
        zone=zone,
        weight=round(weight, 2),
        low=round(ends[0], 3),
        high=round(ends[1], 3),
        years=len(traces),
        source="em-hourly-2021",
    )


def _decided(trace: Trace, shape: np.ndarray) -> np.ndarray:
    """Return, for every fifth hour, the logarithms of the usual and the true ratio of the best
    start to starting at once, and the wait [h].
    """
    usual = rolling(trace.usual(shape / shape.mean(1, keepdims=True)), HOURS)
    truth = rolling(trace.hourly, HOURS)
    starts = np.arange(0, len(usual) - SPAN_H + HOURS, EVERY_H)
    wait_h = usual[starts[:, None] + np.arange(SPAN_H - HOURS + 1)].argmin(1)
    ratios = [np.log(values[starts + wait_h] / values[starts]) for values in (usual, truth)]
    return np.stack([*ratios, wait_h])
