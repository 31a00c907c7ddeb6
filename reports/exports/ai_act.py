"""The energy part of the EU AI Act's documentation of general-purpose models.

Regulation (EU) 2024/1689, Annex XI, section 1, point 2, asks for the known or estimated energy
consumption of a model; the Model Documentation Form of the Code of Practice (2025) for the energy
of training in MWh with at least two significant figures, the method, the computation and the time.
That mapping is of 2026-11 and no legal advice.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from gramwatt.reports.exports.common import ExportError
from gramwatt.reports.exports.stages import Stage, stages
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.quantity import total
from gramwatt.sci.base.units import KWH_PER_MWH, S_PER_DAY
from gramwatt.sci.journal.records import ACCELERATORS
from gramwatt.sci.score.sci_for_ai import PROVIDER, persona

FLOP_UNITS = ("flop", "flops")
NOT_KNOWN = "not known"
MAPPING = (
    "Fields of the Model Documentation Form of the Code of Practice for general-purpose AI, and of "
    "Annex XI of Regulation (EU) 2024/1689, as of 2026-11. Not legal advice."
)


def energy_form(name: str, documents: Sequence[JobDoc]) -> str:
    """Return the form as Markdown; raises ExportError where no run made the model."""
    making = [s for s in stages(documents) if persona(s.kind) == PROVIDER]
    if not making:
        raise ExportError("the form is about making a model, and these runs only use one")
    return "\n".join(_lines(name, making)) + "\n"


def _lines(name: str, making: Sequence[Stage]) -> Iterator[str]:
    energy = total(stage.energy_kwh for stage in making)
    assert energy is not None  # each stage has some
    runs = [run for stage in making for run in stage.runs]
    mwh = energy.scaled(1 / KWH_PER_MWH, "MWh")
    title = " ".join(name.split()).replace("<", "\\<")
    yield from (f"# Energy of training: {title}", "", MAPPING, "")
    yield "| field | value |"
    yield "|---|---|"
    known = f"{figures(mwh.value, 2)} MWh"
    yield f"| energy used for training | {known} ({mwh.kind}) |"
    ends = f"{figures(mwh.low, 3)} to {figures(mwh.high, 3)} MWh"
    yield f"| range that holds the true value 8 times in 10 | {ends} |"
    yield f"| computation used for training | {_flop(runs)} |"
    days = sum(run["duration_s"] or 0.0 for run in runs) / S_PER_DAY
    yield f"| duration of training, wall-clock | {figures(days, 3)} days, runs added up |"
    yield f"| duration of training, hardware | {_hardware_days(runs)} |"
    yield f"| computation of inference, benchmarked | {NOT_KNOWN}: no run benchmarks it |"
    yield from ("", "## Method", "", _method(making, runs))
    unknown = sum(stage.unknown for stage in making)
    if unknown:
        yield from ("", f"The energy of {unknown} further runs is not known and in no figure.")


def _method(making: Sequence[Stage], runs: Sequence[JobDoc]) -> str:
    """Return how the energy is known, in about 100 words."""
    joules: dict[str, float] = defaultdict(float)
    for run in runs:
        for device in run["devices"]:
            for kind, amount in device["kinds"].items():
                joules[kind] += amount
    whole = sum(joules.values())
    shares = [f"{amount / whole:.0%} {kind}" for kind, amount in joules.items()] if whole else []
    pues = sorted({run["method"]["pue"]["value"] for run in runs})
    pue = " to ".join(dict.fromkeys(f"{value:.3g}" for value in (pues[0], pues[-1])))
    states = sum(run["state"] != "completed" for run in runs)
    stages_named = ", ".join(stage.kind for stage in making)
    return (
        f"Energy of {len(runs)} runs ({stages_named}), {states} of which did not complete, from "
        "their start to their end, idle time of reserved hardware included. Energy counters and "
        "power readings of accelerators, processors and memory were recorded while the runs ran; "
        f"by how it is known, the energy is {', '.join(shares) or NOT_KNOWN}. The energy of the IT "
        f"equipment was multiplied by the power usage effectiveness (PUE) of the site, {pue}. "
        "Network and shared storage are not included. Ranges combine the errors of meters, models "
        "and PUE. Energy of hardware production is not part of it."
    )


def _flop(runs: Sequence[JobDoc]) -> str:
    """Return the counted FLOP; known only where every run counted some."""
    counts = [
        [row["count"] for row in run["sci"] if row["unit"].lower() in FLOP_UNITS] for run in runs
    ]
    if not all(counts):
        missing = sum(not count for count in counts)
        return f"{NOT_KNOWN}: {missing} of {len(runs)} runs counted no flop"
    return f"{sum(count[0] for count in counts):.3g} FLOP, counted by the runs"


def _hardware_days(runs: Sequence[JobDoc]) -> str:
    """Days of each accelerator's time, by its name."""
    days: dict[str, float] = defaultdict(float)
    for run in runs:
        for device in run["devices"]:
            if device["class"] in ACCELERATORS:
                name = " ".join(device["name"].split()).replace("|", "\\|").replace("<", "\\<")
                days[name] += device["share"] * (run["duration_s"] or 0.0) / S_PER_DAY
    found = (f"{figures(amount, 3)} days of {name}" for name, amount in days.items())
    return "; ".join(found) or "no accelerator"


def figures(value: float, count: int) -> str:
    """Return a number with so many significant figures, without an exponent."""
    if not value:
        return "0"
    rounded = float(f"{value:.{count - 1}e}")
    places = count - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:.{max(places, 0)}f}"
