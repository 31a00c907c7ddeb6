"""Charts: Vega-Lite specifications as plain data, drawn to SVG without browser or network.

The palette goes from dark to light in stacking order, so that the parts can be distinguished in a
black-and-white print, and avoids pairs that red-green colour blindness confuses. What is estimated
is striped; a thin line is a range. The field `tip` of a row is what a pointer on its mark shows, by
lines, where a browser draws the chart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from gramwatt.sci.figures.formatting import NARROW_SPACE, span_text, value_text
from gramwatt.sci.figures.quantity import Quantity, is_estimate

PALETTE = ("#0b5c46", "#d0643f", "#6fb89a", "#efb54a", "#8d6a9f", "#c9d1cb")
FONT = "Open Sans"
"""A bundled font, so that texts have the same width in the SVG and in print."""
INK = "#33403a"
FAINT = "#dfe5e1"
WIDTH, HEIGHT, BAR_HEIGHT, TREND_HEIGHT, STEPS_HEIGHT = 700, 230, 26, 118, 96
"""Sizes [px]; every chart has the same width with axes and legend, so that texts match in size."""
ROW_HEIGHT, LOW_ROW_HEIGHT, FEW_ROWS = 46, 34, 4
"""Height of a row of the waterfall [px]; the lower one where there are more than FEW_ROWS."""
NARROW = 340
"""Width of a drawing for a phone [px]."""
POWER_HEIGHT, LINE_HEIGHT = 130, 55
"""Heights of the panels over time [px]."""
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_LEGEND = {"orient": "top", "direction": "horizontal", "symbolType": "square", "title": None}
_BAND, _WINDOW = "#c9ced4", "#efe3c4"
_NO_LINES = {"domain": False, "ticks": False}
_RULE = {"type": "rule", "color": INK, "strokeWidth": 1.2}
_LINE = {"color": INK, "strokeWidth": 1.4}
_WATERFALL_ROOM, _LABEL_ROOM, _STEPS_ROOM = 1.5, 1.35, 1.65
"""The axis of the waterfall, and of bars, over the widest range: room for the figures."""
_Y_ROOM = 58
"""Room for the labels of the axis at the left, the same in every panel [px]."""
_HATCH = "url(#estimated-{})"
POINTER = "pointer"
"""The name of a layer that is not seen, but found by a pointer; a drawing has none."""
TIP = {"field": "tip", "type": "nominal"}
"""The tooltip of every chart."""
STEPS = ("total", "more", "less")
"""What a column from one total to the next is."""
PARTS = ("electricity", "hardware")
"""Parts of the columns of carbon, in stacking order."""
Rows = Sequence[Mapping[str, Any]]
Spec = dict[str, Any]


def draw(spec: Mapping[str, Any], mark: str = ".") -> str:
    """Draw a specification as SVG text, without network access; `mark` is the decimal mark.

    What is estimated is filled with the `patterns`, which have to stand beside the drawing.
    """
    return _drawn(json.dumps({**_still(spec), "config": _config(mark)}))


@lru_cache(maxsize=16)
def _drawn(spec: str) -> str:
    """Kept for a moment: a report is often wanted as a page and as a PDF."""
    _register_fonts()
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
    return svg


def _still(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the specification without layers that only a pointer finds."""
    return {
        name: [_still(part) for part in value if part.get("name") != POINTER]
        if name in ("layer", "vconcat")
        else value
        for name, value in spec.items()
    }


def compiled(spec: Mapping[str, Any], mark: str = ".") -> dict[str, Any]:
    """Return the specification as Vega, which a browser draws and which needs the `patterns`
    too.
    """
    import vl_convert

    vega: dict[str, Any] = vl_convert.vegalite_to_vega({**spec, "config": _config(mark)})
    return vega


def hatched(colour: str) -> str:
    """Return the fill of what is estimated: stripes of a colour of the palette."""
    return _HATCH.format(PALETTE.index(colour))


def patterns() -> str:
    """Return the stripes of each colour, as the SVG element that drawings refer to."""
    return "<defs>" + "".join(map(_pattern, range(len(PALETTE)), PALETTE)) + "</defs>"


