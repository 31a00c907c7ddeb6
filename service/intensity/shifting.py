"""The suggestion to run at another time, beside those of the engine, from a plan as of now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gramwatt.sci.advice.documents import AdviceDoc, SuggestionDoc
from gramwatt.sci.advice.suggest_request import SuggestRequest
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.errors import GramwattError
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.base.units import h_from_s
from gramwatt.sci.planning.plan_request import PlanRequest
from gramwatt.sci.planning.shifting import shift_time
from gramwatt.service.container import Service
from gramwatt.service.intensity.plans import plan_with_regret


def for_request(service: Service, request: SuggestRequest, advice: AdviceDoc) -> None:
    """Add the suggestion for a request that says where and how long."""
    zone = request.zone
    if request.region is not None:
        zone = service.catalog.region(request.region).zone
    if zone is not None and request.hours is not None:
        _add(
            service, zone, request.hours, int(request.count or 1), advice, advice["estimate"] or {}
        )


def for_document(service: Service, document: JobDoc, advice: AdviceDoc) -> None:
    """Add the suggestion for a job that ran, as if it ran again."""
    zones, duration_s = document["method"]["zones"], document["duration_s"]
    if len(zones) == 1 and duration_s:
        accelerators = sum(device["class"] == "gpu" for device in document["devices"])
        _add(service, zones[0], h_from_s(duration_s), max(1, accelerators), advice, document)


def _add(
    service: Service,
    zone: str,
    hours: float,
    count: int,
    advice: AdviceDoc,
    terms: Mapping[str, Any],
) -> None:
    """Put it in the order of the rest: certain savings first, the largest first."""
    operational, total = terms.get("operational_g"), terms.get("total_g")
    share = operational["value"] / total["value"] if operational and total else 1.0
    try:
        answer, regret = plan_with_regret(service, PlanRequest(hours=hours, zone=zone))
    except GramwattError:  # a zone that is no zone; the engine has said so
        return
    found = shift_time(answer, regret, count, share)
    if found is None:
        return
    rows = advice["suggestions"]
    ratio = found["carbon_ratio"]
    if total and ratio is not None:
        saved = Quantity.from_doc(ratio).complement("ratio")
        found["saved_g"] = saved.scaled(total["value"], total["unit"]).to_doc()
    if found["verdict"] != "lower":
        rows.append(found)
        return
    larger = [one for one in rows if one["verdict"] == "lower" and _saved(one) >= _saved(found)]
    place = rows.index(larger[-1]) + 1 if larger else 0
    rows.insert(place, found)


def _saved(one: SuggestionDoc) -> float:
    return one["saved_g"]["value"] if one["saved_g"] else 0.0
