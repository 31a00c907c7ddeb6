"""The demo's summary: the two jobs side by side, in about a dozen lines."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gramwatt.sci.figures import formatting
from gramwatt.sci.figures.formatting import plain
from gramwatt.sci.figures.quantity import figure_of

if TYPE_CHECKING:
    from gramwatt.sci.figures.quantity import Quantity
    from gramwatt.service.demo.flow import Training

LABEL_WIDTH = 13
COLUMN_WIDTH = 32
DEMO_PUE = 1.0
"""PUE that the demo declares: most machines it runs on are not in a data centre."""


def summary(jobs: Sequence[Training], pue: float) -> str:
    """Return what the demo prints in the end; `jobs` are at least one, in the order they ran."""
    declared = (
        "declared by the demo: this machine is not in a data centre (--pue)"
        if pue == DEMO_PUE
        else "as declared by you"
    )
    documents = [job.document for job in jobs]
    rows = [
        ("", [job.label for job in jobs]),
        ("energy", [_text(figure_of(doc, "energy_kwh")) for doc in documents]),
        ("electricity", [_text(figure_of(doc, "operational_g")) for doc in documents]),
        ("hardware", [_text(figure_of(doc, "embodied_g")) for doc in documents]),
        ("work", [_counts(doc) for doc in documents]),
        ("SCI", [_scores(doc) for doc in documents]),
        ("quality", [_quality(doc) for doc in documents]),
        ("report", [_names(job.reports) for job in jobs]),
    ]
    lines = [_first_line(documents[0]), f"PUE {pue:.1f}, {declared}", ""]
    lines += [_row(label, cells) for label, cells in rows]
    folder = _short(jobs[0].reports[0].parent) if jobs[0].reports else "."
    lines += ["", f"The reports are in {folder}.", f"The pages of all jobs: {_command()} serve"]
    return "\n".join(lines)


def _first_line(document: Mapping[str, Any]) -> str:
    """Return whether the score conforms, with which intensity, and why not."""
    intensity = document["method"]["intensity_g_per_kwh"]["value"]
    grid = f"{intensity:.0f} gCO2e/kWh"
    if document["zone"] is None:
        return (
            f"{document['conformance']}: without a zone the world average ({grid}) is used; "
            "say where this machine is, as in --zone DE"
        )
    return f"{document['conformance']}: zone {document['zone']}, {grid}"


def _scores(document: Mapping[str, Any]) -> str:
    """SCI per functional unit with its range."""
    items = [_text(figure_of(item, "g_per_unit")) for item in document["sci"]]
    return ", ".join(items) or formatting.UNKNOWN


def _quality(document: Mapping[str, Any]) -> str:
    """Return the grade, with the kinds of energy and their shares."""
    doc = document["data_quality"]
    shares = [f"{formatting.percent(share)} {kind}" for kind, share in doc["energy"].items()]
    read = "energy" if document["energy_kwh"] else "of the energy read"
    return f"{doc['grade']} ({read} {plain(', '.join(shares)) or formatting.UNKNOWN})"


def _counts(document: Mapping[str, Any]) -> str:
    """Return how many functional units were done."""
    items = [f"{plain(formatting.number(i['count'], 6))} {i['unit']}" for i in document["sci"]]
    return ", ".join(items) or formatting.UNKNOWN


def _text(figure: Quantity | None) -> str:
    return plain(formatting.text(figure))


def _row(label: str, cells: Sequence[str]) -> str:
    padded = "  ".join(f"{cell:<{COLUMN_WIDTH}}" for cell in cells)
    return f"{label:<{LABEL_WIDTH}}{padded}".rstrip()


def _names(paths: Sequence[Path]) -> str:
    first, *others = paths or [Path("none")]
    return ", ".join([first.name, *(path.suffix for path in others)])


def _short(path: Path) -> str:
    near = os.path.relpath(path)
    return str(path) if near.startswith("..") else near


def _command() -> str:
    """Return how this command is called from here: by name when the PATH finds it, else by its
    path.
    """
    own = Path(sys.executable).with_name("gramwatt")
    found = shutil.which("gramwatt")
    same = found is not None and Path(found).resolve() == own.resolve()
    return "gramwatt" if same else shlex.quote(_short(own))
