"""The form's words: why the unit, how it was measured, what was assumed, and what limits it."""

from __future__ import annotations

from gramwatt.reports.exports.yaml import Data
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.score.sci_for_ai import rationale

RANGE_WORDS = "8 times in 10"


def unit_rationale(document: JobDoc) -> str | None:
    """Why this unit: as declared, else that SCI for AI names it for this kind of job; None else."""
    return rationale(document["sci"][0]["unit"], document["kind"], document["tags"])


def conversion_factors(document: JobDoc) -> list[Data]:
    """The factors by which amounts in other units were counted in this one."""
    return [
        {
            "from": row["unit"],
            "to": row["to"],
            "factor": row["factor"],
            "source": f"{row['source']}, {row['date']}",
        }
        for row in document["method"]["conversions"]
    ]


def methodology(document: JobDoc) -> dict[str, Data]:
    """Approach, details, assumptions, limitations and uncertainties of the score."""
    method = document["method"]
    energy = document["data_quality"]["energy"]
    kinds = ", ".join(f"{share:.0%} {kind}" for kind, share in energy.items())
    return {
        "approach": "hybrid",
        "measurement_details": f"Energy by how it is known: {kinds or 'nothing was read'}.",
        "calculation_details": method["formula"],
        "assumptions": _assumptions(document),
        "limitations": _limitations(document),
        "uncertainties": _uncertainties(document),
        "data_sources": [
            {"name": source, "type": "source", "description": what}
            for what, source in _sources(document).items()
        ],
    }


def _assumptions(document: JobDoc) -> list[Data]:
    life, pue = document["method"]["lifetime_years"], document["method"]["pue"]
    declared = pue["kind"] == "declared"
    return [
        {
            "assumption": f"Hardware is used for {life['value']:g} years",
            "justification": life["source"],
            "impact": "medium",
        },
        {
            "assumption": f"PUE is {pue['value']:g}",
            "justification": pue["source"],
            "impact": "low" if declared else "medium",
        },
    ]


def _limitations(document: JobDoc) -> list[Data]:
    rows: list[Data] = [
        {"limitation": text, "severity": "medium", "mitigation": None}
        for text in document["deviations"]
    ]
    rows += [
        {"limitation": f"{notice['code']}: {notice['message']}", "severity": "low"}
        for notice in document["notices"]
    ]
    rows += [
        {"limitation": f"Not included: {text}", "severity": "low"}
        for text in document["method"]["boundary_excluded"]
    ]
    return rows


def _uncertainties(document: JobDoc) -> list[Data]:
    named = {
        "energy": document["energy_kwh"],
        "operational emissions": document["operational_g"],
        "embodied emissions": document["embodied_g"],
        "total": document["total_g"],
    }
    rows: list[Data] = [
        {
            "source": name,
            "estimated_error": f"{figure['low']:.4g} to {figure['high']:.4g} {figure['unit']}",
            "confidence_level": RANGE_WORDS,
        }
        for name, figure in named.items()
        if figure is not None
    ]
    return rows


def _sources(document: JobDoc) -> dict[str, str]:
    return {row["what"]: row["figure"]["source"] for row in document["method"]["inputs"]}
