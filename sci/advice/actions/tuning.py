"""Less work for the same result: precision, quantisation, batching."""

from __future__ import annotations

from dataclasses import replace

from gramwatt.sci.advice.actions.builders import with_ratios, without_ratios
from gramwatt.sci.advice.actions.host_power import faster
from gramwatt.sci.advice.constraints.memory import estimated_need
from gramwatt.sci.advice.documents import Action, Suggestion
from gramwatt.sci.advice.prediction.evidence import Evidence, evidence
from gramwatt.sci.advice.prediction.workload import power_share
from gramwatt.sci.advice.work import Work
from gramwatt.sci.catalog.catalog import Hardware

SERVING_LEVELS = (8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
"""Concurrent sequences at which serving was measured."""
BATCH_STEPS = 2
"""How many doublings of the batch are suggested at most."""
INFERENCE = ("decode", "prefill", "llm-serving", "batch-inference", "small")
TRAINING = ("training", "fine-tuning", "data-prep")
ACCURACY = "check the accuracy on your own task first: fewer bits can cost quality (rule 79)"


def mixed_precision(work: Work) -> Suggestion | None:
    """Half precision for a job that still runs in single."""
    name, part = work.classified.name, work.part
    if part is None or work.request.precision not in ("fp32", "tf32"):
        return None
    if name not in ("training", "recsys") or not part.peak.fp16_tensor:
        return None
    time = evidence(f"mixed-precision:{name}:{'tf32' if part.peak.tf32 else 'fp32'}", "time")
    if time is None:
        return None
    precision = "bf16" if part.peak.bf16_tensor else "fp16"
    reasons = [
        f"mixed precision ({precision}) instead of {work.request.precision}",
        "power may rise to the rated power: the range holds that",
        "rule 62: how much faster depends on the kind of model",
    ]
    return _faster(work, "mixed-precision", time, reasons, f"same part, {precision}")


def quantise(work: Work) -> Suggestion | None:
    """Four- or eight-bit weights for inference in 16 or 32 bits."""
    name, request = work.classified.name, work.request
    if name not in INFERENCE or request.kind in TRAINING:
        return None
    if request.precision not in (None, "fp32", "tf32", "fp16", "bf16"):
        return None
    wide = request.precision in ("fp32", "tf32")
    size = "4x smaller in 8 bits" if wide else "2x smaller in 8 bits, 4x in 4 bits"
    reasons = [ACCURACY, f"weights become {size} (rule 44)"]
    time = None if wide else evidence(f"quantise:{name}:fp16", "time")
    if time is None:
        reasons.append("no measured pair of this class shows what it saves")
        return without_ratios(work, "quantise", reasons)
    return _faster(work, "quantise", time, reasons, "same part, 4-bit weights")


def batching(work: Work) -> Suggestion | None:
    """More concurrent sequences for language models."""
    name, batch, part = work.classified.name, work.request.batch_size, work.part
    if part is None or name not in INFERENCE or work.request.kind in TRAINING:
        return None
    if name == "llm-serving" and batch is not None:
        return _more_sequences(work, part, batch)
    if batch is not None and batch > 1:
        return None
    text = "requests answered together share each reading of the weights (rule 43)"
    hint = "for the measured saving give workload_class llm-serving and batch_size from 8 on"
    return without_ratios(work, "batching", [text, hint])


def _more_sequences(work: Work, part: Hardware, batch: float) -> Suggestion | None:
    """The most further sequences, up to two steps, that the memory holds."""
    reached = [at for at, level in enumerate(SERVING_LEVELS) if level <= batch]
    first = reached[-1] if reached else 0
    steps = range(min(first + BATCH_STEPS, len(SERVING_LEVELS) - 1), first, -1)
    many = next(
        (SERVING_LEVELS[at] for at in steps if _has_room(work, part, SERVING_LEVELS[at])), 0
    )
    few = SERVING_LEVELS[first]
    key = f"batching:llm-serving:{few:g}:{many:g}"
    time, energy = evidence(key, "time"), evidence(key, "energy")
    if time is None or energy is None:
        return None
    reasons = [
        f"{many:g} concurrent sequences instead of {batch:g}, as far as latency allows (rule 43)",
        f"measured on {energy.pairs} pairs of model, task and part; memory for them must be free",
    ]
    if batch < few:
        reasons.append(f"measured from {few:g} sequences on; from {batch:g} it saves more")
    return with_ratios(
        work,
        "batching",
        time=time.ratio(),
        energy=energy.ratio(),
        reasons=reasons,
        point=f"{many:g} sequences",
        board=True,
    )


def _faster(
    work: Work, action: Action, measured: Evidence, reasons: list[str], point: str
) -> Suggestion:
    """A measured time ratio; power rises, if at all, by as much as the job gets faster."""
    time = measured.ratio()
    energy = faster(work, time, _rated_over_mean(work))
    reasons.append(f"measured on {measured.pairs} pairs of runs on the same part")
    return with_ratios(work, action, time=time, energy=energy, reasons=reasons, point=point)


def _rated_over_mean(work: Work) -> float:
    """Rated over mean power of the device, at least 1."""
    part, power = work.part, work.power_w
    if part is not None and part.tdp_w and power is not None:
        return max(1.0, part.tdp_w / power.value)
    return 1 / power_share(work.classified.name).value


def _has_room(work: Work, part: Hardware, batch: float) -> bool:
    """Whether the larger batch fits by the low estimate of memory; unknown counts as yes."""
    need = estimated_need(replace(work.request, batch_size=batch))
    return need is None or part.memory_gb is None or need.fits(part.memory_gb, work.count)
