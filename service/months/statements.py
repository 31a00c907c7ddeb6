"""The statements that sum a month, in the SQL that SQLite, PostgreSQL, DuckDB and Spark share.

Each reads the tables of `sci/month/columns.py`, has `:name` for a parameter and a
condition in place of `{scope}` that any of these tables can answer: `month = :month`, say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gramwatt.sci.figures.quantity import KINDS, WIDEST
from gramwatt.sci.month.columns import ENDS, JOB_TERMS, QUALITIES, TERMS, TIERS, TRAITS

Execute = Callable[[str, Mapping[str, Any]], Iterable[Sequence[Any]]]
"""Runs a statement with its parameters and returns its rows."""
Select = Callable[..., Iterable[Sequence[Any]]]
"""Runs a statement of this module on the rows of a scope, with what else it asks for by name."""

ENERGY_BY_KIND = [f"energy_kwh_{kind}" for kind in KINDS]
INTENSITY_BY_QUALITY = [f"intensity_kwh_{quality}" for quality in QUALITIES]
EMBODIED_BY_TIER = [f"embodied_g_tier_{tier.lower()}" for tier in TIERS]
_ADDED = ("accelerators_kwh", "idle_kwh", "idle_g", "idle_not_seen_kwh", "wasted_g")
COUNTED = "excluded IS NULL"


def _of_term(term: str) -> dict[str, str]:
    """Return the sums that a term's figure is made of (`quantity.total`).

    `plain` counts parts whose range is not one of their logarithm.
    """
    relative = f"{term} > 0 AND {term}_low >= 0 AND {term}_high <= {WIDEST:.0f} * {term}"
    plain = f"({term}_low <> 0 OR {term}_high <> 0) AND NOT ({relative})"
    return {
        f"{term}_known": f"COUNT({term})",
        **{f"{term}{end}": f"COALESCE(SUM({term}{end}), 0)" for end in ENDS},
        f"{term}_plain": f"SUM(CASE WHEN {plain} THEN 1 ELSE 0 END)",
        **{
            f"{term}_own_{end}": f"SUM({term}_own_{end} * {term}_own_{end})"
            for end in ("low", "high")
        },
    }


ADDED: dict[str, str] = {
    "jobs": "COUNT(*)",
    "jobs_ended": "SUM(ended)",
    "jobs_unknown": "COUNT(*) - COUNT(total_g)",
    "idle_jobs": "SUM(CASE WHEN idle_g > 0 THEN 1 ELSE 0 END)",
    "wasting_jobs": "SUM(CASE WHEN wasted_g > 0 THEN 1 ELSE 0 END)",
    **{name: of for term in TERMS for name, of in _of_term(term).items()},
    **{
        name: f"SUM({name})"
        for name in (*ENERGY_BY_KIND, *INTENSITY_BY_QUALITY, *EMBODIED_BY_TIER, *_ADDED)
    },
}
"""What is added over the jobs of a group, by name."""
CELLS = f"""
SELECT traits, {", ".join(f"MIN({name})" for name in TRAITS)}, {", ".join(ADDED.values())}
FROM job_months WHERE {{scope}} AND {COUNTED} GROUP BY traits ORDER BY traits"""
"""The jobs by all their traits; every table adds up some of these rows."""

JOBS = "SELECT COUNT(*) FROM job_months WHERE {scope}"

_CHANGES = ", ".join(f"SUM({term}_low), SUM({term}_high)" for term in TERMS)
EFFECTS = f"""
SELECT input_id, traits, {_CHANGES}
FROM month_effects WHERE {{scope}} GROUP BY input_id, traits ORDER BY input_id"""

_OF_DAY = ", ".join(f"SUM({term}{end})" for term in JOB_TERMS for end in ENDS)
DAYS = f"""
SELECT day, project, unit, SUM(amount), SUM(jobs), SUM(jobs_ended), SUM(jobs_unknown), {_OF_DAY}
FROM month_days WHERE {{scope}} GROUP BY day, project, unit ORDER BY day"""

COUNTS = """
SELECT traits, unit, SUM(amount) FROM month_counts WHERE {scope} GROUP BY traits, unit"""

COMPONENTS = """
SELECT term, component, SUM(g), SUM(g_low), SUM(g_high)
FROM month_components WHERE {scope} GROUP BY term, component ORDER BY term, component"""

FACTORS = """
SELECT traits, zone, quality, series, source, pue_kind, pue_source, pue, pue_low, pue_high,
COUNT(*), SUM(energy_kwh), SUM(operational_g), SUM(operational_g_low), SUM(operational_g_high)
FROM month_factors WHERE {scope}
GROUP BY traits, zone, quality, series, source, pue_kind, pue_source, pue, pue_low, pue_high"""

_OF_JOBS = f"method IN (SELECT method FROM job_months WHERE {{scope}} AND {COUNTED})"
METHODS = f"""
SELECT method, engine_version, catalog_version, intensity_signal, intensity_basis, time_zone,
supply, operational_kind, embodied_kind, pue_kind, lifetime_kind, lifetime_source,
lifetime_years, lifetime_years_low, lifetime_years_high
FROM month_methods WHERE {_OF_JOBS} ORDER BY method"""
METHOD_TEXTS = f"""
SELECT method, what, text FROM month_method_texts WHERE {_OF_JOBS} ORDER BY what, text"""

TOP_COLUMNS = (
    *("job_id", "name", "project", "owner", "state", "duration_s", "method"),
    *(f"{term}{end}" for term in (*JOB_TERMS, "total_g") for end in ENDS),
    *ENERGY_BY_KIND,
)
TOP = f"""
SELECT {", ".join(TOP_COLUMNS)} FROM job_months WHERE {{scope}} AND {COUNTED}
ORDER BY COALESCE(total_g, 0) DESC, job_id LIMIT :most"""

_GRAMS = "COALESCE(operational_g, 0) + COALESCE(embodied_g, 0)"
_WASTE = f"""
SELECT job_id, name, project, hardware, work,
CASE WHEN state IN ('failed', 'killed', 'lost') THEN state ELSE '' END AS outcome,
CASE WHEN state IN ('failed', 'killed', 'lost') THEN {_GRAMS} ELSE wasted_g END AS g
FROM job_months WHERE {{scope}} AND {COUNTED} AND synthetic = 0"""
WASTE = f"""
SELECT hardware, work, outcome, job_id, name, project FROM (
SELECT hardware, work, outcome, job_id, name, project, g,
ROW_NUMBER() OVER (PARTITION BY hardware, work, outcome ORDER BY g DESC, job_id) AS place
FROM ({_WASTE}) AS wasted WHERE g > 0) AS placed
WHERE place <= :most ORDER BY hardware, work, outcome, place"""
"""The jobs that used most to no end: runs without a result, and idle time of all others."""

LACKING = f"""
SELECT job_id, name, project, {{lacking}} AS lacking FROM job_months
WHERE {{scope}} AND {COUNTED} AND {{lacking}} > 0 ORDER BY lacking DESC, job_id LIMIT :most"""

EXCLUDED = """
SELECT job_id, name, project, excluded FROM job_months
WHERE {scope} AND excluded IS NOT NULL ORDER BY job_id"""

LARGEST = f"""
SELECT project, job_id, total_g, hardware, work FROM (
SELECT project, job_id, total_g, hardware, work,
ROW_NUMBER() OVER (PARTITION BY hardware, work ORDER BY total_g DESC, job_id) AS place
FROM job_months WHERE {{scope}} AND {COUNTED} AND synthetic = 0 AND total_g IS NOT NULL) AS placed
WHERE place <= :most"""
"""Jobs to examine for suggestions: no more than `most` of one work on one hardware can be."""


METHOD_OF_JOB = f"""
SELECT job_id, MIN(method) FROM job_months WHERE {{scope}} AND {COUNTED} GROUP BY job_id"""


def month_scope(month: str, project: str | None = None) -> tuple[str, dict[str, Any]]:
    """Return the condition on rows of a month, of a project or of all, and its parameters."""
    if project is None:
        return "month = :month", {"month": month}
    return "month = :month AND project = :project", {"month": month, "project": project}


def selecting(execute: Execute, scope: str, values: Mapping[str, Any]) -> Select:
    """Return how statements of this module run on the rows that a condition holds for."""

    def select(statement: str, lacking: str = "", **parameters: Any) -> Iterable[Sequence[Any]]:
        return execute(statement.format(scope=scope, lacking=lacking), {**values, **parameters})

    return select