def _pattern(number: int, colour: str) -> str:
    return (
        f'<pattern id="estimated-{number}" width="5" height="5" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><rect width="5" height="5" fill="{colour}" '
        f'fill-opacity="0.22"/><rect width="2" height="5" fill="{colour}"/></pattern>'
    )


def tip(name: str, figure: Quantity) -> list[str]:
    """Return what a pointer on a mark shows of a figure: name, value, range and kind, by lines."""
    span = span_text(figure)
    return [name, value_text(figure), f"range {span}" if span else "exact", figure.kind]


def _config(mark: str) -> dict[str, Any]:
    """Return the style of every chart."""
    words = {"labelColor": INK, "titleColor": INK, "labelFontSize": 11, "titleFontSize": 11}
    numbers = {"decimal": mark, "thousands": NARROW_SPACE, "grouping": [3], "currency": ["", ""]}
    return {
        "locale": {"number": numbers},
        "aria": False,  # the figure element around the SVG has the alternative text
        "font": FONT,
        "background": None,
        "autosize": {"type": "fit", "contains": "padding"},
        "padding": {"left": 2, "right": 14, "top": 4, "bottom": 2},
        "view": {"stroke": None},
        "axis": {
            **words,
            "titleFontWeight": "normal",
            "domainColor": INK,
            "tickColor": INK,
            "gridColor": FAINT,
            "titlePadding": 8,
            "labelLimit": 260,
        },
        "legend": {**words, "title": None},
        "text": {"color": INK, "fontSize": 11},
        "range": {"category": list(PALETTE)},
    }


def stack(
    name: str,
    title: str,
    figures: Mapping[str, Quantity | None],
    size: float,
    *,
    is_metered: bool,
    **more: Any,
) -> list[Spec]:
    """Return the bars of a column: a figure for each part, in units of `size`. Electricity that
    mostly `is_metered` is not called estimated.
    """
    return [
        {
            "name": name,
            "part": part,
            "rank": rank,
            "value": figure.value / size,
            "tip": tip(f"{title}, {part}", figure),
            "estimated": is_estimate(figure) and not (is_metered and part == PARTS[0]),
            **more,
        }
        for rank, (part, figure) in enumerate(figures.items())
        if figure
    ]


def columns(
    rows: Rows, *, x_title: str, y_title: str, parts: Sequence[str], names: list[str]
) -> Spec:
    """Stacked columns: `rows` hold `name`, `value`, `part`, `rank`, `tip` and `estimated`."""
    axis = {"labelAngle": 0, "labelOverlap": True, "ticks": False}
    encoding = {
        "x": _field("name", "ordinal", title=x_title, scale={"domain": names}, axis=axis),
        "y": _amount("value", title=y_title, axis={**_NO_LINES, "tickCount": 5}, stack="zero"),
        **_stacked(parts),
    }
    return _spec(HEIGHT, {**_layer(rows, "bar", encoding)})


def trend_columns(
    rows: Rows,
    totals: Rows,
    *,
    names: list[str],
    y_title: str,
    breaks: Sequence[str],
    narrow: bool = False,
) -> Spec:
    """Stacked columns by month under the range of each total; dashed ones may still change.

    A `narrow` one, for a phone, names the months without their years.

    `rows` hold `name`, `part`, `rank`, `value`, `tip`, `estimated` and `final`; `totals` hold
    `name`, `value`, `low`, `high` and `label`. The months of `breaks` are scored by another method
    than those before.
    """
    axis: Spec = {"labelAngle": 0, "ticks": False}
    if narrow:
        axis["labelExpr"] = "slice(datum.label, 0, 3)"
    x = _field("name", "ordinal", title=None, scale={"domain": names}, axis=axis)
    stacked = _stacked(PARTS)
    bars = {
        "x": x,
        "y": _amount("value", title=y_title, axis={**_NO_LINES, "tickCount": 4}),
        **stacked,
        "fillOpacity": {"condition": {"test": "datum.final", "value": 1}, "value": 0.08},
        "stroke": _field("part", "nominal", legend=None, scale=stacked["color"]["scale"]),
        "strokeDash": {"condition": {"test": "datum.final", "value": []}, "value": [3, 2]},
    }
    ends = {"x": x, "y": _amount("low"), "y2": {"field": "high"}}
    label = {"x": x, "y": _amount("high"), "text": {"field": "label"}}
    text = {"type": "text", "dy": -7, "baseline": "bottom"}
    layers = [
        _layer(rows, {"type": "bar", "strokeWidth": 1}, bars),
        _layer(totals, _RULE, ends),
        _layer(totals, text, label),
    ]
    if breaks:  # a dashed line before each month of another method
        line = {"type": "rule", "strokeDash": [4, 3], "color": INK, "xOffset": -24}
        layers.append(_layer([{"name": name} for name in breaks], line, {"x": x}))
    # Room for the letters of the axis, which has no title below them.
    padding = {"left": 2, "right": 14, "top": 4, "bottom": 8}
    spec = _spec(TREND_HEIGHT, {"padding": padding, "layer": layers})
    return {**spec, "width": NARROW} if narrow else spec


