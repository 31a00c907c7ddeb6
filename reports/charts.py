"""Charts: Vega-Lite specifications as plain data, drawn to SVG without browser or network.

The palette goes from dark to light in the order of the stack, so that a black-and-white print keeps
the parts apart, and avoids the pairs that people confuse who do not tell red from green.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from gramwatt.reports.model import Cell, Chart, Column, Table

PALETTE = ("#1f4e79", "#c8553d", "#5aa9a3", "#efb54a", "#8d6a9f", "#c9ced4")
FONT = "Open Sans"
"""Bundled, so that texts are as wide in the drawing as they are in print."""
INK = "#33404d"
FAINT = "#dfe4e9"
WIDTH, HEIGHT, BAR_HEIGHT = 700, 230, 26
"""[px] Every drawing is as wide, axes and legend included, so that all letters are as large."""
_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_LEGEND = {"orient": "top", "direction": "horizontal", "symbolType": "square", "symbolSize": 90}
Rows = Sequence[Mapping[str, Any]]


def draw(spec: Mapping[str, Any]) -> str:
    """The specification as SVG text; nothing is fetched while drawing."""
    _know_fonts()
    import vl_convert

    drawn: str = vl_convert.vegalite_to_svg({**spec, "config": config()}, allowed_base_urls=[])
    return drawn


def config() -> dict[str, Any]:
    """How every chart looks: quiet axes, no frame, our palette."""
    words = {"labelColor": INK, "titleColor": INK, "labelFontSize": 11, "titleFontSize": 11}
    return {
        "aria": False,  # the figure around the drawing has its words
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


def stacked_steps(
    rows: Rows, *, x_title: str, y_title: str, parts: Sequence[str]
) -> dict[str, Any]:
    """What holds for a step each, stacked in the order of `parts`.

    `rows` hold `x` and `x2` (start and end of the step), `y` (mean over it) and `part`.
    """
    encoding = {
        "x": {
            "field": "x",
            "type": "quantitative",
            "title": x_title,
            "bin": "binned",
            "axis": {"grid": False, "tickCount": 8},
        },
        "x2": {"field": "x2"},
        "y": _amount("y", y_title, stack="zero"),
        **_stacked(parts),
    }
    # Steps that touch show a seam at the edges of pixels unless their outline covers it.
    encoding["stroke"] = encoding["color"]
    return _spec(rows, {"type": "bar", "binSpacing": 0, "strokeWidth": 0.6}, encoding)


def line_steps(rows: Rows, *, x_title: str, y_title: str) -> dict[str, Any]:
    """A value that holds for a step each: `rows` hold `x` (start of the step) and `y`."""
    encoding = {
        "x": {
            "field": "x",
            "type": "quantitative",
            "title": x_title,
            "axis": {"grid": False, "tickCount": 8},
            "scale": {"nice": False},
        },
        "y": _amount("y", y_title),
    }
    mark = {"type": "line", "interpolate": "step-after", "color": PALETTE[0], "strokeWidth": 1.8}
    return {**_spec(rows, mark, encoding), "height": HEIGHT * 0.65}


def columns(
    rows: Rows, *, x_title: str, y_title: str, parts: Sequence[str], names: Sequence[str]
) -> dict[str, Any]:
    """Stacked columns: `rows` hold `name` (one of `names`), `value` and `part` (one of `parts`)."""
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
    """Shares of a whole as bars with their figure beside: `name`, `share` (0 to 1) and `label`."""
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
    bar = {"mark": {"type": "bar", "color": PALETTE[0], "height": 13}}
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


def chart(caption: str, alt: str, spec: dict[str, Any], data: Table) -> Chart:
    """A chart block whose data table repeats its caption."""
    return Chart(caption, alt, spec, data)


def data_table(caption: str, titles: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
    """The table behind a chart: the first column names, the others are figures."""
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
def _know_fonts() -> None:
    """Register the bundled fonts for measuring texts, once a process."""
    import vl_convert

    with resources.as_file(resources.files("gramwatt.reports").joinpath("fonts")) as folder:
        vl_convert.register_font_directory(str(folder))
