"""LLM serving from direct rows only: the same two parts, measured at the same operating point.

Serving follows its software more than its hardware, so no model is fitted to it. Where the direct
rows contradict each other, or are few, there is no answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median

from gramwatt.sci.advice.prediction.measurements import Measurement, Pair, title
from gramwatt.sci.advice.prediction.ratio_range import Prediction, refused
from gramwatt.sci.figures.quantity import Quantity

FAMILIES_LEAST = 3
"""Fewer model families than this are anecdotes."""
ENERGY_FAMILIES_LEAST = 5
"""Energy differs less between parts than time, so that chance misleads more easily."""
UNSEEN = 1.1
"""x/÷ on both ends of the direct rows: the next model may lie just outside them (estimate)."""
RANGE_MOST = 4.0
"""Largest over smallest ratio beyond which rows of one operating point contradict each other."""


def serving_rows(rows: Iterable[Measurement]) -> list[Measurement]:
    """Return the rows that direct answers rest on."""
    return [row for row in rows if row.workload_class == "llm-serving" and row.use == "time"]


def direct(every: Sequence[Pair], batch: float | None, count: float) -> Prediction:
    """Return what direct pairs of two parts say at so many concurrent sequences and devices.

    The batch limit nearest on a scale of doublings is taken; rows at the same device count are
    preferred. Without a batch only rows at full load (offline) count.
    """
    chosen = _nearest(every, batch)
    same_count = [pair for pair in chosen if pair.now.count == count]
    if _families(same_count) >= FAMILIES_LEAST:
        chosen = same_count
    point, families = _point(chosen), _families(chosen)
    times = sorted(math.exp(pair.log_time) for pair in chosen)
    refusal = _refusal(times, families, point, batch)
    if refusal:
        return refused(refusal)
    text = f"direct measurements of {families} model families at {point}"
    metered = [pair for pair in chosen if pair.log_energy is not None]
    energy = None
    if _families(metered) >= ENERGY_FAMILIES_LEAST:
        energy = _ratio(sorted(math.exp(pair.log_energy or 0.0) for pair in metered), text)
    reason = (
        f"{text}; the range holds all of them. Compared at equal concurrency and device count: a "
        "larger part that is given more sequences can do better"
    )
    sources = tuple(title(key) for key in dict.fromkeys(pair.now.source for pair in chosen))
    return Prediction(_ratio(times, text), energy, "direct", point, (reason,), sources)


def _ratio(ratios: Sequence[float], source: str) -> Quantity:
    ends = (ratios[0] / UNSEEN, ratios[-1] * UNSEEN)
    return Quantity(median(ratios), *ends, "1", "measured", source)


def _refusal(times: Sequence[float], families: int, point: str, batch: float | None) -> str | None:
    if families < FAMILIES_LEAST:
        hint = "" if batch else "; give batch_size, the number of concurrent sequences"
        return (
            f"LLM serving is answered from direct measurements only, and {families} model "
            f"families were measured on both parts at a comparable point{hint}"
        )
    if times[-1] / times[0] > RANGE_MOST:
        return (
            f"the direct measurements at {point} contradict each other: time ratios from "
            f"{times[0]:.2f} to {times[-1]:.2f}; the serving software decides, not the part"
        )
    return None


def _nearest(every: Sequence[Pair], batch: float | None) -> list[Pair]:
    if batch is None:
        return [pair for pair in every if pair.now.batch is None]
    limits = sorted({pair.now.batch for pair in every if pair.now.batch})
    if not limits:
        return []
    nearest = min(limits, key=lambda limit: abs(math.log2(limit / batch)))
    if abs(math.log2(nearest / batch)) > 1:
        return []
    return [pair for pair in every if pair.now.batch == nearest]


def _families(chosen: Iterable[Pair]) -> int:
    return len({pair.now.family for pair in chosen})


def _point(chosen: Sequence[Pair]) -> str:
    points = dict.fromkeys(pair.now.point for pair in chosen)
    return " and ".join(points) if len(points) <= 2 else f"{next(iter(points))} and others"
