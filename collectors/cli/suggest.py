"""`gramwatt suggest`: what would emit less for the same work, and whether that is certain."""

from __future__ import annotations

from typing import Any

import msgspec

from gramwatt.collectors.cli.options import request_command
from gramwatt.collectors.cli.summary import quantity_text, significant
from gramwatt.collectors.settings.catalogs import user_catalog
from gramwatt.collectors.settings.config import resolve
from gramwatt.sci.advice.documents import AdviceDoc, SuggestionDoc
from gramwatt.sci.advice.engine import suggest
from gramwatt.sci.advice.suggest_request import SuggestRequest, parse_suggest_request
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.figures.units import G_PER_KG

HELPS = {
    "hardware": "Present part: catalog id or name.",
    "instance": "Cloud instance: aws:p4d.24xlarge.",
    "count": "Devices, as the driver lists them.",
    "hours": "Wall time of the run (h).",
    "model_parameters": "Size of the model.",
    "activated_parameters": "Of a mixture of experts, for one token.",
    "tokens": "Tokens to train on.",
    "batch_size": "Batch, or sequences served.",
    "framework": "pytorch, jax, vllm, ...",
    "mean_power_w": "Of one device (W).",
    "peak_memory_gb": "Of one device (GiB).",
    "utilisation": "Busy share, 0 to 1.",
    "memory_bandwidth_utilisation": "0 to 1.",
    "units": "Such as token=1e9; may be repeated.",
    "provider": "Cloud provider: aws, gcp, azure.",
    "region": "Cloud region: aws:eu-west-1.",
    "zone": "Grid zone: FR, DE, US-CAL-CISO.",
    "candidates": "A part to judge; may be repeated.",
    "lifetime_years": "Hardware life (years).",
    "pue": "PUE of the facility.",
    "host_power_w": "Of all hosts together (W).",
    "runs_per_year": "How often such a job runs.",
}
FIRST = ("hardware-unstated", "memory-disagrees", "input-implausible", "provider-lacks-part")
"""Notices that say how to read the whole answer."""


def answer(document: dict[str, Any]) -> AdviceDoc:
    """Find what would emit less: other hardware, or another way to run.

    Example: gramwatt suggest --hardware nvidia-v100-sxm2-16 --kind training --hours 100 --zone DE
    """
    config = resolve()
    request = parse_suggest_request(document)
    if request.lifetime_years is None:
        request = msgspec.structs.replace(request, lifetime_years=config.lifetime_years)
    return suggest(request, user_catalog(config))


def lines(answer: AdviceDoc) -> list[str]:
    """Return the answer for people: verdict first, then the figures and the reasons."""
    first = [notice for notice in answer.notices if notice.code in FIRST]
    shown = [notice.message for notice in first]
    for suggestion in answer.suggestions:
        shown += _suggestion(suggestion)
    later = [notice for notice in answer.notices if notice not in first]
    shown += [f"Notice: {notice.message}" for notice in later]
    return shown or ["No suggestion."]


def _suggestion(suggestion: SuggestionDoc) -> list[str]:
    name = suggestion.action.replace("-", " ")
    target = f" to {suggestion.target}" if suggestion.target else ""
    devices = "device" if suggestion.count == 1 else "devices"
    shown = [f"{suggestion.verdict}: {name}{target}, {suggestion.count} {devices}"]
    figures = [
        f"{label} x {_ratio(getattr(suggestion, key))}"
        for label, key in (
            ("time", "time_ratio"),
            ("energy", "energy_ratio"),
            ("carbon", "carbon_ratio"),
        )
        if getattr(suggestion, key) is not None
    ]
    if suggestion.saved_g is not None and suggestion.verdict == "lower":
        figures.append(f"saves {quantity_text(suggestion.saved_g)}")
        if suggestion.yearly_kg is not None:
            yearly = suggestion.yearly_kg.scaled(G_PER_KG, "gCO2e")
            figures.append(f"{quantity_text(yearly)} a year")
    if figures:
        shown.append(f"    {'; '.join(figures)} [{suggestion.basis}]")
    effort = suggestion.effort
    if effort is not None and suggestion.verdict == "lower":
        shown.append(f"    effort {effort.level}: {effort.reason}")
    by_ownership = suggestion.by_ownership
    if len(set(by_ownership.values())) > 1:
        shown.append(
            "    " + "; ".join(f"{had}: {verdict}" for had, verdict in by_ownership.items())
        )
    if suggestion.likely and suggestion.verdict != "lower":
        shown.append("    likely lower (4 in 5), not certain")
    reasons = [reason for reason in suggestion.reasons if " times as long (" not in reason]
    return shown + [f"    - {reason}" for reason in reasons]


def _ratio(figure: Quantity) -> str:
    low, high = (_end(end) for end in (figure.low, figure.high))
    return f"{significant(figure.value, 2)} ({low} to {high})"


def _end(ratio: float) -> str:
    """Return an end of a range, not rounded to 1 where it lies below or above."""
    text = significant(ratio, 2)
    return significant(ratio, 4) if float(text) == 1 and ratio != 1 else text


command = request_command(SuggestRequest, HELPS, answer, lines)
