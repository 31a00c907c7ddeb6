"""The present run: the answer "keep what you have", or where the job would fit if there is none.

What a training takes is device hours by 6 x N x D over the same share of every part's peak rate: an
order of magnitude, and no comparison of parts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gramwatt.sci.advice.actions.texts import by_rule
from gramwatt.sci.advice.constraints.memory import memory_need
from gramwatt.sci.advice.constraints.slices import split_name
from gramwatt.sci.advice.documents import Suggestion
from gramwatt.sci.advice.prediction.predict import families_measured
from gramwatt.sci.advice.prediction.ratio_range import unchanged
from gramwatt.sci.advice.work import Work
from gramwatt.sci.base.errors import ScoreError
from gramwatt.sci.base.notices import Notice
from gramwatt.sci.base.quantity import QuantityDoc
from gramwatt.sci.base.units import G_PER_KG
from gramwatt.sci.catalog.catalog import Hardware
from gramwatt.sci.estimate.estimate import EstimateDoc, estimate
from gramwatt.sci.grid.zones import AnnualIntensity

LESS_MEMORY_TRAINING: tuple[tuple[str, dict[str, Any]], ...] = (
    ("method lora", {"method": "lora"}),
    ("method qlora", {"method": "qlora"}),
)
LESS_MEMORY_ELSEWHERE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("8-bit weights", {"precision": "int8"}),
    ("4-bit weights", {"precision": "int4"}),
)
"""Changes that need less memory, where models are trained and elsewhere."""
SHOWN = 8
"""Parts that are listed when the request names none."""
MONTH_H = 720.0
"""Thirty days, in which a long training is expected to end."""
DESKS = ("consumer", "workstation")
"""Intended uses of parts that are listed last."""


def keep(work: Work, compared: Sequence[Suggestion]) -> list[Suggestion]:
    """Return the answer "keep what you have", where no other part's saving is certain.

    Also where others save, but would have to be bought and none certainly repays that within the
    job. It is not given where nothing was compared, or nothing is known of all that would be
    feasible. A part that cannot hold the job is not to be kept, with the arithmetic.
    """
    if work.part is None:
        return []
    if work.misfit:
        return [_not_kept(work, work.part.id)]
    others = [one for one in compared if one.target != work.present_id]
    unjudged = sum(one.verdict == "unknown" for one in others)
    lower = [one for one in others if one.verdict == "lower"]
    if not others or (lower and not too_short(work, lower)):
        return []
    if unjudged and not any(one.carbon_ratio for one in others):
        return []
    same = unchanged("the present run over itself")
    apart = f" ({unjudged} could not be judged)" if unjudged else ""
    count = f"{len(others)} other part{'s' if len(others) > 1 else ''}"
    reason = f"of {count} compared{apart}, none saves carbon for certain: keep {work.present_id}"
    if lower:
        reason = (
            f"of {count} compared{apart}, none certainly repays its embodied carbon within this "
            f"job of {work.hours:g} h: keep {work.present_id}, unless one is already there or "
            "rented"
        )
    return [
        by_rule(
            work,
            "keep",
            same,
            [reason],
            time_ratio=same,
            energy_ratio=same,
            operating_point="as now",
        )
    ]


def too_short(work: Work, lower: Sequence[Suggestion]) -> bool:
    """Tell whether parts that save would have to be bought, and the job repays none of them."""
    if work.rented or work.request.ownership in ("owned", "rented") or work.hours is None:
        return False
    return not any(needs_no_purchase(one) for one in lower)


def needs_no_purchase(one: Suggestion) -> bool:
    """Tell whether a saving holds for hardware that is bought for it, or needs none."""
    return one.by_ownership is None or one.by_ownership["to-buy"] == "lower"


def _not_kept(work: Work, part: str) -> Suggestion:
    text = f"the job as asked does not fit {work.count:g} x {part}: nothing can be compared with it"
    reasons = [text, *work.misfit, *_smaller(work)]
    impossible = by_rule(work, "keep", None, reasons, operating_point="as now")
    return replace(impossible, verdict="not-feasible")


def _smaller(work: Work) -> list[str]:
    """Return what would make it fit the present part."""
    part, request = work.part, work.request
    if part is None or part.memory_gb is None or request.peak_memory_gb is not None:
        return []
    trains = work.classified.name == "training"
    reasons = []
    for name, change in LESS_MEMORY_TRAINING if trains else LESS_MEMORY_ELSEWHERE:
        need = memory_need(replace(request, **change))
        if need is not None and need.fits(part.memory_gb, work.count):
            reasons.append(f"{name} needs {need.total_gib or 0.0:.1f} GiB and would fit")
    return reasons


def fewest_devices(work: Work, part: Hardware) -> float:
    """Return how many devices a part is judged at: those asked for, else the fewest to hold it.

    Named candidates are judged at the count of the request, one where it says none.
    """
    request = work.request
    if request.count is not None or request.candidates is not None or work.part is not None:
        return work.count
    if "edge" in part.intended_use and part.device_class != "gpu":
        return work.count  # such chips have no link to split a model over
    if work.need is None or work.need.each_gib is not None or not part.memory_gb:
        return work.count
    return float(work.need.devices(part.memory_gb))


def best_measured(work: Work, compared: Sequence[Suggestion]) -> tuple[list[Suggestion], Notice]:
    """Return the feasible parts of which most was measured, then those that need fewest devices.

    The notice says how many were looked at.
    """
    feasible = [one for one in compared if one.verdict != "not-feasible"]
    families = families_measured(work.classified.name)

    def order(one: Suggestion) -> tuple[bool, bool, int, float]:
        part = work.catalog.hardware(one.target or "")
        desk = any(use in DESKS for use in part.intended_use)
        return part.memory_gb is None, desk, -families.get(part.id, 0), one.count

    shown = sorted(feasible, key=order)[:SHOWN]
    text = (
        f"{len(compared)} parts looked at: {len(feasible)} can take the job by memory, software "
        f"and use, {len(compared) - len(feasible)} cannot; {len(shown)} shown, those of which most "
        "was measured first. Name candidates to see others and why."
    )
    return with_hours(work, shown), Notice("candidates-shortened", text, "suggestions")


def with_hours(work: Work, compared: Sequence[Suggestion]) -> list[Suggestion]:
    """Return the suggestions, feasible ones with what this training would take in front."""
    request = work.request
    if request.model_parameters is None or request.tokens is None:
        return list(compared)
    return [
        one
        if one.verdict == "not-feasible"
        else replace(one, reasons=[*_hours(work, one), *one.reasons])
        for one in compared
    ]


def _hours(work: Work, one: Suggestion) -> list[str]:
    if split_name(one.target or "")[1]:
        return []  # of a slice there is no estimate
    asked = work.request.estimate(hardware=one.target)
    try:
        answer = estimate(asked, work.catalog, AnnualIntensity(work.catalog))
    except ScoreError:
        return []
    return _hours_reasons(answer, one.count)


def _hours_reasons(answer: EstimateDoc, count: float) -> list[str]:
    hours = answer["device_hours"]
    if hours is None:
        return []
    text = f"about {_range(hours, 1)} device hours for this training"
    if answer["energy_kwh"]:
        text += f", {_range(answer['energy_kwh'], 1)} kWh"
    if answer["total_g"]:
        text += f", {_range(answer['total_g'], G_PER_KG)} kg CO2e with embodied carbon"
    text += " (6 x N x D at one share of peak rates for all parts: no comparison of them)"
    days = f"{hours['value'] / count / 24:,.1f} days on {count:g}"
    if hours["value"] > count * MONTH_H:
        days += f", or 30 days on {math.ceil(hours['value'] / MONTH_H):,}, if it scales"
    return [text, days]


def _range(figure: QuantityDoc, unit: float) -> str:
    ends = (figure["value"] / unit, figure["low"] / unit, figure["high"] / unit)
    value, low, high = (f"{float(f'{end:.2g}'):,.0f}" for end in ends)
    return f"{value} ({low} to {high})"
