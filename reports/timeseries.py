"""Power by device class, utilisation and grid intensity over the time of a job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from gramwatt.reports.charts import over_time
from gramwatt.reports.model import Block, Chart, Text
from gramwatt.reports.sections import data_table
from gramwatt.sci.figures.document import SeriesPoint, WindowDoc
from gramwatt.sci.figures.formatting import UNKNOWN, number, percent, prefix
from gramwatt.sci.figures.quantity import ESTIMATES

CLASSES = ("gpu", "accelerator", "module", "cpu", "ram")
"""Device classes in stacking order; others follow."""
MAX_TABLE_STEPS = 60
MAX_LABELLED, MAX_MARKED = 8, 60
"""Windows that are named in the chart, and that are marked at all."""
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
    utilisation: float | None


def timeseries_blocks(
    series: Sequence[SeriesPoint], windows: Sequence[WindowDoc] = ()
) -> list[Block]:
    """Return a chart over the time of the job; a sentence if no energy was read.

    Power is always there, utilisation where a device reported it, intensity where it changed.
    """
    if not series:
        return [Text("No energy was read.")]
    begin = min(datetime.fromisoformat(point.start) for point in series)
    length = max(datetime.fromisoformat(p.end) for p in series) - begin
    per_s, unit = _axis(length.total_seconds())
    steps = [_step(point, begin, per_s) for point in series]
    marked = _marked(windows, begin, per_s)
    return [_chart(steps, unit, marked)]


def _axis(length_s: float) -> tuple[float, str]:
    for limit_s, per, unit in _AXES:
        if length_s <= limit_s:
            return per, unit
    return 86400.0, "d"


def _step(point: SeriesPoint, begin: datetime, per_s: float) -> _Step:
    start = (datetime.fromisoformat(point.start) - begin).total_seconds()
    end = (datetime.fromisoformat(point.end) - begin).total_seconds()
    grid, busy = point.intensity_g_per_kwh, point.utilisation
    power_w = point.energy_j / (end - start)
    return _Step(start / per_s, end / per_s, point.device_class, power_w, point.kind, grid, busy)


def _marked(windows: Sequence[WindowDoc], begin: datetime, per_s: float) -> list[dict[str, Any]]:
    """Return the windows to mark, in order of time; of more than can be seen none."""
    if len(windows) > MAX_MARKED:
        return []
    labelled = len(windows) <= MAX_LABELLED
    return [
        {
            "x": (datetime.fromisoformat(window.start) - begin).total_seconds() / per_s,
            "x2": (datetime.fromisoformat(window.end) - begin).total_seconds() / per_s,
            "name": window.name if labelled else "",
            "shade": n % 2,
        }
        for n, window in enumerate(windows)
    ]


def _chart(steps: Sequence[_Step], unit: str, windows: Sequence[dict[str, Any]]) -> Block:
    totals_w: dict[float, float] = defaultdict(float)
    for step in steps:
        totals_w[step.start] += step.power_w
    size, name = prefix(max(totals_w.values()), "W")
    parts = _parts(steps)
    names = [part for part, _ in parts]
    power = [
        {
            "x": step.start,
            "x2": step.end,
            "y": step.power_w / size,
            "part": _named(step),
            "rank": names.index(_named(step)),
            "tip": _tip(step, unit),
        }
        for step in steps
    ]
    end = max(step.end for step in steps)
    busy, grid = _utilisation(steps, names), _intensity(steps)
    lines = [(title, rows, ends) for title, rows, ends in (busy, grid) if rows]
    spec = over_time(
        power,
        y_title=f"power [{name}]",
        x_title=f"time since the start [{unit}]",
        parts=parts,
        end=end,
        lines=lines,
        windows=windows,
    )
    caption = _caption(bool(busy[1]), bool(grid[1]), parts, windows)
    titles = ("Start", "Class", "Power", "Kind", "In use", "Intensity")
    units = (f" [{unit}]", "", f" [{name}]", "", "", " [gCO2e/kWh]")
    heads = [title + more for title, more in zip(titles, units, strict=True)]
    every = -(-len(steps) // MAX_TABLE_STEPS)
    table = data_table(caption, heads, [_line(step, size) for step in steps[::every]])
    return Chart(caption, _describe(steps), spec, table)


def _parts(steps: Sequence[_Step]) -> list[tuple[str, bool]]:
    """Return the classes in stacking order, what was read of each before what is estimated."""
    present = {(_stack_order(s.part), s.part, s.kind in ESTIMATES, _named(s)) for s in steps}
    return [(name, estimated) for _, _, estimated, name in sorted(present)]


def _named(step: _Step) -> str:
    return f"{step.part} (estimated)" if step.kind in ESTIMATES else step.part


def _tip(step: _Step, unit: str) -> list[str]:
    """Return what a pointer on a bar shows: the class, mean power, kind, and when."""
    span = f"{number(step.start, 4)} to {number(step.end, 4)} {unit}"
    return [step.part, f"{number(step.power_w, 3)} W", step.kind, span]


def _stack_order(name: str) -> int:
    return CLASSES.index(name) if name in CLASSES else len(CLASSES)


_Line = tuple[str, list[dict[str, Any]], list[float] | None]


def _utilisation(steps: Sequence[_Step], order: Sequence[str]) -> _Line:
    """Return the use of the class that is lowest in the stack among those that report one."""
    using = [step for step in steps if step.utilisation is not None]
    if not using:
        return "", [], None
    part = min(using, key=lambda step: order.index(_named(step))).part
    of_part = [step for step in using if step.part == part]
    rows = [
        _point(step, step.utilisation * 100, [f"{part} use", percent(step.utilisation)])
        for step in of_part
        if step.utilisation is not None
    ]
    return f"{part} use [%]", [*rows, _last(rows)], [0, 100]


def _intensity(steps: Sequence[_Step]) -> _Line:
    """Return the grid's intensity; nothing if it is unknown or did not change."""
    by_start = {step.start: step for step in steps if step.intensity is not None}
    ordered = [by_start[start] for start in sorted(by_start)]
    if len({step.intensity for step in ordered}) < 2:
        return "", [], None
    rows = [
        _point(step, step.intensity, ["grid", f"{number(step.intensity, 4)} gCO2e/kWh"])
        for step in ordered
        if step.intensity is not None
    ]
    return "gCO2e/kWh", [*rows, _last(rows)], None


