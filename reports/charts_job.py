"""Charts of a job's report: the score as a waterfall, and power, use and intensity over time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gramwatt.reports.charts import (
    FAINT,
    INK,
    PALETTE,
    POINTER,
    SCHEMA,
    TIP,
    WIDTH,
    Rows,
    hatched,
    hatched_where,
)

ROW_HEIGHT, LOW_ROW_HEIGHT = 46, 34
"""Height of a row of the waterfall [px]; the lower one where there are more than FEW_ROWS."""
FEW_ROWS = 4
POWER_HEIGHT, LINE_HEIGHT = 130, 55
"""Heights of the panels over time [px]."""
_ROOM = 1.5
"""The axis of the waterfall over its widest range, so that there is room for the figures."""
_Y_ROOM = 58
"""Room for the labels of the axis at the left, the same in every panel [px]."""


def bar(
    name: str, start: float, end: float, size: float, words: list[str], *, estimated: bool
) -> dict[str, object]:
    """Return a bar of a waterfall from start to end, in units of `size`; a pointer on it shows
    `words`.
    """
    ends = {"x": start / size, "x2": end / size}
    return {"name": name, **ends, "tip": words, "estimated": estimated}


def waterfall(bars: Rows, totals: Rows) -> dict[str, Any]:
    """Bars that start where the one above ends, with ranges, and a figure beside each row.

    `bars` hold `name`, `x`, `x2`, `tip` and `estimated`, several to a row where its kinds differ;
    `totals` hold `name`, `low`, `high`, `end` (of the bar or its range) and `label`, one to a row.
    """
    names = [row["name"] for row in totals]
    most = max(row["end"] for row in totals) * _ROOM
    y = {
        "field": "name",
        "type": "nominal",
        "sort": names,
        "title": None,
        "scale": {"domain": names},
        "axis": {"domain": False, "ticks": False, "labelPadding": 8, "labelLimit": 240},
    }
    x = {"type": "quantitative", "axis": None, "scale": {"domain": [0, most], "nice": False}}
    bar = {
        "data": {"values": [dict(row) for row in bars]},
        "mark": {"type": "bar", "color": PALETTE[0], "height": 18},
        "encoding": {
            "x": {**x, "field": "x"},
            "x2": {"field": "x2"},
            **hatched_where("datum.estimated", PALETTE[0]),
            "tooltip": TIP,
        },
    }
    ranged = [row for row in totals if row["low"] < row["high"]]
    rule = _line("rule", ranged, {"x": {**x, "field": "low"}, "x2": {"field": "high"}})
    ends = [{"name": row["name"], "at": row[end]} for row in ranged for end in ("low", "high")]
    tick = _line("tick", ends, {"x": {**x, "field": "at"}}, size=12, thickness=1.4)
    label = {
        "data": {"values": [dict(row) for row in totals]},
        "mark": {"type": "text", "align": "left", "dx": 8},
        "encoding": {"x": {**x, "field": "end"}, "text": {"field": "label", "type": "nominal"}},
    }
    return {
        "$schema": SCHEMA,
        "width": WIDTH,
        "height": (ROW_HEIGHT if len(totals) <= FEW_ROWS else LOW_ROW_HEIGHT) * len(totals),
        "encoding": {"y": y},
        "layer": [bar, rule, tick, label],
    }


def _line(mark: str, rows: Rows, encoding: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    style = {"type": mark, "color": INK, "strokeWidth": 1.4, **more}
    return {"data": {"values": [dict(row) for row in rows]}, "mark": style, "encoding": encoding}


def over_time(
    power: Rows,
    *,
    y_title: str,
    x_title: str,
    parts: Sequence[tuple[str, bool]],
    end: float,
    lines: Sequence[tuple[str, Rows, list[float] | None]] = (),
    windows: Rows = (),
) -> dict[str, Any]:
    """Panels over one axis of time: stacked power, then a step line for each of `lines`.

    `power` holds `x`, `x2`, `y`, `part`, `rank` and `tip`; `parts` are the names in stacking order,
    each with whether it is estimated, and so striped. A line is its title, rows of `x`, `x2`, `y`
    and `tip`, a last one of `x` and `y`, and the ends of its axis. `windows` hold `x`, `x2`, `name`
    and `shade` (0 or 1), drawn behind.
    """
    scale = {"domain": [0, end], "nice": False}
    marked = [*_windows(windows, scale, labelled=True)]
    panels = [_panel([*marked, _stack(power, parts, y_title, scale)], POWER_HEIGHT)]
    for title, rows, ends in lines:
        behind = _windows(windows, scale, labelled=False)
        line = _steps(title, rows, ends, scale)
        panels.append(_panel([*behind, line, _under_pointer(rows, scale)], LINE_HEIGHT))
    axis = {"grid": False, "tickCount": 8, "title": x_title}
    for n, panel in enumerate(panels):
        for layer in panel["layer"]:
            layer["encoding"]["x"]["axis"] = axis if n == len(panels) - 1 else None
    return {"$schema": SCHEMA, "spacing": 14, "vconcat": panels}


def _panel(layers: list[dict[str, Any]], height: int) -> dict[str, Any]:
    return {"width": WIDTH - _Y_ROOM, "height": height, "layer": layers}


def _stack(
    rows: Rows, parts: Sequence[tuple[str, bool]], y_title: str, scale: Mapping[str, Any]
) -> dict[str, Any]:
    names = [name for name, _ in parts]
    light = [name for name, estimated in parts if estimated]
    colours = [PALETTE[n % len(PALETTE)] for n in range(len(parts))]
    colours = [hatched(c) if name in light else c for name, c in zip(names, colours, strict=True)]
    is_solid = f"indexof({json.dumps(light)}, datum.part) < 0"
    legend: dict[str, Any] = {"orient": "top", "direction": "horizontal", "symbolType": "square"}
    legend |= {"title": None, "columnPadding": 18}
    colour = {
        "field": "part",
        "type": "nominal",
        "scale": {"domain": names, "range": colours},
        "sort": names,
        "legend": legend,
    }
    return {
        "data": {"values": [dict(row) for row in rows]},
        "mark": {"type": "bar", "binSpacing": 0, "strokeWidth": 0.6},
        "encoding": {
            "x": {"field": "x", "type": "quantitative", "bin": "binned", "scale": scale},
            "x2": {"field": "x2"},
            "y": _amount(y_title, stack="zero"),
            "color": colour,
            # An outline in the same colour covers the seams between bars; stripes would show it.
            "stroke": {"condition": {**colour, "legend": None, "test": is_solid}, "value": None},
            "order": {"field": "rank", "type": "quantitative"},
            "tooltip": TIP,
        },
    }


def _steps(
    title: str, rows: Rows, ends: list[float] | None, scale: Mapping[str, Any]
) -> dict[str, Any]:
    more = {} if ends is None else {"scale": {"domain": ends}}
    return {
        "data": {"values": [dict(row) for row in rows]},
        "mark": {"type": "line", "interpolate": "step-after", "color": INK, "strokeWidth": 1.6},
        "encoding": {
            "x": {"field": "x", "type": "quantitative", "scale": scale},
            "y": _amount(title, **more),
        },
    }


def _under_pointer(rows: Rows, scale: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is not seen, but says the figure of a step wherever the pointer is in the
    panel.
    """
    return {
        "name": POINTER,
        "data": {"values": [dict(row) for row in rows if "x2" in row]},
        "mark": {"type": "rect", "opacity": 0},
        "encoding": {
            "x": {"field": "x", "type": "quantitative", "scale": scale},
            "x2": {"field": "x2"},
            "tooltip": TIP,
        },
    }


