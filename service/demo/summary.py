"""The demo's summary: a dozen lines, the two jobs side by side."""

from __future__ import annotations

import math
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gramwatt.sci import units
from gramwatt.service.demo import DEMO_PUE, DEMO_PUE_REASON

if TYPE_CHECKING:
    from gramwatt.service.demo.flow import Demonstrated

PREFIXES = ("p", "n", "µ", "m", "", "k", "M")
UNPREFIXED = PREFIXES.index("")
UNKNOWN = "unknown"
LABEL_WIDTH, COLUMN_WIDTH = 15, 38


def summary(jobs: Sequence[Demonstrated], pue: float) -> str:
    """What the demo prints in the end; `jobs` are at least one, in the order they ran."""
    documents = [job.document for job in jobs]
    rows = [
        ("", [job.label for job in jobs]),
        ("energy E", [energy(doc["energy_kwh"]) for doc in documents]),
        ("operational O", [mass(doc["operational_g"]) for doc in documents]),
        ("embodied M", [mass(doc["embodied_g"]) for doc in documents]),
        ("SCI", [score(doc) for doc in documents]),
        ("data quality", [quality(doc["data_quality"]) for doc in documents]),
        ("report", [_paths(job.reports) for job in jobs]),
    ]
    lines = [standing(documents[0]), f"PUE {pue:g}, declared: {_pue_reason(pue)}", ""]
    lines += [_row(label, cells) for label, cells in rows]
    return "\n".join([*lines, "", f"Open the pages of all jobs with:  {_command()} serve"])


def standing(document: Mapping[str, Any]) -> str:
    """The first line: whether the score conforms, with which intensity, and why not."""
    intensity = document["method"]["intensity_g_per_kwh"]["value"]
    grid = f"{intensity:.0f} gCO2e/kWh"
    if document["zone"] is None:
        return (
            f"{document['conformance']}: without a zone the world average ({grid}) is used; "
            "say where this machine is, as in --zone DE"
        )
    return f"{document['conformance']}: zone {document['zone']}, {grid}"


def energy(doc: Mapping[str, Any] | None) -> str:
    """IT energy with its range, from kWh to the unit it is readable in."""
    wh_per_kwh = units.J_PER_KWH / units.S_PER_HOUR
    return _figure(doc, "Wh", wh_per_kwh)


def mass(doc: Mapping[str, Any] | None) -> str:
    """Greenhouse gas emissions [gCO2e] with their range."""
    return _figure(doc, "gCO2e", 1.0)


def score(document: Mapping[str, Any]) -> str:
    """SCI per functional unit with its range."""
    items = [f"{mass(item['g_per_unit'])} per {item['unit']}" for item in document["sci"]]
    return ", ".join(items) or UNKNOWN


def quality(doc: Mapping[str, Any]) -> str:
    """The grade with the shares of energy behind it."""
    shares = [f"{share:.0%} {kind}" for kind, share in doc["energy"].items() if share >= 0.005]
    return f"{doc['grade']} (energy {', '.join(shares) or UNKNOWN})"


def _figure(doc: Mapping[str, Any] | None, unit: str, factor: float) -> str:
    if doc is None:
        return UNKNOWN
    value, low, high = (float(doc[key]) * factor for key in ("value", "low", "high"))
    thousands = math.floor(math.log10(value or high or 1.0) / 3)
    step = min(max(thousands + UNPREFIXED, 0), len(PREFIXES) - 1)
    scale = 1000.0 ** (step - UNPREFIXED)
    shown = [_two_digits(number / scale) for number in (value, low, high)]
    return f"{shown[0]} {PREFIXES[step]}{unit} ({shown[1]} to {shown[2]})"


def _two_digits(number: float) -> str:
    # The ranges here are tens of percent wide: a third digit would say nothing.
    if number == 0:
        return "0"
    digits = 1 - math.floor(math.log10(abs(number)))
    return f"{round(number, digits):.{max(0, digits)}f}"


def _row(label: str, cells: Sequence[str]) -> str:
    padded = "  ".join(f"{cell:<{COLUMN_WIDTH}}" for cell in cells)
    return f"{label:<{LABEL_WIDTH}}{padded}".rstrip()


def _pue_reason(pue: float) -> str:
    return f"{DEMO_PUE_REASON} (--pue changes it)" if pue == DEMO_PUE else "your --pue"


def _paths(paths: Sequence[Path]) -> str:
    return ", ".join(_short(path) for path in paths)


def _short(path: Path) -> str:
    near = os.path.relpath(path)
    return str(path) if near.startswith("..") else near


def _command() -> str:
    """How this command is called from here: by name when the PATH finds it, else by its path."""
    own = Path(sys.executable).with_name("gramwatt")
    found = shutil.which("gramwatt")
    same = found is not None and Path(found).resolve() == own.resolve()
    return "gramwatt" if same else shlex.quote(_short(own))