def ranked(rows: Rows) -> Spec:
    """Horizontal bars of shares.

    `rows` hold `name`, `share` (0 to 1), `label`, `tip` and `estimated`.
    """
    share = _amount("share", axis=None, scale={"domain": [0, 1.08]})
    bar = {
        "mark": {"type": "bar", "color": PALETTE[0], "height": 13},
        "encoding": {**_hatched_where_estimated(PALETTE[0]), "tooltip": TIP},
    }
    text = {"align": "left", "dx": 5, "type": "text"}
    label = {"mark": text, "encoding": {"text": _field("label", "nominal")}}
    height = BAR_HEIGHT * max(1, len(rows)) + 6
    y = _names(rows, {"minExtent": 170})
    return _spec(height, {**_data(rows), "encoding": {"y": y, "x": share}, "layer": [bar, label]})


def ranged_bars(rows: Rows, *, x_title: str) -> Spec:
    """Horizontal bars with their ranges.

    `rows` hold `name`, `value`, `low`, `high`, `label`, `tip` and `estimated`.
    """
    axis = {"tickCount": 5, **_NO_LINES, "gridColor": FAINT}
    most = max((row["high"] for row in rows), default=1.0) * _LABEL_ROOM
    scale = {"domain": [0, most], "nice": False}
    value, low, high = (
        _amount(end, title=x_title, axis=axis, scale=scale) for end in ("value", "low", "high")
    )
    filled = {"x": value, **_hatched_where_estimated(PALETTE[2]), "tooltip": TIP}
    text = {"type": "text", "align": "left", "dx": 6}
    layers = [
        {"mark": {"type": "bar", "height": 12}, "encoding": filled},
        {"mark": _RULE, "encoding": {"x": low, "x2": {"field": "high"}}},
        {"mark": text, "encoding": {"x": high, "text": {"field": "label"}}},
    ]
    height = BAR_HEIGHT * max(1, len(rows)) + 40
    y = _names(rows, {"minExtent": 190})
    return _spec(height, {**_data(rows), "encoding": {"y": y}, "layer": layers})


def bar(
    name: str, start: float, end: float, size: float, words: list[str], *, estimated: bool
) -> dict[str, object]:
    """Return a bar of a waterfall from start to end, in units of `size`; a pointer on it shows
    `words`.
    """
    ends = {"x": start / size, "x2": end / size}
    return {"name": name, **ends, "tip": words, "estimated": estimated}


def waterfall_total(
    name: str, low: float, high: float, size: float, label: str
) -> dict[str, float | str]:
    """Return the total of a row of a waterfall: its range in units of `size`, and its figure."""
    ends = {"low": low / size, "high": high / size, "end": high / size}
    return {"name": name, **ends, "label": label}


