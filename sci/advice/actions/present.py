"""The present run: the answer "keep what you have", or where the job would fit if there is none.

What a training takes is device hours by 6 x N x D over the same share of every part's peak rate: an
order of magnitude, and no comparison of parts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from gramwatt.sci.advice.actions.texts import by_rule
from gramwatt.sci.advice.constraints.memory import memory_need
from gramwatt.sci.advice.documents import Suggestion
from gramwatt.sci.advice.prediction.predict import families_measured
from gramwatt.sci.advice.prediction.ratio_range import unchanged
from gramwatt.sci.advice.suggest_request import WorkloadClass
from gramwatt.sci.advice.work import Work
from gramwatt.sci.catalog.catalog import Hardware
from gramwatt.sci.catalog.slices import Slice
from gramwatt.sci.estimate.estimate import EstimateDoc, estimate
from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.figures.units import G_PER_KG

LESS_MEMORY_TRAINING: tuple[tuple[str, dict[str, Any]], ...] = (
    ("method lora", {"method": "lora"}),
    ("method qlora", {"method": "qlora"}),
)
LESS_MEMORY_ELSEWHERE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("8-bit weights", {"precision": "int8"}),
    ("4-bit weights", {"precision": "int4"}),
)
"""Changes that need less memory, where models are trained and elsewhere."""
INFERRED: tuple[WorkloadClass, ...] = ("batch-inference", "decode", "llm-serving")
"""Classes of inference, of which measured workloads are counted."""
LITTLE_GIB = 24.0
"""Memory of the small inference cards of today (L4, A10, A30)."""
LITTLE_FLOP = 1e20
"""About what an L4 trains in a month: 121 TFLOPS at 35 %."""
MANY_SEQUENCES = 32.0
"""Sequences at once from which on large parts are kept full (a choice)."""
FEW_DEVICES = 4
"""Parts that need more devices than this are listed later (a choice)."""
SHOWN = 8
"""Parts that are listed when the request names none."""
MONTH_H = 720.0
"""Thirty days, in which a long training is expected to end."""
DESKS = ("consumer", "workstation")
"""Intended uses of parts that are listed last."""


def keep(work: Work, compared: Sequence[Suggestion]) -> list[Suggestion]:
    """Return the answer "keep what you have", where no other part's saving is certain.

    It is not given where nothing was compared, or nothing is known of all that would be feasible. A
    part that cannot hold the job is not to be kept, with the arithmetic.
    """
    if work.part is None:
        return []
    if work.misfit:
        return [_not_kept(work, work.part.id)]
    others = [one for one in compared if one.target != work.present_id]
    unjudged = sum(one.verdict == "unknown" for one in others)
    if not others or any(one.verdict == "lower" for one in others):
        return []
    if unjudged and not any(one.carbon_ratio for one in others):
        return []
    same = unchanged("the present run over itself")
    apart = f" ({unjudged} could not be judged)" if unjudged else ""
    count = f"{len(others)} other part{'s' if len(others) > 1 else ''}"
    reason = f"of {count} compared{apart}, none saves carbon for certain: keep {work.present_id}"
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
        need = memory_need(msgspec.structs.replace(request, **change))
        if need is not None and need.fits(part.memory_gb, work.count):
            reasons.append(f"with {name} it needs {need.total_gib or 0.0:.1f} GiB and would fit")
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


def fitting_parts(work: Work, compared: Sequence[Suggestion]) -> tuple[list[Suggestion], Notice]:
    """Return feasible parts made for such work, one a family, and how many there are of all.

    First those of least rated power where little hardware holds the job, else the newest ones that
    were measured.
    """
    feasible = [one for one in compared if one.verdict != "not-feasible"]
    large = sorted(feasible, key=lambda one: _order(work, one, newest=False))
    families = {_family(one): one for one in reversed(large)}  # the most measured of each
    large = sorted(families.values(), key=lambda one: _order(work, one, newest=True))
    few = _by_power(work, feasible) if _is_little(work) else []
    shown: dict[str, Suggestion] = {}
    for one in (*few[: SHOWN // 2], *large):
        shown.setdefault(_family(one), one)
    listed = list(shown.values())[:SHOWN]
    order = "those made for such work first, measured ones before others, the newest first"
    if few:
        order = (
            f"first {SHOWN // 2} of least rated power, for few requests or a small job, then large "
            "ones, which do more per joule only where they are kept full: say batch_size or tokens"
        )
    text = (
        f"{len(compared)} parts looked at: {len(feasible)} can take the job by memory, software "
        f"and use, {len(compared) - len(feasible)} cannot; {len(listed)} shown, {order}. Name "
        "candidates to see others and why."
    )
    return with_hours(work, listed), Notice("candidates-shortened", text, "suggestions")


def _order(work: Work, one: Suggestion, *, newest: bool) -> tuple[bool, bool, bool, bool, int, int]:
    part = _part(one)
    count, year = _measured(work, part), part.release_year or 0
    last = (-year, -count) if newest else (-count, -year)
    suited = _is_made_for(work, part)
    return part.memory_gb is None, not suited, one.count > FEW_DEVICES, not count, *last


def _measured(work: Work, part: Hardware) -> int:
    """Return how many workloads of the kind were measured on the part."""
    names: Sequence[WorkloadClass] = ("training",) if work.request.trains else INFERRED
    return sum(families_measured(name).get(part.id, 0) for name in names)


def _part(one: Suggestion) -> Hardware:
    assert one.board is not None  # a compared part is one
    return one.board


def _family(one: Suggestion) -> str:
    """Return the name of a part up to its first number: its memory and board do not count."""
    part = _part(one)
    found = re.match(r"\D*\d\w*", part.name)
    return f"{part.vendor} {found[0] if found else part.name}"


def _by_power(work: Work, feasible: Sequence[Suggestion]) -> list[Suggestion]:
    """Return the parts that hold a job alone, of least rated power first."""
    alone = [
        (part.tdp_w, one)
        for one in feasible
        if one.count == 1 and (part := _part(one)).tdp_w
        if part.memory_gb and part.market == "current" and _measured(work, part)
        if _is_made_for(work, part, little=True)
    ]
    return [one for _, one in sorted(alone, key=lambda item: item[0] or 0.0)]


def _is_made_for(work: Work, part: Hardware, *, little: bool = False) -> bool:
    """Tell whether a part is sold for such work, and not for a desk; little work suits all GPUs.

    At one's own place that work may run at a desk.
    """
    desk = little and work.request.constraint == "offline"
    if not desk and any(use in DESKS for use in part.intended_use):
        return False
    if work.request.constraint == "edge":
        return "edge" in part.intended_use
    wanted = "training" if work.request.trains else "inference"
    return wanted in part.intended_use or (little and part.device_class == "gpu")


def _is_little(work: Work) -> bool:
    """Tell whether a small card holds the job and, as far as that is known, ends it in a month."""
    request, need = work.request, work.need
    if request.constraint == "edge":
        return False
    gib = (need.total_gib or need.each_gib) if need else None
    if gib is None or gib > LITTLE_GIB or (request.batch_size or 0.0) >= MANY_SEQUENCES:
        return False
    size = request.activated_parameters or request.model_parameters
    return not (request.tokens and size) or 6 * size * request.tokens <= LITTLE_FLOP


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
    if isinstance(one.on, Slice):
        return []  # of a slice there is no estimate
    asked = work.request.estimate(hardware=one.target)
    try:
        answer = estimate(asked, work.catalog)
    except ScoreError:
        return []
    return _hours_reasons(answer, one.count)


def _hours_reasons(answer: EstimateDoc, count: float) -> list[str]:
    hours = answer.device_hours
    if hours is None:
        return []
    text = f"about {_range(hours, 1)} device hours for this training"
    if answer.energy_kwh:
        text += f", {_range(answer.energy_kwh, 1)} kWh"
    if answer.total_g:
        text += f", {_range(answer.total_g, G_PER_KG)} kg CO2e with embodied carbon"
    text += " (6 x N x D at 22 to 48 % of peak rates: parts differ only where such ranges do)"
    days = f"{hours.value / count / 24:,.1f} days on {count:g}"
    if hours.value > count * MONTH_H:
        days += f", or 30 days on {math.ceil(hours.value / MONTH_H):,}, if it scales"
    return [text, days]


def _range(figure: Quantity, unit: float) -> str:
    ends = (figure.value / unit, figure.low / unit, figure.high / unit)
    value, low, high = (f"{float(f'{end:.2g}'):,.0f}" for end in ends)
    return f"{value} ({low} to {high})"
