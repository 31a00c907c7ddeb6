"""The present part: the answer "keep what you have", or that it cannot hold the job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gramwatt.sci.advice.constraints.memory import estimated_need, memory_need, shortfall
from gramwatt.sci.advice.documents import Suggestion, verdict_of
from gramwatt.sci.advice.prediction.ratio_range import unchanged
from gramwatt.sci.advice.work import Work
from gramwatt.sci.base.notices import Notice

LESS_MEMORY_TRAINING: tuple[tuple[str, dict[str, Any]], ...] = (
    ("method lora", {"method": "lora"}),
    ("method qlora", {"method": "qlora"}),
)
LESS_MEMORY_ELSEWHERE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("8-bit weights", {"precision": "int8"}),
    ("4-bit weights", {"precision": "int4"}),
)
"""Changes that need less memory, where models are trained and elsewhere."""


def memory_disagreement(work: Work) -> list[Notice]:
    """The estimate of memory against a run that shows something else."""
    part, peak = work.part, work.request.peak_memory_gb
    if part is None or work.misfit or not (work.measured or peak):
        return []
    estimated = shortfall(estimated_need(work.request), part, work.count)
    if not estimated:
        return []
    seen = f"the measured peak of {peak:g} GiB fits" if peak else "the job ran"
    text = (
        f"Estimate and measurement disagree: {estimated[0]}, and yet {seen}. The measurement "
        "counts; check model_parameters, method, precision and count."
    )
    return [Notice("memory-disagrees", text, "peak_memory_gb")]


def keep(work: Work, compared: Sequence[Suggestion]) -> list[Suggestion]:
    """The answer "keep what you have", where no other part's saving is certain.

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
            f"of {count} compared{apart}, none certainly repays its making within this job of "
            f"{work.hours:g} h: keep {work.present_id}, unless one is already there or rented"
        )
    return [
        Suggestion(
            action="keep",
            verdict=verdict_of(same),
            basis="rule",
            count=work.count,
            time_ratio=same,
            energy_ratio=same,
            carbon_ratio=same,
            saved_g=work.saved_g(same),
            operating_point="as now",
            reasons=[reason],
        )
    ]


def too_short(work: Work, lower: Sequence[Suggestion]) -> bool:
    """Whether parts that save would have to be bought, and the job repays none of them."""
    if work.rented or work.request.ownership in ("owned", "rented") or work.hours is None:
        return False
    return not any(needs_no_purchase(one) for one in lower)


def needs_no_purchase(one: Suggestion) -> bool:
    """Whether a saving holds for hardware that is bought for it, or needs none."""
    return one.by_ownership is None or one.by_ownership["to-buy"] == "lower"


def _not_kept(work: Work, part: str) -> Suggestion:
    text = f"the job as asked does not fit {work.count:g} x {part}: nothing can be compared with it"
    return Suggestion(
        action="keep",
        verdict="not-feasible",
        basis="rule",
        count=work.count,
        operating_point="as now",
        reasons=[text, *work.misfit, *_smaller(work)],
    )


def _smaller(work: Work) -> list[str]:
    """What would make it fit the present part."""
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