def _point(step: _Step, y: float, words: list[str]) -> dict[str, Any]:
    return {"x": step.start, "x2": step.end, "y": y, "tip": words}


def _last(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return where the line of the rows ends."""
    return {"x": rows[-1]["x2"], "y": rows[-1]["y"]}


def _caption(
    busy: bool, grid: bool, parts: Sequence[tuple[str, bool]], windows: Sequence[Any]
) -> str:
    more = [*(["mean use"] if busy else []), *(["the grid's intensity"] if grid else [])]
    beside = f", with {' and '.join(more)}" if more else ""
    notes = [*(["striped: estimated"] if any(light for _, light in parts) else [])]
    notes += ["bands: windows"] if windows else []
    return f"Mean power over the job{beside}{'; '.join(['', *notes])}"


def _line(step: _Step, size: float) -> tuple[str, ...]:
    return (
        number(step.start, 4),
        step.part,
        number(step.power_w / size, 3),
        step.kind,
        "" if step.utilisation is None else percent(step.utilisation),
        UNKNOWN if step.intensity is None else number(step.intensity, 4),
    )


def _describe(steps: Sequence[_Step]) -> str:
    peaks: dict[str, float] = defaultdict(float)
    for step in steps:
        peaks[step.part] = max(peaks[step.part], step.power_w)
    parts = ", ".join(f"{name} up to {number(watts, 3)} W" for name, watts in peaks.items())
    grid = [step.intensity for step in steps if step.intensity is not None]
    between = f"{number(min(grid), 3)} and {number(max(grid), 3)}" if len(set(grid)) > 1 else ""
    more = f" The grid's intensity is between {between} gCO2e/kWh." if between else ""
    return f"Stacked bars of mean power over time: {parts}.{more}"
