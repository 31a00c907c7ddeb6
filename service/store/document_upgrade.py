"""Documents stored by an older version: what later versions added is filled in as empty or unknown.

A score revision is never overwritten, so that its document keeps the shape of its day. A rescore
makes the whole of it.
"""

from __future__ import annotations

from typing import Any, cast

from gramwatt.sci.base.document import JobDoc, JobHead, MonthDoc

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
)
_LISTS = (
    "devices",
    "notices",
    "series",
    "embodied_terms",
    "lifetime_sensitivity",
    "windows",
    "days",
)
_UNKNOWN = ("memo", "model_id", "framework", "precision")
_DEVICE = ("hardware", "energy_j", "embodied_g", "mean_utilisation", "peak_memory_b", "max_power_w")


def complete_job(document: dict[str, Any]) -> JobDoc:
    """The document with every field of today's shape that it may lack."""
    added: dict[str, Any] = {name: [] for name in _LISTS}
    added |= dict.fromkeys(_UNKNOWN) | {"tags": {}}
    added["steps"] = {"edges": [], "reserved_s": [], "devices": []}
    whole = {**added, **complete_head(document), "method": _method(document["method"])}
    whole["devices"] = [
        {**dict.fromkeys(_DEVICE), "meter": "unknown", "kinds": {}, "profile": {}, **device}
        for device in whole["devices"]
    ]
    return cast(JobDoc, whole)


def complete_head(head: dict[str, Any]) -> JobHead:
    """The head of a list with every field that an older one may lack."""
    added: dict[str, Any] = {**dict.fromkeys(_UNKNOWN_IN_HEAD), "sci": [], "deviations": []}
    return cast(JobHead, {**added, "provisional": False, **head})


def is_whole_month(document: dict[str, Any]) -> bool:
    """Whether a kept month has every field of today's shape; if not, it is made anew."""
    return set(MonthDoc.__annotations__) <= set(document)


def _method(method: dict[str, Any]) -> dict[str, Any]:
    people = ("persona", "unit_rationale", "unit_values", "tokeniser")
    ai: dict[str, Any] = {**dict.fromkeys(people), "named_units": {}, "statement": ""}
    cost = dict.fromkeys(("largest_uncertainty", "meter_cpu_s", "meter_rss_b", "meter_energy_j"))
    added: dict[str, Any] = {**cost, "supply": "grid", "zones": [], "conversions": [], "inputs": []}
    return {**added, **method, "sci_for_ai": {**ai, **(method.get("sci_for_ai") or {})}}
