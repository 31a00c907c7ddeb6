"""Charts of the monthly report: the trend by month, and figures side by side with their ranges.

Filled bars are months that cannot change any more, dashed ones may. Striped bars are estimated. The
thin line over a bar is its range.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gramwatt.reports.charts import (
    BAR_HEIGHT,
    FAINT,
    INK,
    PALETTE,
    SCHEMA,
    TIP,
    WIDTH,
    Rows,
    hatched_parts,
    hatched_where,
)

TREND_HEIGHT = 110
_PADDING = {"left": 2, "right": 14, "top": 4, "bottom": 8}
"""Room for the letters of the axis, which has no title below them [px]."""
_RULE = {"type": "rule", "color": INK, "strokeWidth": 1.2}


def trend_columns(
    rows: Rows, totals: Rows, *, names: Sequence[str], y_title: str, breaks: Sequence[str]
) -> dict[str, Any]:
    """Stacked columns by month under the range of each total.

    `rows` hold `name`, `part`, `rank`, `value`, `tip`, `estimated` and `final`; `totals` hold
    `name`, `value`, `low`, `high` and `label`. The months of
    `breaks` are scored by another method than those before.
    """
    parts = ("operational", "embodied")
    x = {
        "field": "name",
        "type": "ordinal",
        "title": None,
        "scale": {"domain": list(names)},
        "axis": {"labelAngle": 0, "ticks": False},
    }
    axis = {"domain": False, "ticks": False, "tickCount": 4}
    bars = {
        "data": {"values": [dict(row) for row in rows]},
        "mark": {"type": "bar", "strokeWidth": 1},
        "encoding": {
            "x": x,
            "y": {"field": "value", "type": "quantitative", "title": y_title, "axis": axis},
            "color": {**_parts(parts), "condition": hatched_parts(parts)},
            "tooltip": TIP,
            "order": {"field": "rank", "type": "quantitative"},
            "fillOpacity": {"condition": {"test": "datum.final", "value": 1}, "value": 0.08},
            "stroke": {"field": "part", "type": "nominal", "legend": None, **_scale(parts)},
            "strokeDash": {"condition": {"test": "datum.final", "value": []}, "value": [3, 2]},
        },
    }
    over = {"data": {"values": [dict(row) for row in totals]}}
    ends = {"y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}}
    text = {"type": "text", "dy": -7, "baseline": "bottom"}
    label = {"text": {"field": "label"}, "y": {"field": "high", "type": "quantitative"}}
    layers: list[dict[str, Any]] = [
        bars,
        {**over, "mark": _RULE, "encoding": {"x": x, **ends}},
        {**over, "mark": text, "encoding": {"x": x, **label}},
    ]
    if breaks:
        layers.append(_breaks(breaks, x))
    return {
        "$schema": SCHEMA,
        "width": WIDTH,
        "height": TREND_HEIGHT,
        "padding": _PADDING,
        "layer": layers,
    }


def ranged_bars(rows: Rows, *, x_title: str) -> dict[str, Any]:
    """Horizontal bars with their ranges.

    `rows` hold `name`, `value`, `low`, `high`, `label`, `tip` and `estimated`.
    """
    names = [row["name"] for row in rows]
    name = {
        "field": "name",
        "type": "nominal",
        "title": None,
        "sort": names,
        "axis": {"domain": False, "ticks": False, "labelPadding": 8, "minExtent": 190},
    }
    axis = {"tickCount": 5, "domain": False, "ticks": False, "gridColor": FAINT}
    value = {"field": "value", "type": "quantitative", "title": x_title, "axis": axis}
    ends = {"x": {**value, "field": "low"}, "x2": {"field": "high"}}
    filled = {**hatched_where("datum.estimated", PALETTE[2]), "tooltip": TIP}
    text = {"type": "text", "align": "left", "dx": 6}
    label = {"x": {**value, "field": "high"}, "text": {"field": "label"}}
    return {
        "$schema": SCHEMA,
        "width": WIDTH,
        "height": BAR_HEIGHT * max(1, len(rows)) + 40,
        "data": {"values": [dict(row) for row in rows]},
        "encoding": {"y": name},
        "layer": [
            {"mark": {"type": "bar", "height": 12}, "encoding": {"x": value, **filled}},
            {"mark": _RULE, "encoding": ends},
            {"mark": text, "encoding": label},
        ],
    }


def _breaks(names: Sequence[str], x: dict[str, Any]) -> dict[str, Any]:
    """Return a dashed line before each month of another method."""
    data = {"data": {"values": [{"name": name} for name in names]}}
    line = {"type": "rule", "strokeDash": [4, 3], "color": INK, "xOffset": -24}
    return {**data, "mark": line, "encoding": {"x": x}}


def _scale(parts: Sequence[str]) -> dict[str, Any]:
    return {"scale": {"domain": list(parts), "range": [PALETTE[0], PALETTE[1]]}}


def _parts(parts: Sequence[str]) -> dict[str, Any]:
    legend = {"orient": "top", "direction": "horizontal", "symbolType": "square"}
    return {"field": "part", "type": "nominal", "title": None, "legend": legend, **_scale(parts)}
