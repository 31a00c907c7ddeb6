"""Charts: Vega-Lite specifications as plain data, drawn to SVG without browser or network.

The palette goes from dark to light in stacking order, so that the parts can be distinguished in a
black-and-white print, and avoids pairs that red-green colour blindness confuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from gramwatt.reports.model import Cell, Column, Table

PALETTE = ("#1f4e79", "#c8553d", "#5aa9a3", "#efb54a", "#8d6a9f", "#c9ced4")
FONT = "Open Sans"
"""A bundled font, so that texts have the same width in the SVG and in print."""
INK = "#33404d"
FAINT = "#dfe4e9"
WIDTH, HEIGHT, BAR_HEIGHT = 700, 230, 26
"""Sizes [px]; every chart has the same width with axes and legend, so that texts match in size."""
_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_LEGEND = {"orient": "top", "direction": "horizontal", "symbolType": "square", "symbolSize": 90}
ESTIMATED_OPACITY = 0.45
"""What a model says, beside what was read or published."""
Rows = Sequence[Mapping[str, Any]]


def draw(spec: Mapping[str, Any]) -> str:
    """Draw a specification as SVG text, without network access."""
    _register_fonts()
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg({**spec, "config": _config()}, allowed_base_urls=[])
    return svg


def _config() -> dict[str, Any]:
    """The style of every chart."""
    words = {"labelColor": INK, "titleColor": INK, "labelFontSize": 11, "titleFontSize": 11}
    return {
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


def columns(
    rows: Rows, *, x_title: str, y_title: str, parts: Sequence[str], names: Sequence[str]
) -> dict[str, Any]:
    """Stacked columns: `rows` hold `name`, `value`, `part` and `rank`."""
    encoding = {
        "x": {
            "field": "name",
            "type": "ordinal",
            "title": x_title,
            "scale": {"domain": list(names)},
            "axis": {"labelAngle": 0, "labelOverlap": True, "ticks": False},
        },
        "y": _amount("value", y_title, stack="zero"),
        **_stacked(parts),
    }
    return _spec(rows, {"type": "bar"}, encoding)


def ranked(rows: Rows) -> dict[str, Any]:
    """Horizontal bars of shares: `rows` hold `name`, `share` (0 to 1), `label` and `estimated`."""
    names = [row["name"] for row in rows]
    share = {
        "field": "share",
        "type": "quantitative",
        "title": None,
        "axis": None,
        "scale": {"domain": [0, 1.08]},
    }
    name = {
        "field": "name",
        "type": "nominal",
        "title": None,
        "sort": names,
        "axis": {"domain": False, "ticks": False, "labelPadding": 8, "minExtent": 170},
    }
    light = {"condition": {"test": "datum.estimated", "value": ESTIMATED_OPACITY}, "value": 1}
    bar = {
        "mark": {"type": "bar", "color": PALETTE[0], "height": 13},
        "encoding": {"fillOpacity": light},
    }
    text = {"align": "left", "dx": 5, "type": "text"}
    label = {"mark": text, "encoding": {"text": {"field": "label", "type": "nominal"}}}
    return {
        "$schema": _SCHEMA,
        "width": WIDTH,
        "height": BAR_HEIGHT * max(1, len(rows)) + 6,
        "data": {"values": [dict(row) for row in rows]},
        "encoding": {"y": name, "x": share},
        "layer": [bar, label],
    }


def data_table(caption: str, titles: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
    """The table of a chart's data, with names in the first column and figures in the others."""
    heads = tuple(Column(title, "right" if n else "left") for n, title in enumerate(titles))
    return Table(caption, heads, tuple(tuple(row) for row in rows))


def _spec(rows: Rows, mark: dict[str, Any], encoding: dict[str, Any]) -> dict[str, Any]:
    return {
        "$schema": _SCHEMA,
        "width": WIDTH,
        "height": HEIGHT,
        "data": {"values": [dict(row) for row in rows]},
        "mark": mark,
        "encoding": encoding,
    }


def _amount(field: str, title: str, **more: Any) -> dict[str, Any]:
    axis = {"domain": False, "ticks": False, "tickCount": 5}
    return {"field": field, "type": "quantitative", "title": title, "axis": axis, **more}


def _stacked(parts: Sequence[str]) -> dict[str, Any]:
    scale = {"domain": list(parts), "range": [PALETTE[n % len(PALETTE)] for n in range(len(parts))]}
    return {
        "color": {
            "field": "part",
            "type": "nominal",
            "title": None,
            "scale": scale,
            "sort": list(parts),
            "legend": _LEGEND,
        },
        "order": {"field": "rank", "type": "quantitative"},
    }


@cache
def _register_fonts() -> None:
    """Register the bundled fonts with the chart library, once per process."""
    import vl_convert

    with resources.as_file(resources.files("gramwatt.reports").joinpath("fonts")) as folder:
        vl_convert.register_font_directory(str(folder))
