"""A document as one self-contained HTML page, without script and without requests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from gramwatt.reports import glossary
from gramwatt.reports.charts import FAINT, FONT, INK, PALETTE, compiled, draw, patterns
from gramwatt.reports.model import MARK_LEGEND, Block, Chart, Document, Heading, anchor, texts
from gramwatt.reports.printable import ISOLATED, cleaned

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
FONTS = f"{FONT}, system-ui, Segoe UI, Helvetica Neue, DejaVu Sans, sans-serif"
"""The font of the style sheet, by which a browser measures the texts of a chart."""


def render(document: Document, *, interactive: bool = False) -> str:
    """Return the page as text, to be written as UTF-8.

    An interactive one has each chart's specification beside its drawing, for a site's script.
    """
    printable: Document = cleaned(document)
    anchors = list(_anchors(printable.blocks))
    linked = glossary.linker("#word-", printable.names)
    words = glossary.used(" ".join(texts(printable)), printable.names)
    sections = [(a, b.text) for a, b in anchors if isinstance(b, Heading) and b.level == 1]
    return _template().render(
        document=printable,
        policy=POLICY,
        sections=[*sections, *([("words", glossary.TITLE)] if words else [])],
        words=words,
        words_title=glossary.TITLE,
        linked=lambda text: _bdi(linked(text)),
        blocks=[(type(block).__name__, anchor, block) for anchor, block in anchors],
        draw=lambda chart: _picture(chart, printable.mark),
        legend=MARK_LEGEND,
        specification=(
            (lambda chart: _specification(chart, printable.mark)) if interactive else None
        ),
        patterns=Markup(_coloured(patterns())),  # noqa: S704
    )


def _bdi(text: str) -> Markup:
    """Return an escaped text with the names that are isolated in it as elements."""
    return Markup(ISOLATED.sub(r"<bdi>\1</bdi>", str(escape(text))))  # noqa: S704


def _anchors(blocks: Iterable[Block]) -> Iterator[tuple[str, Block]]:
    """(fragment, block): the fragment is unique on the page for a heading, and "" otherwise."""
    seen: dict[str, int] = {}
    for block in blocks:
        name = anchor(block.text) if isinstance(block, Heading) else ""
        seen[name] = seen.get(name, 0) + 1
        yield (f"{name}-{seen[name]}" if name and seen[name] > 1 else name), block


def _picture(chart: Chart, mark: str) -> Markup:
    """Return the chart as SVG in the page's colours and font, so that it follows a dark theme."""
    svg = _svg(chart.spec, mark)
    if chart.narrow is not None:
        svg += f'<div class="slim">{_svg(chart.narrow, mark)}</div>'
    # The chart library escapes every text in the drawing.
    return Markup(svg)  # noqa: S704


def _svg(spec: Mapping[str, Any], mark: str) -> str:
    svg = draw(spec, mark)
    svg = re.sub(r'\s(width|height)="[0-9.]+"', "", svg, count=2)
    svg = svg.replace(
        "<svg ", '<svg aria-hidden="true" ', 1
    )  # the element around it says what it shows
    svg = re.sub(r'\sfont-family="[^"]*"', "", svg)
    return _coloured(svg)


def _specification(chart: Chart, mark: str) -> Markup:
    """Return the chart as Vega in the page's colours and font, safe within a script element."""
    text = json.dumps(compiled(chart.spec, mark), separators=(",", ":"))
    text = _coloured(text).replace(f'"{FONT}"', json.dumps(FONTS)).replace("<", "\\u003c")
    return Markup(text)  # noqa: S704


def _coloured(drawing: str) -> str:
    for colour, name in _COLOURS.items():
        drawing = drawing.replace(f'"{colour}"', f'"var(--{name})"')
    return drawing


_COLOURS = {INK: "ink", FAINT: "faint", **{colour: f"c{n}" for n, colour in enumerate(PALETTE)}}


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("gramwatt.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["bdi"] = _bdi
    return environment.get_template("report.html")
