"""The summary of a scored job that `gramwatt run` prints."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from gramwatt.sci.figures import formatting
from gramwatt.sci.figures.quantity import Quantity, figure_of

WORLD_LINE = "No grid zone was given: the world average intensity is used (say --zone or --region)."
SYNTHETIC_LINE = "A synthetic meter was read, not hardware: this is not an SCI score."
CODES_MAX = 4
WIDTH = 80
"""Columns that an answer keeps to."""
MORE = ((0.9, "sure"), (0.7, "likely"), (0.6, "maybe"), (0.0, "close"))
"""How sure it is that a device emits more than the first of a list, from each probability on."""


def summary_lines(document: Mapping[str, Any], where: str) -> list[str]:
    """Return the summary of a job document, aligned; `where` says how to see its report."""
    rows: list[tuple[str, str]] = [
        ("Energy", quantity_text(figure_of(document, "energy_kwh")) + _measured(document)),
        ("Electricity", quantity_text(figure_of(document, "operational_g"))),
        ("Making the hardware", quantity_text(figure_of(document, "embodied_g"))),
        ("Total", quantity_text(figure_of(document, "total_g"))),
    ]
    for item in document.get("sci") or []:
        counted = f", {formatting.count_text(item['count'])} counted"
        rows.append(
            (f"SCI per {item['unit']}", quantity_text(figure_of(item, "g_per_unit")) + counted)
        )
    rows += [
        ("Data quality", _grade(document)),
        ("Conformance", _conformance(document)),
        ("Notices", _notices(document.get("notices") or [])),
        ("Report", where),
    ]
    width = max(len(label) for label, _ in rows)
    lines = [*_head(document), *(f"  {label:<{width}}  {text}" for label, text in rows)]
    return [formatting.plain(line) for line in lines]


def table(
    rows: Sequence[Sequence[str]], right: Sequence[int] = (), most: int | None = None
) -> list[str]:
    """Return rows of cells as aligned lines; cells of the columns `right` are flush right.

    A column without a cell below its head is left out. The first column is cut where lines would be
    longer than `most`.
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, cells)) if any(cells[1:]) or len(cells) == 1 else 0 for cells in columns]
    if most is not None:
        widths[0] = min(widths[0], most - sum(width + 2 for width in widths[1:] if width) - 2)
        rows = [(cut(row[0], widths[0]), *row[1:]) for row in rows]
    lines = []
    for row in rows:
        cells = (
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
            if width
        )
        lines.append(f"  {'  '.join(cells)}".rstrip())
    return lines


def cut(text: str, most: int) -> str:
    """Return a text of at most so many characters, with dots after a word where it goes on."""
    if len(text) <= most:
        return text
    words = text[: most - 2].rsplit(" ", 1)[0].rstrip(" (,")
    return f"{words[: most - 3]}..."


def wrapped(text: str, indent: str = "") -> list[str]:
    """Return a sentence in lines of a terminal."""
    # Narrow spaces hold a figure together, so that they go last.
    lines = textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
    return [formatting.plain(line).replace("\u2212", "-") for line in lines]


def short_text(figure: Quantity | None) -> str:
    """Return a figure without its range, of carbon without the substance; "" for None."""
    if figure is None:
        return ""
    return formatting.plain(formatting.value_text(figure)).replace(" CO2e", "")


def than_first(ratio: Quantity | None, odds: float | None) -> str:
    """Return how many times the first of a list a row emits, and how sure it is that it is more.

    `odds` is the probability that it emits less.
    """
    if ratio is None:
        return "least"
    more = 1 - (0.5 if odds is None else odds)
    word = next(word for least, word in MORE if more >= least)
    return f"x {significant(ratio.value, 2)} {word}"


def quantity_text(figure: Quantity | None) -> str:
    """Return a quantity with its range for a terminal: "1.23 Wh (1.22 to 1.25)"."""
    return formatting.plain(formatting.text(figure))


def significant(value: float, digits: int) -> str:
    """Return `value` with so many significant digits, for a terminal."""
    return formatting.plain(formatting.number(value, digits))


def _measured(document: Mapping[str, Any]) -> str:
    shares = (document.get("data_quality") or {}).get("energy") or {}
    shown = [f"{formatting.percent(share)} {kind}" for kind, share in shares.items() if share > 0]
    unread = document.get("energy_kwh") is None  # shares are then of what was read
    return "".join(f", {text}{' of what was read' if unread else ''}" for text in shown)


def _head(document: Mapping[str, Any]) -> list[str]:
    name = document.get("name") or document.get("job_id")
    duration_s = document.get("duration_s")
    duration = "" if duration_s is None else f" in {formatting.duration(float(duration_s))}"
    title = f"gramwatt: {name} ({document.get('project')}) {document.get('state')}{duration}"
    codes = {notice.get("code") for notice in document.get("notices") or []}
    warnings = {"meter-synthetic": SYNTHETIC_LINE, "zone-unknown": WORLD_LINE}
    return [*(f"gramwatt: {line}" for code, line in warnings.items() if code in codes), title]


def _grade(document: Mapping[str, Any]) -> str:
    grade = (document.get("data_quality") or {}).get("grade") or formatting.UNKNOWN
    provisional = "; provisional" if document.get("provisional") else ""
    return f"{grade} (A best, D worst){provisional}"


def _conformance(document: Mapping[str, Any]) -> str:
    deviations = document.get("deviations") or []
    text = str(document.get("conformance"))
    return f"{text} ({len(deviations)} listed in the report)" if deviations else text


def _notices(notices: Sequence[Mapping[str, Any]]) -> str:
    codes = list(dict.fromkeys(str(notice.get("code")) for notice in notices))
    if not codes:
        return "none"
    more = ", ..." if len(codes) > CODES_MAX else ""
    return f"{len(notices)} ({', '.join(codes[:CODES_MAX])}{more})"
