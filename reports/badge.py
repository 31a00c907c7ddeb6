"""A badge: a project's carbon per unit of work, or of a month, as a small SVG picture."""

from __future__ import annotations

import unicodedata
from xml.sax.saxutils import escape, quoteattr

from gramwatt.sci.figures.printable import clean

LABEL_MOST, VALUE_MOST = 30, 60
"""Characters of the two halves."""
HEIGHT, BASELINE, PADDING = 20, 14, 6
"""Sizes [px]."""
NARROW, WIDE = 6.6, 12.0
"""Width of a letter at 11 px [px]; texts are stretched to fit, so it need not be exact."""
LABEL_FILL, VALUE_FILL, NOTHING_FILL = "#3b4642", "#0b5c46", "#6b7570"
FONT = "Verdana,DejaVu Sans,sans-serif"


def badge(label: str, value: str, title: str, *, has_figure: bool = True) -> str:
    """Return the badge as SVG; `title` is its text for screen readers, with the range."""
    label, value = _cut(label, LABEL_MOST), _cut(value, VALUE_MOST)
    left, right = _width(label), _width(value)
    whole = left + right
    fill = VALUE_FILL if has_figure else NOTHING_FILL
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{HEIGHT}" role="img" '
        f"aria-label={quoteattr(clean(title))}>"
        f"<title>{escape(clean(title))}</title>"
        f'<rect width="{left}" height="{HEIGHT}" fill="{LABEL_FILL}"/>'
        f'<rect x="{left}" width="{right}" height="{HEIGHT}" fill="{fill}"/>'
        f'<g fill="#ffffff" font-family="{FONT}" font-size="11">'
        f"{_text(label, 0, left)}{_text(value, left, right)}</g></svg>\n"
    )


def _text(words: str, x: int, width: int) -> str:
    length = width - 2 * PADDING
    return (
        f'<text x="{x + PADDING}" y="{BASELINE}" textLength="{length}" '
        f'lengthAdjust="spacingAndGlyphs">{escape(words)}</text>'
    )


def _cut(words: str, most: int) -> str:
    fit = " ".join(clean(words).split())
    return fit if len(fit) <= most else f"{fit[: most - 1]}…"


def _width(words: str) -> int:
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in words)
    return round((len(words) - wide) * NARROW + wide * WIDE) + 2 * PADDING
