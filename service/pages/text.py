"""Figures, scores and times as people read them on the pages and the terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gramwatt.reports.printable import clean
from gramwatt.reports.sections.daily import month_name
from gramwatt.sci.base.document import SciDoc
from gramwatt.sci.base.formatting import duration, span_text, text, value_text


def sci(row: SciDoc) -> str:
    """SCI per functional unit, such as "1.2 mg CO2e/image"."""
    return value_text(row["g_per_unit"])


def sci_range(row: SciDoc) -> str:
    """The range of an SCI score."""
    return span_text(row["g_per_unit"])


def moment(stamp: str) -> str:
    """A time as written in documents, to the minute."""
    return f"{stamp[:10]} {stamp[11:16]}"


def plain(line: str) -> str:
    """A line without the narrow spaces that not every terminal shows."""
    return line.replace("\u202f", " ").replace("\u00a0", " ")


FILTERS: dict[str, Callable[[Any], str]] = {
    "figure": value_text,
    "figure_range": span_text,
    "figure_text": text,
    "sci": sci,
    "sci_range": sci_range,
    "moment": moment,
    "duration": duration,
    "month_name": month_name,
    "clean": clean,
}
