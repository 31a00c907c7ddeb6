"""The present part: whether it can hold the job, and the answer "keep what you have"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gramwatt.sci.advice.constraints.memory import estimated_need, memory_need, shortfall
from gramwatt.sci.advice.documents import Suggestion, verdict_of
from gramwatt.sci.advice.prediction.ratio_range import one
from gramwatt.sci.advice.work import Work
from gramwatt.sci.base.notices import Notice

SMALLER: tuple[tuple[str, dict[str, Any]], ...] = (
    ("method lora", {"method": "lora"}),
    ("method qlora", {"method": "qlora"}),
    ("8-bit weights", {"precision": "int8"}),
    ("4-bit weights", {"precision": "int4"}),
)
"""Changes that need less memory: the first two where models are trained, the others elsewhere."""


def lacking(work: Work) -> list[str]:
    """Why the present part cannot hold the job, with the arithmetic; empty where it may.

    A measured peak within its memory shows that it does, margin or not; so does a job that ran.
    """
    part, peak = work.part, work.question.peak_memory_gb
    if part is None or part.memory_gb is None or work.ran:
        return []
    if peak is None:
        return shortfall(work.need, part, work.count)
    if peak <= part.memory_gb:
        return []
    return [
        f"memory: a peak of {peak:g} GiB a device is more than the {part.memory_gb:g} GiB of "
        f"{part.id}: check peak_memory_gb and hardware"
    ]


def disagreement(work: Work) -> list[Notice]:
    """The estimate of memory against a run that shows something else."""
    part = work.part
    if part is None or lacking(work) or not (work.ran or work.question.peak_memory_gb):
        return []
    estimated = shortfall(estimated_need(work.question), part, work.count)
    if not estimated:
        return []
    peak = work.question.peak_memory_gb
    seen = f"the measured peak of {peak:g} GiB fits" if peak else "the job ran"
    text = (
        f"Estimate and measurement disagree: {estimated[0]}, and yet {seen}. The measurement "
        "counts; check model_parameters, method, precision and count."
    )
    return [Notice("memory-disagrees", text, "peak_memory_gb")]


def keep(work: Work, swaps: Sequence[Suggestion]) -> list[Suggestion]:
    """The answer "keep what you have", where no other part's saving is certain.

    It is not said where nothing was compared, or nothing is known of all that would be feasible. A
    part that cannot hold the job is not to be kept, with the arithmetic.
    """
    if work.part is None:
        return []
    short = lacking(work)
    if short:
        return [_not_kept(work, short)]
    others = [found for found in swaps if found.target != work.part.id]
    unjudged = sum(found.verdict == "unknown" for found in others)
    if not others or any(found.verdict == "lower" for found in others):
        return []
    if unjudged and not any(found.carbon_ratio for found in others):
        return []
    same = one("the present run over itself")
    apart = f" ({unjudged} could not be judged)" if unjudged else ""
    count = f"{len(others)} other part{'s' if len(others) > 1 else ''}"
    reason = f"of {count} compared{apart}, none saves carbon for certain: keep {work.part.id}"
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


def _not_kept(work: Work, short: list[str]) -> Suggestion:
    assert work.part is not None
    devices = f"{work.count:g} x {work.part.id}"
    return Suggestion(
        action="keep",
        verdict="not-feasible",
        basis="rule",
        count=work.count,
        operating_point="as now",
        reasons=[
            f"the job as asked does not fit {devices}: nothing can be compared with it",
            *short,
            *_smaller(work),
        ],
    )


def _smaller(work: Work) -> list[str]:
    """What would make it fit the present part."""
    part, question = work.part, work.question
    if part is None or part.memory_gb is None or question.peak_memory_gb is not None:
        return []
    trains = work.classified.name == "training"
    told = []
    for name, change in SMALLER[:2] if trains else SMALLER[2:]:
        need = memory_need(replace(question, **change))
        if need is not None and need.fits(part.memory_gb, work.count):
            told.append(f"{name} needs {need.total_gib or 0.0:.1f} GiB and would fit")
    return told