def waterfall(bars: Rows, totals: Rows, *, narrow: bool = False) -> Spec:
    """Bars that start where the one above ends, with ranges, and a figure beside each row.

    `bars` hold `name`, `x`, `x2`, `tip` and `estimated`, several to a row where its kinds differ;
    `totals` hold `name`, `low`, `high`, `end` (of the bar or its range) and `label`, one to a row.
    Bars with a `kind` have the colour of their step.
    A `narrow` one, for a phone, has name and figure above each bar.
    """
    names = [row["name"] for row in totals]
    most = max(row["end"] for row in totals) * (1.0 if narrow else _WATERFALL_ROOM)
    y = {**_names(totals, {"labelLimit": 240}), "scale": {"domain": names}}
    words: Spec = {"type": "text", "align": "left", "dx": 8}
    place: Spec = {"x": _amount("end", axis=None, scale={"domain": [0, most], "nice": False})}
    if narrow:
        y["axis"] = None
        totals = [{**row, "label": f"{row['name']}: {row['label']}"} for row in totals]
        words, place = {"type": "text", "align": "left", "dy": -17}, {"x": {"value": 0}}

    def x(field: str) -> Spec:
        return _amount(field, axis=None, scale={"domain": [0, most], "nice": False})

    filled = {
        "x": x("x"),
        "x2": {"field": "x2"},
        **_hatched_where_estimated(PALETTE[0]),
        "tooltip": TIP,
    }
    if any("kind" in row for row in bars):  # of STEPS, with a colour each
        kinds = [
            {"test": f"datum.kind === {json.dumps(kind)}", "value": colour}
            for kind, colour in zip(STEPS, PALETTE, strict=False)
        ]
        filled["fill"] = {"condition": kinds, "value": PALETTE[0]}
    ranged = [row for row in totals if row["low"] < row["high"]]
    ends = [{"name": row["name"], "at": row[end]} for row in ranged for end in ("low", "high")]
    layers = [
        _layer(bars, {"type": "bar", "color": PALETTE[0], "height": 18}, filled),
        _layer(ranged, {"type": "rule", **_LINE}, {"x": x("low"), "x2": {"field": "high"}}),
        _layer(ends, {"type": "tick", **_LINE, "size": 12, "thickness": 1.4}, {"x": x("at")}),
        _layer(totals, words, {**place, "text": _field("label", "nominal")}),
    ]
    row_height = ROW_HEIGHT if narrow or len(totals) <= FEW_ROWS else LOW_ROW_HEIGHT
    spec = _spec(row_height * len(totals), {"encoding": {"y": y}, "layer": layers})
    return {**spec, "width": NARROW} if narrow else spec


def steps(rows: Rows) -> Spec:
    """Columns from one total to the next, between which each effect stands where it begins.

    `rows` hold `name`, `start`, `end`, `kind` (of STEPS), `label`, `below` (its range or "") and
    `tip`.
    """
    names = [str(row["name"]) for row in rows]
    tops = [{**row, "top": max(row["start"], row["end"])} for row in rows]
    most = max(row["top"] for row in tops) * _STEPS_ROOM
    axis: Spec = {"labelAngle": 0, "ticks": False}
    x = _field("name", "ordinal", title=None, scale={"domain": names}, axis=axis)
    y: Spec = {"axis": None, "scale": {"domain": [0, most], "nice": False}}
    scale = {"domain": list(STEPS), "range": list(PALETTE[: len(STEPS)])}
    bars = {
        "x": x,
        "y": _amount("start", **y),
        "y2": {"field": "end"},
        "color": _field("kind", "nominal", legend=None, scale=scale),
        "tooltip": TIP,
    }

    def words(field: str, up: int, rows: Rows, **mark: Any) -> Spec:
        text = {"type": "text", "dy": -up, "baseline": "bottom", **mark}
        return _layer(rows, text, {"x": x, "y": _amount("top", **y), "text": {"field": field}})

    layers = [
        _layer(rows, {"type": "bar", "width": 44}, bars),
        words("label", 3, [row for row in tops if not row["below"]]),
        words("label", 14, [row for row in tops if row["below"]]),
        words("below", 3, [row for row in tops if row["below"]], fontSize=9),
    ]
    padding = {"left": 2, "right": 14, "top": 4, "bottom": 8}
    return _spec(STEPS_HEIGHT, {"padding": padding, "layer": layers})


