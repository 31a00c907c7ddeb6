"""Which class of workload a job belongs to, from what the user says and the meter saw.

The order is: the class the user declared; a small job by its power; the kind of job with its batch.
The thresholds are the survey's estimates: no public table pairs utilisation with throughput on
other hardware. docs/suggestions.md lists them.
"""

from __future__ import annotations

from dataclasses import dataclass

from gramwatt.sci.advice.prediction.rows import WorkloadClass, workload_class
from gramwatt.sci.advice.request import SuggestQuestion
from gramwatt.sci.catalog.catalog import Hardware

SMALL_POWER_SHARE = 0.35
"""Mean over rated power below which a job is small: it does not follow specifications (survey)."""
SMALL_UTILISATION = 0.5
"""Busy share below which a job of low power is small rather than waiting for memory."""
MEMORY_BOUND = 0.6
"""Share of time that memory is active above which inference is decoding."""
LLM_PARAMETERS = 1e9
"""Models from this size on are taken for language models when they infer."""


@dataclass(frozen=True, slots=True)
class Classified:
    """The class, None where unknown, and how it was found."""

    name: WorkloadClass | None
    reason: str


def classify(question: SuggestQuestion, part: Hardware | None) -> Classified:
    """The class of the job in the question."""
    if question.workload_class:
        return Classified(workload_class(question.workload_class), "class declared")
    share = _power_share(question, part)
    busy = question.utilisation
    if share is not None and share < SMALL_POWER_SHARE and (busy or 0.0) < SMALL_UTILISATION:
        text = f"mean power is {share:.0%} of rated power, below {SMALL_POWER_SHARE:.0%}"
        if busy is not None:
            text += f", and the device was busy {busy:.0%} of the time"
        return Classified("small", text)
    if question.kind in ("training", "fine-tuning") or question.method or question.tokens:
        return Classified("training", f"kind {question.kind or 'training'}")
    if question.kind in ("inference", "evaluation"):
        return _inference(question)
    return Classified(None, "neither kind nor workload_class is known")


def _inference(question: SuggestQuestion) -> Classified:
    batch, size = question.batch_size, question.model_parameters or 0.0
    if size >= LLM_PARAMETERS:
        if batch is not None and batch <= 1:
            return Classified("decode", "inference of a large model, one sequence")
        return Classified("llm-serving", "inference of a large model, several sequences")
    if (question.memory_bandwidth_utilisation or 0.0) > MEMORY_BOUND and batch == 1:
        return Classified("decode", f"memory active more than {MEMORY_BOUND:.0%}, batch 1")
    if size and batch == 1:
        return Classified("small", "inference of a small model, batch 1")
    return Classified("batch-inference", "inference")


def _power_share(question: SuggestQuestion, part: Hardware | None) -> float | None:
    if question.mean_power_w is None or part is None or not part.tdp_w:
        return None
    return question.mean_power_w / part.tdp_w
