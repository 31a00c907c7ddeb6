"""Charts: Vega-Lite specifications as plain data, drawn to SVG without browser or network.

Colours are the first of the Okabe-Ito palette, told apart by people who confuse red and green; each
class also keeps its place in the stack, so that a black-and-white print can be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gramwatt.reports.document import Chart, Column, Table

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
WIDTH, HEIGHT = 640, 180
_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"


def draw(spec: Mapping[str, Any], *, font: str, ink: str = "#333333") -> str:
    """The specification as SVG text, in the given font and colour of text and axes."""
    import vl_convert

    quiet = {"domainColor": ink, "tickColor": ink, "labelColor": ink, "titleColor": ink}
    config = {
        "font": font,
        "background": None,
        "padding": 12,
        "view": {"stroke": None},
        "axis": {**quiet, "gridOpacity": 0.35, "labelFontSize": 11, "titleFontSize": 11},
        "legend": {"labelColor": ink, "titleColor": ink, "labelFontSize": 11},
        "range": {"category": list(PALETTE)},
    }
    drawn: str = vl_convert.vegalite_to_svg({**spec, "config": config})
    return drawn


def stacked_steps(
    rows: Sequence[Mapping[str, Any]], *, x: str, x_title: str, y_title: str
) -> dict[str, Any]:
    """Steps over time, stacked by `class`: rows hold `x`, `x2`, `y` (mean over the step), `class`.

    `x` is "temporal" for moments or "quantitative" for a time since the start.
    """
    scale = {"scale": {"type": "utc"}} if x == "temporal" else {}
    return {
        "$schema": _SCHEMA,
        "width": WIDTH,
        "height": HEIGHT,
        "data": {"values": [dict(row) for row in rows]},
        "mark": {"type": "bar", "binSpacing": 0},
        "encoding": {
            "x": {"field": "x", "type": x, "title": x_title, "bin": "binned", **scale},
            "x2": {"field": "x2"},
            "y": {"field": "y", "type": "quantitative", "title": y_title, "stack": "zero"},
            "order": {"field": "class"},
            "color": _coloured("class"),
        },
    }


def bars(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], *, x_title: str, y_title: str
) -> dict[str, Any]:
    """Stacked bars in the order of `names`: rows hold `name`, `value` and `part`."""
    return {
        "$schema": _SCHEMA,
        "width": WIDTH,
        "height": HEIGHT,
        "data": {"values": [dict(row) for row in rows]},
        "mark": {"type": "bar"},
        "encoding": {
            "x": {
                "field": "name",
                "type": "nominal",
                "title": x_title,
                "scale": {"domain": list(names)},
                "axis": {"labelAngle": 0, "labelOverlap": True},
            },
            "y": {"field": "value", "type": "quantitative", "title": y_title},
            "color": _coloured("part"),
        },
    }


def shares(rows: Sequence[Mapping[str, Any]], *, title: str) -> dict[str, Any]:
    """One bar in percent made of parts: rows hold `bar`, `part` and `share` (0 to 1)."""
    count = len({row["bar"] for row in rows})
    return {
        "$schema": _SCHEMA,
        "width": WIDTH - 120,
        "height": 34 * max(1, count),
        "data": {"values": [dict(row) for row in rows]},
        "mark": {"type": "bar"},
        "encoding": {
            "y": {"field": "bar", "type": "nominal", "title": None, "sort": None},
            "x": {
                "field": "share",
                "type": "quantitative",
                "title": title,
                "axis": {"format": "%"},
                "scale": {"domain": [0, 1]},
            },
            "color": _coloured("part"),
        },
    }


def _coloured(field: str) -> dict[str, Any]:
    """Colour by `field`, in the order of the rows, with the legend above."""
    legend = {"orient": "top"}
    return {"field": field, "type": "nominal", "title": None, "sort": None, "legend": legend}


def chart(caption: str, alt: str, spec: dict[str, Any], data: Table) -> Chart:
    """A chart block whose data table repeats its caption."""
    return Chart(caption, alt, spec, data)


def data_table(caption: str, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """The table behind a chart: the first column names, the others are figures."""
    columns = tuple(Column(title, "right" if n else "left") for n, title in enumerate(titles))
    return Table(caption, columns, tuple(tuple(row) for row in rows))