def over_time(
    power: Rows,
    *,
    y_title: str,
    x_title: str,
    parts: Sequence[tuple[str, bool]],
    end: float,
    lines: Sequence[tuple[str, Rows, list[float] | None]] = (),
    windows: Rows = (),
) -> Spec:
    """Panels over one axis of time: stacked power, then a step line for each of `lines`.

    `power` holds `x`, `x2`, `y`, `part`, `rank` and `tip`; `parts` are the names in stacking order,
    each with whether it is estimated, and so striped. A line is its title, rows of `x`, `x2`, `y`
    and `tip`, a last one of `x` and `y`, and the ends of its axis. `windows` hold `x`, `x2`, `name`
    and `shade` (0 or 1), drawn behind.
    """
    scale = {"domain": [0, end], "nice": False}
    x = {"x": _amount("x", scale=scale), "x2": {"field": "x2"}}
    stack = _power(power, parts, y_title, scale)
    panels = [_panel([*_windows(windows, scale, labelled=True), stack], POWER_HEIGHT)]
    for title, rows, ends in lines:
        step = {"type": "line", "interpolate": "step-after", "color": INK, "strokeWidth": 1.6}
        more = {} if ends is None else {"scale": {"domain": ends}}
        line = _layer(rows, step, {"x": _amount("x", scale=scale), "y": _panel_y(title, **more)})
        # Unseen, it says the figure of a step wherever the pointer is in the panel.
        unseen = {"type": "rect", "opacity": 0}
        steps = _layer([row for row in rows if "x2" in row], unseen, {**x, "tooltip": TIP})
        behind = _windows(windows, scale, labelled=False)
        panels.append(_panel([*behind, line, {"name": POINTER, **steps}], LINE_HEIGHT))
    axis = {"grid": False, "tickCount": 8, "title": x_title}
    for n, panel in enumerate(panels):
        for layer in panel["layer"]:
            last = axis if n == len(panels) - 1 else None
            layer["encoding"]["x"] = {**layer["encoding"]["x"], "axis": last}
    return {"$schema": SCHEMA, "spacing": 14, "vconcat": panels}


