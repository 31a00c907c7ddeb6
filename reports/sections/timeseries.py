"""Power by device class and grid intensity over the time of a job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from gramwatt.reports.charts import data_table, line_steps, stacked_steps
from gramwatt.reports.model import Block, Chart, Heading, Text
from gramwatt.sci.base.document import SeriesPoint
from gramwatt.sci.base.formatting import number, prefix

CLASSES = ("gpu", "accelerator", "module", "cpu", "ram")
"""Device classes in stacking order; others follow."""
MAX_TABLE_STEPS = 60
_AXES = ((300.0, 1.0, "s"), (3 * 3600.0, 60.0, "min"), (4 * 86400.0, 3600.0, "h"))
"""Longest job [s] for a unit of the time axis, seconds in the unit, and its name."""


class _Step(NamedTuple):
    """A point of the series: times since the job's start in the axis' unit, mean power [W]."""

    start: float
    end: float
    part: str
    power_w: float
    kind: str
    intensity: float | None


def timeseries_blocks(series: Sequence[SeriesPoint]) -> list[Block]:
    """Charts of power and, where it changed, grid intensity; a sentence if no energy was read."""
    if not series:
        return [Heading("Energy over time"), Text("No energy was read.")]
    steps, unit = _steps(series)
    return [Heading("Energy over time"), _power(steps, unit), *_intensity(steps, unit)]


def _steps(series: Sequence[SeriesPoint]) -> tuple[list[_Step], str]:
    begin = min(datetime.fromisoformat(point["start"]) for point in series)
    length = max(datetime.fromisoformat(p["end"]) for p in series) - begin
    per, unit = _axis(length.total_seconds())
    steps = []
    for point in series:
        start = (datetime.fromisoformat(point["start"]) - begin).total_seconds()
        end = (datetime.fromisoformat(point["end"]) - begin).total_seconds()
        power_w = point["energy_j"] / (end - start)
        grid = point["intensity_g_per_kwh"]
        part = point["class"]
        steps.append(_Step(start / per, end / per, part, power_w, point["kind"], grid))
    return steps, unit


def _axis(length_s: float) -> tuple[float, str]:
    for limit_s, per, unit in _AXES:
        if length_s <= limit_s:
            return per, unit
    return 86400.0, "d"


def _power(steps: Sequence[_Step], unit: str) -> Block:
    present = {step.part for step in steps}
    parts = sorted(present, key=lambda name: (_stack_order(name), name))
    totals_w: dict[float, float] = defaultdict(float)
    for step in steps:
        totals_w[step.start] += step.power_w
    size, name = prefix(max(totals_w.values()), "W")
    rows = [
        {
            "x": step.start,
            "x2": step.end,
            "y": step.power_w / size,
            "part": step.part,
            "rank": parts.index(step.part),
        }
        for step in steps
    ]
    spec = stacked_steps(
        rows, x_title=f"time since the start [{unit}]", y_title=f"power [{name}]", parts=parts
    )
    lines = [
        (number(step.start, 4), step.part, number(step.power_w / size, 3), step.kind)
        for step in steps
    ]
    caption = "Mean power by device class over the job; the area is the energy"
    titles = (f"Start [{unit}]", "Class", f"Power [{name}]", "Kind")
    return Chart(caption, _describe(steps), spec, data_table(caption, titles, _few(lines)))


def _stack_order(name: str) -> int:
    return CLASSES.index(name) if name in CLASSES else len(CLASSES)


def _intensity(steps: Sequence[_Step], unit: str) -> list[Block]:
    """A chart of the grid's intensity; none if it is unknown or did not change."""
    known = {step.start: step for step in steps if step.intensity is not None}
    ordered = [known[start] for start in sorted(known)]
    values = [step.intensity for step in ordered if step.intensity is not None]
    if len(set(values)) < 2:
        return []
    rows: list[dict[str, Any]] = [{"x": step.start, "y": step.intensity} for step in ordered]
    rows.append({"x": ordered[-1].end, "y": ordered[-1].intensity})
    spec = line_steps(rows, x_title=f"time since the start [{unit}]", y_title="gCO2e/kWh")
    caption = "Carbon intensity of the grid during the job"
    lowest, highest = number(min(values), 3), number(max(values), 3)
    alt = f"Line of grid intensity over time, between {lowest} and {highest} gCO2e/kWh."
    lines = [(number(row["x"], 4), number(row["y"], 4)) for row in rows[:-1]]
    titles = (f"Start [{unit}]", "Intensity [gCO2e/kWh]")
    return [Chart(caption, alt, spec, data_table(caption, titles, _few(lines)))]


def _few(lines: Sequence[tuple[str, ...]]) -> Sequence[tuple[str, ...]]:
    step = max(1, -(-len(lines) // MAX_TABLE_STEPS))
    return lines[::step]


def _describe(steps: Sequence[_Step]) -> str:
    peaks: dict[str, float] = defaultdict(float)
    for step in steps:
        peaks[step.part] = max(peaks[step.part], step.power_w)
    parts = ", ".join(f"{name} up to {number(watts, 3)} W" for name, watts in peaks.items())
    return f"Stacked bars of mean power over time: {parts}."