def _amount(title: str, **more: Any) -> dict[str, Any]:
    axis = {"domain": False, "ticks": False, "tickCount": 4, "minExtent": 30, "titleX": -44}
    return {"field": "y", "type": "quantitative", "title": title, "axis": axis, **more}


def _windows(rows: Rows, scale: Mapping[str, Any], *, labelled: bool) -> list[dict[str, Any]]:
    """Return every second window as a pale band, and where each begins with its name."""
    if not rows:
        return []
    x = {"field": "x", "type": "quantitative", "scale": scale}
    data = {"values": [dict(row) for row in rows]}
    shaded = {"values": [dict(row) for row in rows if row["shade"]]}
    band = {
        "data": shaded,
        "mark": {"type": "rect", "color": FAINT, "opacity": 0.6},
        "encoding": {"x": x, "x2": {"field": "x2"}},
    }
    begins = {
        "data": data,
        "mark": {"type": "rule", "color": INK, "strokeDash": [2, 3], "strokeWidth": 0.8},
        "encoding": {"x": dict(x)},
    }
    if not labelled:
        return [band, begins]
    text = {"type": "text", "align": "left", "baseline": "bottom", "dx": 3, "y": -2, "limit": 90}
    names = {
        "data": data,
        "mark": text,
        "encoding": {"x": dict(x), "text": {"field": "name", "type": "nominal"}},
    }
    return [band, begins, names]