def bands(rows: Rows, windows: Rows, parts: Sequence[str], y_title: str) -> Spec:
    """Values over time as lines by part, their ranges as bands, and windows behind them.

    `rows` hold `x` and `x2` (RFC 3339, UTC), `y`, `low`, `high`, `part` and `tip`; `windows` hold
    `x` and `x2`.
    """
    axis = {"grid": False, "tickCount": 8, "format": "%d %b %H:%M"}
    time = {**_field("x", "temporal", scale={"type": "utc"}, title=None), "axis": axis}
    x = {"x": time, "x2": {"field": "x2"}}
    low, mean = (_amount(field, title=y_title) for field in ("low", "y"))
    scale = {"domain": list(parts), "range": _colours(len(parts))}
    legend = {**_LEGEND, "symbolType": "stroke"}
    colour = _field("part", "nominal", title=None, scale=scale, legend=legend)
    band = {"type": "rect", "color": _BAND, "opacity": 0.5}
    layers: list[Spec] = [
        {"mark": band, "encoding": {**x, "y": low, "y2": {"field": "high"}}},
        {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": {**x, "y": mean, "color": colour}},
        {
            "name": POINTER,
            "mark": {"type": "rect", "opacity": 0},
            "encoding": {**x, "tooltip": TIP},
        },
    ]
    if windows:
        layers.insert(0, _layer(windows, {"type": "rect", "color": _WINDOW}, x))
    return _spec(HEIGHT, {**_data(rows), "layer": layers})


def _panel(layers: list[Spec], height: int) -> Spec:
    return {"width": WIDTH - _Y_ROOM, "height": height, "layer": layers}


def _panel_y(title: str, **more: Any) -> Spec:
    axis = {**_NO_LINES, "tickCount": 4, "minExtent": 30, "titleX": -44}
    return _amount("y", title=title, axis=axis, **more)


def _power(
    rows: Rows, parts: Sequence[tuple[str, bool]], y_title: str, scale: Mapping[str, Any]
) -> Spec:
    names = [name for name, _ in parts]
    light = [name for name, estimated in parts if estimated]
    fills = [
        hatched(colour) if estimated else colour
        for (_, estimated), colour in zip(parts, _colours(len(parts)), strict=True)
    ]
    is_solid = f"indexof({json.dumps(light)}, datum.part) < 0"
    ends = {"domain": names, "range": fills}
    legend = {**_LEGEND, "columnPadding": 18}
    colour = _field("part", "nominal", scale=ends, sort=names, legend=legend)
    encoding = {
        "x": _amount("x", bin="binned", scale=scale),
        "x2": {"field": "x2"},
        "y": _panel_y(y_title, stack="zero"),
        "color": colour,
        # An outline in the same colour covers the seams between bars; stripes would show it.
        "stroke": {"condition": {**colour, "legend": None, "test": is_solid}, "value": None},
        "order": _amount("rank"),
        "tooltip": TIP,
    }
    return _layer(rows, {"type": "bar", "binSpacing": 0, "strokeWidth": 0.6}, encoding)


def _windows(rows: Rows, scale: Mapping[str, Any], *, labelled: bool) -> list[Spec]:
    """Return every second window as a pale band, and where each begins with its name."""
    if not rows:
        return []
    x = _amount("x", scale=scale)
    band = {"type": "rect", "color": FAINT, "opacity": 0.6}
    begin = {"type": "rule", "color": INK, "strokeDash": [2, 3], "strokeWidth": 0.8}
    layers = [
        _layer([row for row in rows if row["shade"]], band, {"x": x, "x2": {"field": "x2"}}),
        _layer(rows, begin, {"x": x}),
    ]
    if labelled:
        place = {"align": "left", "baseline": "bottom", "dx": 3, "y": -2, "limit": 90}
        name = {"x": x, "text": _field("name", "nominal")}
        layers.append(_layer(rows, {"type": "text", **place}, name))
    return layers


def _spec(height: int, content: Spec) -> Spec:
    return {"$schema": SCHEMA, "width": WIDTH, "height": height, **content}


def _data(rows: Rows) -> Spec:
    return {"data": {"values": [dict(row) for row in rows]}}


def _layer(rows: Rows, mark: Spec | str, encoding: Spec) -> Spec:
    return {**_data(rows), "mark": mark, "encoding": encoding}


def _field(field: str, kind: str, **more: Any) -> Spec:
    return {"field": field, "type": kind, **more}


def _amount(field: str, **more: Any) -> Spec:
    return _field(field, "quantitative", **more)


def _names(rows: Rows, axis: Spec) -> Spec:
    """Return an axis with the name of each row, in their order."""
    names = [row["name"] for row in rows]
    return _field(
        "name", "nominal", title=None, sort=names, axis={**_NO_LINES, "labelPadding": 8, **axis}
    )


def _colours(number: int) -> list[str]:
    return [PALETTE[n % len(PALETTE)] for n in range(number)]


def _hatched_where_estimated(colour: str) -> Spec:
    """Fill and outline of marks: a colour, and its stripes where the row is an estimate."""
    test = "datum.estimated"
    return {
        "fill": {"condition": {"test": test, "value": hatched(colour)}, "value": colour},
        "stroke": {"condition": {"test": test, "value": colour}, "value": None},
    }


def _stacked(parts: Sequence[str]) -> Spec:
    """Return colours in stacking order, with the estimated marks of each part in stripes."""
    colours = _colours(len(parts))
    stripes = [
        {"test": f"datum.estimated && datum.part === {json.dumps(part)}", "value": hatched(colour)}
        for part, colour in zip(parts, colours, strict=True)
    ]
    scale = {"domain": list(parts), "range": colours}
    colour = _field("part", "nominal", title=None, scale=scale, sort=list(parts), legend=_LEGEND)
    return {"color": {**colour, "condition": stripes}, "order": _amount("rank"), "tooltip": TIP}


@cache
def _register_fonts() -> None:
    """Register the bundled fonts with the chart library, once per process."""
    import vl_convert

    with resources.as_file(resources.files("gramwatt.reports").joinpath("fonts")) as folder:
        vl_convert.register_font_directory(str(folder))
