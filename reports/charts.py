"""Charts: Vega-Lite specifications as plain data, drawn to SVG without browser or network.

The palette goes from dark to light in stacking order, so that the parts can be distinguished in a
black-and-white print, and avoids pairs that red-green colour blindness confuses. What is estimated
is striped. The field `tip` of a row is what a pointer on its mark shows, by lines, where a browser
draws the chart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from gramwatt.reports.model import Cell, Column, Table
from gramwatt.sci.base.formatting import NARROW_SPACE, span_text, value_text
from gramwatt.sci.base.quantity import QuantityDoc

PALETTE = ("#0b5c46", "#d0643f", "#6fb89a", "#efb54a", "#8d6a9f", "#c9d1cb")
FONT = "Open Sans"
"""A bundled font, so that texts have the same width in the SVG and in print."""
INK = "#33403a"
FAINT = "#dfe5e1"
WIDTH, HEIGHT, BAR_HEIGHT = 700, 230, 26
"""Sizes [px]; every chart has the same width with axes and legend, so that texts match in size."""
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_LEGEND = {"orient": "top", "direction": "horizontal", "symbolType": "square", "symbolSize": 90}
_HATCH = "url(#estimated-{})"
POINTER = "pointer"
"""The name of a layer that is not seen, but found by a pointer; a drawing has none."""
TIP = {"field": "tip", "type": "nominal"}
"""The tooltip of every chart."""
Rows = Sequence[Mapping[str, Any]]


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


def tip(name: str, figure: QuantityDoc) -> list[str]:
    """Return what a pointer on a mark shows of a figure: name, value, range and kind, by lines."""
    span = span_text(figure)
    return [name, value_text(figure), f"range {span}" if span else "exact", figure["kind"]]


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


def columns(
    rows: Rows, *, x_title: str, y_title: str, parts: Sequence[str], names: Sequence[str]
) -> dict[str, Any]:
    """Stacked columns: `rows` hold `name`, `value`, `part`, `rank`, `tip` and `estimated`."""
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
    """Horizontal bars of shares.

    `rows` hold `name`, `share` (0 to 1), `label`, `tip` and `estimated`.
    """
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
    bar = {
        "mark": {"type": "bar", "color": PALETTE[0], "height": 13},
        "encoding": {**hatched_where("datum.estimated", PALETTE[0]), "tooltip": TIP},
    }
    text = {"align": "left", "dx": 5, "type": "text"}
    label = {"mark": text, "encoding": {"text": {"field": "label", "type": "nominal"}}}
    return {
        "$schema": SCHEMA,
        "width": WIDTH,
        "height": BAR_HEIGHT * max(1, len(rows)) + 6,
        "data": {"values": [dict(row) for row in rows]},
        "encoding": {"y": name, "x": share},
        "layer": [bar, label],
    }


def hatched_where(test: str, colour: str) -> dict[str, Any]:
    """Fill and outline of marks: a colour, and its stripes where the test holds."""
    fill = {"condition": {"test": test, "value": hatched(colour)}, "value": colour}
    outline = {"condition": {"test": test, "value": colour}, "value": None}
    return {"fill": fill, "stroke": outline}


def hatched_parts(parts: Sequence[str]) -> list[dict[str, Any]]:
    """Conditions that stripe the estimated marks of each part; colours are those of the palette."""
    return [
        {
            "test": f"datum.estimated && datum.part === {json.dumps(part)}",
            "value": hatched(PALETTE[n % len(PALETTE)]),
        }
        for n, part in enumerate(parts)
    ]


def data_table(caption: str, titles: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
    """Return the table of a chart's data, with names in the first column and figures in the
    others.
    """
    heads = tuple(Column(title, "right" if n else "left") for n, title in enumerate(titles))
    return Table(caption, heads, tuple(tuple(row) for row in rows))


def _spec(rows: Rows, mark: dict[str, Any], encoding: dict[str, Any]) -> dict[str, Any]:
    return {
        "$schema": SCHEMA,
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
            "condition": hatched_parts(parts),
        },
        "order": {"field": "rank", "type": "quantitative"},
        "tooltip": TIP,
    }


@cache
def _register_fonts() -> None:
    """Register the bundled fonts with the chart library, once per process."""
    import vl_convert

    with resources.as_file(resources.files("gramwatt.reports").joinpath("fonts")) as folder:
        vl_convert.register_font_directory(str(folder))
