"""A document as one self-contained HTML page: no request leaves it, nothing in it is script."""

from __future__ import annotations

import re
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from gramwatt.reports.charts import draw
from gramwatt.reports.document import Chart, Document

FONT = "system-ui, sans-serif"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_TYPES = ("Heading", "Text", "Figures", "Facts", "Table", "Chart", "NoticeBlock", "PageBreak")


def render(document: Document) -> str:
    """The page as text (UTF-8 when written)."""
    return _template().render(
        document=document,
        policy=POLICY,
        draw=_picture,
        kind=lambda block: type(block).__name__,
        anchor=anchor,
    )


def anchor(text: str) -> str:
    """A heading's text as the end of an address."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "section"


def _picture(chart: Chart) -> Markup:
    # The drawing comes from the chart library, which escapes the texts it is given. Its colours
    # become the page's own, so that it follows a dark theme.
    svg = draw(chart.spec, font=FONT, ink="#123456").replace("#123456", "currentColor")
    svg = re.sub(r'\s(width|height)="[0-9.]+"', "", svg, count=2)
    return Markup(svg)  # noqa: S704


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("gramwatt.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html")
