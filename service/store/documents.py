"""Documents as the store keeps them: JSON texts, read back in today's shape.

A score revision is never overwritten, so an older one keeps the shape of its release. Reading adds
what later releases added, as empty or unknown; only a rescore fills it in.
"""

from __future__ import annotations

import json
from typing import Any, cast

from gramwatt.sci.analysis.documents import MonthDoc, StatementDoc
from gramwatt.sci.base.document import JobDoc, JobHead

_OVER_TIME = ("series", "steps", "intensity")
"""What is long in a job document and read only by the job's own report and exports."""

_HEAD_FIELDS = tuple(JobHead.__annotations__)
_UNKNOWN_IN_HEAD = (
    "exit_code",
    "ended_at",
    "duration_s",
    "zone",
    "region",
    "energy_kwh",
    "operational_g",
    "embodied_g",
    "total_g",
    "excluded",
)
_LISTS = (
    "devices",
    "notices",
    "series",
    "intensity",
    "embodied_terms",
    "lifetime_sensitivity",
    "windows",
    "days",
    "corrections",
)
_UNKNOWN = ("memo", "model_id", "framework", "precision")
_MONTH_LISTS = (
    "trend",
    "budgets",
    "components",
    "ledger",
    "chargeback",
    "by_project",
    "work",
    "advice",
    "followed",
    "methods",
)
_MONTH_UNKNOWN = (
    "revision",
    "revised",
    "provisional",
    "change_parts",
    "boundary",
    "market_based",
    "idle_not_seen_kwh",
)
_WINDOW = ("energy_kwh", "operational_g", "embodied_g", "total_g")
_DEVICE = (
    *("hardware", "energy_j", "embodied_g", "mean_utilisation", "peak_memory_b", "max_power_w"),
    *("codecarbon_w", "model_w"),
)


def to_text(document: object) -> str:
    """The document as compact JSON; NaN and infinity have no place in it."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def split_job(document: JobDoc) -> tuple[str, str]:
    """A job document as two texts: without what changes over time, and that part alone."""
    rest = {name: value for name, value in document.items() if name not in _OVER_TIME}
    over_time = {name: value for name, value in document.items() if name in _OVER_TIME}
    return to_text(rest), to_text(over_time)


def read_job(text: str, series: str = "{}") -> JobDoc:
    """The job document of two texts; empty over time without the second."""
    return _complete_job({**json.loads(text), **json.loads(series)})


def head_text(document: JobDoc) -> str:
    """The fields of a job document that lists show."""
    return to_text({name: value for name, value in document.items() if name in _HEAD_FIELDS})


def read_head(text: str) -> JobHead:
    """The head of a job as lists show it."""
    return _complete_head(json.loads(text))


def read_month(text: str) -> MonthDoc:
    """The document of a month in today's shape; what a former release did not know is empty."""
    document = json.loads(text)
    added: dict[str, Any] = {name: [] for name in _MONTH_LISTS} | dict.fromkeys(_MONTH_UNKNOWN)
    added |= {"examined_jobs": 0, "statement": dict.fromkeys(StatementDoc.__annotations__)}
    whole = {**added, **document}
    whole["models"] = [{"unfinished_g": None, **row} for row in whole["models"]]
    return cast(MonthDoc, whole)


def _complete_job(document: dict[str, Any]) -> JobDoc:
    added: dict[str, Any] = {name: [] for name in _LISTS}
    added |= dict.fromkeys(_UNKNOWN) | {"uncertainty": {}}
    added["steps"] = {"edges": [], "reserved_s": [], "devices": []}
    whole = {**added, **_complete_head(document), "method": _complete_method(document["method"])}
    whole["devices"] = [
        {**dict.fromkeys(_DEVICE), "meter": "unknown", "kinds": {}, "profile": {}, **device}
        for device in whole["devices"]
    ]
    _complete_days(whole)
    _complete_steps(whole)
    whole["series"] = [{"utilisation": None, **point} for point in whole["series"]]
    whole["windows"] = [{**dict.fromkeys(_WINDOW), **window} for window in whole["windows"]]
    return cast(JobDoc, whole)


def _complete_steps(whole: dict[str, Any]) -> None:
    """Add node and PUE of a step's device: before, ids were unique and one PUE held for all."""
    nodes = {device["device_id"]: device["node"] for device in whole["devices"]}
    pue = whole["method"]["pue"]["value"]
    rows = whole["steps"]["devices"]
    rows = [{"node": nodes.get(row["device_id"]), "pue": pue, **row} for row in rows]
    whole["steps"] = {**whole["steps"], "devices": rows}


def _complete_days(whole: dict[str, Any]) -> None:
    """Divide a job without units among its days as M is, where its release did not."""
    days = whole["days"]
    if [row["unit"] for row in whole["sci"]] != ["job"] or any(day["counts"] for day in days):
        return
    grams = [day["embodied_g"]["value"] if day["embodied_g"] else 0.0 for day in days]
    for day, of_day in zip(days, grams, strict=True):
        day["counts"] = {"job": of_day / sum(grams) if sum(grams) else 1 / len(days)}


def _complete_head(head: dict[str, Any]) -> JobHead:
    added: dict[str, Any] = {**dict.fromkeys(_UNKNOWN_IN_HEAD), "sci": [], "deviations": []}
    added["tags"] = {}
    return cast(JobHead, {**added, "provisional": False, **head})


def _complete_method(method: dict[str, Any]) -> dict[str, Any]:
    declared = ("persona", "unit_rationale", "unit_values", "tokeniser")
    ai: dict[str, Any] = {**dict.fromkeys(declared), "named_units": {}, "statement": ""}
    meter = dict.fromkeys(("largest_uncertainty", "meter_cpu_s", "meter_rss_b", "meter_energy_j"))
    lists: dict[str, Any] = {"zones": [], "conversions": [], "inputs": []}
    known = {**meter, **lists, "supply": "grid", **method}
    unstated = {"symbol": "", "of": None, "count": 1}
    known["inputs"] = [{"name": row["what"], **unstated, **row} for row in known["inputs"]]
    return {**known, "sci_for_ai": {**ai, **(method.get("sci_for_ai") or {})}}
