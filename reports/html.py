"""A document as one self-contained HTML page: no request leaves it.

Without `interactive` nothing in it is script. With it, the charts answer the pointer: the page then
carries the chart library itself, and a policy that lets exactly that one script run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from gramwatt.reports.charts import FAINT, INK, PALETTE, config, draw
from gramwatt.reports.model import Block, Chart, Document, Heading
from gramwatt.reports.printable import cleaned

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)


def render(document: Document, interactive: bool = False) -> str:
    """The page as text (UTF-8 when written)."""
    fit: Document = cleaned(document)
    anchors = list(_anchors(fit.blocks))
    script = _script() if interactive else ""
    return _template().render(
        document=fit,
        policy=f"{POLICY}; script-src '{_digest(script)}'" if script else POLICY,
        sections=[(a, b.text) for a, b in anchors if isinstance(b, Heading) and b.level == 1],
        blocks=[(type(block).__name__, anchor, block) for anchor, block in anchors],
        draw=_picture,
        data=_data if script else None,
        script=Markup(script),  # noqa: S704  # the chart library, no text of a user
    )


def anchor(text: str) -> str:
    """A heading's text as the end of an address."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "section"


def _anchors(blocks: Iterable[Block]) -> Iterator[tuple[str, Block]]:
    """Each block with the address of its heading, "" for any other; no address comes twice."""
    seen: dict[str, int] = {}
    for block in blocks:
        name = anchor(block.text) if isinstance(block, Heading) else ""
        seen[name] = seen.get(name, 0) + 1
        yield (f"{name}-{seen[name]}" if name and seen[name] > 1 else name), block


def _picture(chart: Chart) -> Markup:
    """The drawing, in the page's own colours and letters, so that it follows a dark theme."""
    svg = draw(chart.spec)
    svg = re.sub(r'\s(width|height)="[0-9.]+"', "", svg, count=2)
    svg = re.sub(r'\sfont-family="[^"]*"', "", svg)
    for colour, name in _COLOURS.items():
        svg = svg.replace(f'"{colour}"', f'"var(--{name})"')
    # The chart library escapes the texts that it is given.
    return Markup(svg)  # noqa: S704


_COLOURS = {INK: "ink", FAINT: "faint", **{colour: f"c{n}" for n, colour in enumerate(PALETTE)}}


def _data(chart: Chart) -> Markup:
    """The specification as JSON that cannot end the element it stands in."""
    looks: dict[str, Any] = {**config(), "font": "inherit"}
    text = json.dumps({**chart.spec, "config": looks})
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704


@cache
def _script() -> str:
    import vl_convert

    ours = resources.files("gramwatt.reports").joinpath("templates/charts.js").read_text("utf-8")
    bundle: str = vl_convert.javascript_bundle(ours)
    return bundle.replace("</script", "<\\/script")


def _digest(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


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
