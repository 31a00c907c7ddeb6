"""The tables of months: columns and their types, for the store and for a lake alike."""

from __future__ import annotations

from typing import get_args

from gramwatt.sci.figures.document import Quality, Term, Tier
from gramwatt.sci.figures.quantity import KINDS

TERMS = {
    "energy_kwh": "kWh",
    "facility_kwh": "kWh",
    "operational_g": "gCO2e",
    "embodied_g": "gCO2e",
}
"""The terms with a range of their own, and their units; the energy of the facility is E x PUE."""
JOB_TERMS: tuple[Term, ...] = get_args(Term)
QUALITIES: tuple[Quality, ...] = get_args(Quality)
TIERS: tuple[Tier, ...] = get_args(Tier)
ENDS = ("", "_low", "_high")

_OF_JOB = {"month": "text", "project": "text", "job_id": "text"}
TABLES: dict[str, dict[str, str]] = {
    "job_months": {
        **_OF_JOB,
        **dict.fromkeys(("traits", "method", "revision"), "int"),
        "name": "text",
        "model_id": "text?",
        **dict.fromkeys(("persona", "kind", "state", "owner", "hardware", "work"), "text"),
        "region": "text?",
        **dict.fromkeys(("units", "conformance", "grade"), "text"),
        "excluded": "text?",
        **dict.fromkeys(("sweep", "synthetic", "provisional", "ended"), "int"),
        "duration_s": "float?",
        **dict.fromkeys(("hours", "accelerator_hours"), "float"),
        **{
            f"{term}{end}": "float" if "own" in end else "float?"
            for term in TERMS
            for end in (*ENDS, "_own_low", "_own_high")
        },
        **{f"total_g{end}": "float?" for end in ENDS},
        **{f"energy_kwh_{kind}": "float" for kind in KINDS},
        **{f"intensity_kwh_{quality}": "float" for quality in QUALITIES},
        **{f"embodied_g_tier_{tier.lower()}": "float" for tier in TIERS},
        **dict.fromkeys(("accelerators_kwh", "idle_kwh", "idle_g"), "float"),
        **dict.fromkeys(("idle_not_seen_kwh", "wasted_g"), "float"),
    },
    "month_effects": {
        **_OF_JOB,
        "input_id": "text",
        "traits": "int",
        **{f"{term}_{end}": "float" for term in TERMS for end in ("low", "high")},
    },
    "month_days": {
        **_OF_JOB,
        **{"day": "text", "unit": "text", "amount": "float"},
        **dict.fromkeys(("jobs", "jobs_ended", "jobs_unknown"), "int"),
        **{f"{term}{end}": "float?" for term in JOB_TERMS for end in ENDS},
    },
    "month_counts": {**_OF_JOB, "unit": "text", "traits": "int", "amount": "float"},
    "month_components": {
        **_OF_JOB,
        **{"term": "text", "component": "text"},
        **{f"g{end}": "float" for end in ENDS},
    },
    "month_factors": {
        **_OF_JOB,
        "number": "int",
        "traits": "int",
        **dict.fromkeys(("zone", "quality", "series", "source", "pue_kind", "pue_source"), "text"),
        **{f"pue{end}": "float" for end in ENDS},
        "energy_kwh": "float",
        **{f"operational_g{end}": "float" for end in ENDS},
    },
    "month_methods": {
        "method": "int",
        **dict.fromkeys(("engine_version", "catalog_version"), "text"),
        **dict.fromkeys(("intensity_signal", "intensity_basis", "time_zone", "supply"), "text"),
        **{f"lifetime_years{end}": "float" for end in ENDS},
        **dict.fromkeys(("lifetime_kind", "lifetime_source"), "text"),
        **dict.fromkeys(("operational_kind", "embodied_kind", "pue_kind"), "text"),
    },
    "month_method_texts": {"method": "int", "what": "text", "text": "text"},
}
"""The tables and their columns: text, int or float, with ? where a value may be NULL.

In the store each row of a job has the job's key too. `traits` is a number that rows share whose
texts and flags in `job_months` are all alike: GROUP BY it is GROUP BY those. What the scores of a
`method` have in common is in the two tables of methods; several texts (`what`) are the sources of
`energy`, `operational`, `embodied` and `pue`, of every input (`source`), each `zone`, what is
`excluded` from the boundary, and codes of notices (`notice`).
"""
FLAGS = ("sweep", "synthetic", "provisional")
TRAITS = (
    *("project", "model_id", "persona", "kind", "state", "owner", "hardware", "work", "region"),
    *("units", "conformance", *FLAGS, "method"),
)
"""The columns of `job_months` that `traits` stands for."""
