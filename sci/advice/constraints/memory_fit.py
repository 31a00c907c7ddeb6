"""Where a job would fit when there is no present run to compare with, and what training it takes.

Device hours are 6 x N x D over the same share of every part's peak rate: an order of magnitude, and
no comparison of parts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from gramwatt.sci.advice.constraints.memory import fitting, shortfall
from gramwatt.sci.advice.documents import Suggestion
from gramwatt.sci.advice.prediction.predict import families_measured
from gramwatt.sci.advice.work import Work, full_region
from gramwatt.sci.base.errors import ScoreError
from gramwatt.sci.base.notices import Notice
from gramwatt.sci.base.quantity import QuantityDoc
from gramwatt.sci.base.units import G_PER_KG
from gramwatt.sci.catalog.catalog import Hardware
from gramwatt.sci.estimate.estimate import EstimateDoc, estimate
from gramwatt.sci.estimate.request import EstimateQuestion
from gramwatt.sci.grid.zones import AnnualIntensity

SHOWN = 8
"""Parts that are listed when nobody asked for certain ones."""
MONTH_H = 720.0
"""Thirty days, in which a long training is expected to end."""
DESKS = ("consumer", "workstation")
"""Intended uses of parts that are listed last."""


def fewest(work: Work, part: Hardware) -> float:
    """Devices that the part is judged at: those asked for, else the fewest that hold the job.

    Named candidates are judged at the count of the question, one where it says none.
    """
    question = work.question
    if question.count is not None or question.candidates is not None or work.part is not None:
        return work.count
    if "edge" in part.intended_use and part.device_class != "gpu":
        return work.count  # such chips have no link to split a model over
    if work.need is None or work.need.each_gib is not None or not part.memory_gb:
        return work.count
    return float(work.need.devices(part.memory_gb))


def listed(work: Work, swaps: Sequence[Suggestion]) -> list[Suggestion]:
    """The feasible parts of which most was measured, then those that need the fewest devices."""
    feasible = [one for one in swaps if one.verdict != "not-feasible"]
    known = families_measured(work.classified.name)
    feasible.sort(key=lambda one: (_last(work, one), -known.get(one.target or "", 0), one.count))
    shown = [_told(work, one) for one in feasible[:SHOWN]]
    refused = len(swaps) - len(feasible)
    text = (
        f"{len(swaps)} parts looked at: {len(feasible)} can take the job by memory, software and "
        f"use, {refused} cannot; {len(shown)} shown, those of which most was measured first. Name "
        "candidates to see others and why."
    )
    work.notices.append(Notice("candidates-shortened", text, "suggestions"))
    return shown


def told(work: Work, swaps: Sequence[Suggestion]) -> list[Suggestion]:
    """The named candidates, each with what training on it would take."""
    return [one if one.verdict == "not-feasible" else _told(work, one) for one in swaps]


def memory_of(work: Work, part: Hardware, count: float) -> tuple[list[str], list[str]]:
    """Why it does not fit that many devices, and how it does."""
    short = shortfall(work.need, part, count)
    return short, [] if short else fitting(work.need, part, count)


def _told(work: Work, found: Suggestion) -> Suggestion:
    """The suggestion with the training's device hours, energy and carbon in front."""
    question = work.question
    if question.model_parameters is None or question.tokens is None or not found.target:
        return found
    asked = EstimateQuestion(
        hardware=found.target,
        zone=question.zone,
        region=full_region(question),
        lifetime_years=question.lifetime_years,
        model_parameters=question.model_parameters,
        tokens=question.tokens,
        precision=None if question.precision == "int4" else question.precision,
    )
    try:
        answer = estimate(asked, work.catalog, AnnualIntensity(work.catalog))
    except ScoreError:
        return found
    return replace(found, reasons=[*_effort(answer, found.count), *found.reasons])


def _last(work: Work, found: Suggestion) -> tuple[bool, bool]:
    """Parts whose memory is not known, and desktops' parts."""
    part = work.catalog.hardware(found.target or "")
    return part.memory_gb is None, any(use in DESKS for use in part.intended_use)


def _effort(answer: EstimateDoc, count: float) -> list[str]:
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
