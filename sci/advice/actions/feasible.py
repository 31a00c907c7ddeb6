"""Where a job would fit when there is no present run to compare with, and what training it takes.

Device hours are 6 x N x D over the same share of every part's peak rate: an order of magnitude, and
no comparison of parts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from gramwatt.sci.advice.constraints.slices import split_name
from gramwatt.sci.advice.documents import Suggestion
from gramwatt.sci.advice.prediction.predict import families_measured
from gramwatt.sci.advice.work import Work
from gramwatt.sci.base.errors import ScoreError
from gramwatt.sci.base.notices import Notice
from gramwatt.sci.base.quantity import QuantityDoc
from gramwatt.sci.base.units import G_PER_KG
from gramwatt.sci.catalog.catalog import Hardware
from gramwatt.sci.estimate.estimate import EstimateDoc, estimate
from gramwatt.sci.estimate.request import PRECISIONS, EstimateRequest
from gramwatt.sci.grid.zones import AnnualIntensity

SHOWN = 8
"""Parts that are listed when the request names none."""
MONTH_H = 720.0
"""Thirty days, in which a long training is expected to end."""
DESKS = ("consumer", "workstation")
"""Intended uses of parts that are listed last."""


def fewest_devices(work: Work, part: Hardware) -> float:
    """Devices that the part is judged at: those asked for, else the fewest that hold the job.

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
    """The feasible parts of which most was measured, then those that need the fewest devices.

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
    return with_effort(work, shown), Notice("candidates-shortened", text, "suggestions")


def with_effort(work: Work, compared: Sequence[Suggestion]) -> list[Suggestion]:
    """The suggestions, feasible ones with what this training would take on their part in front."""
    request = work.request
    if request.model_parameters is None or request.tokens is None:
        return list(compared)
    return [
        one
        if one.verdict == "not-feasible"
        else replace(one, reasons=[*_effort(work, one), *one.reasons])
        for one in compared
    ]


def _effort(work: Work, one: Suggestion) -> list[str]:
    request = work.request
    if split_name(one.target or "")[1]:
        return []  # of a slice there is no estimate
    asked = EstimateRequest(
        hardware=one.target,
        zone=request.zone,
        region=request.full_region,
        lifetime_years=request.lifetime_years,
        model_parameters=request.model_parameters,
        tokens=request.tokens,
        precision=request.precision if request.precision in PRECISIONS else None,
        pue=request.pue,
    )
    try:
        answer = estimate(asked, work.catalog, AnnualIntensity(work.catalog))
    except ScoreError:
        return []
    return _effort_reasons(answer, one.count)


def _effort_reasons(answer: EstimateDoc, count: float) -> list[str]:
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
