"""Red flags of a job: what its measurements say before any prediction (rules 54 to 58 and 63)."""

from __future__ import annotations

from gramwatt.sci.advice.actions.running import LONG_JOB_DEVICE_HOURS
from gramwatt.sci.advice.constraints.availability import rented_only
from gramwatt.sci.advice.constraints.support import refusals
from gramwatt.sci.advice.prediction.workload import SMALL_POWER_SHARE, SMALL_UTILISATION
from gramwatt.sci.advice.work import Work
from gramwatt.sci.base.notices import Notice
from gramwatt.sci.catalog.catalog import Hardware

FULL_MEMORY = 0.95
"""Share of memory above which a job is about to run out of it (rule 55)."""
MUCH_SMALLER = 0.5
"""Rated power of a part that counts as smaller, over that of the present one."""


def flags(work: Work) -> list[Notice]:
    """The flags that fly, in the order of the rules."""
    if work.part is None:
        return []
    found = [
        _over(work, work.part),
        _under(work, work.part),
        _long(work, work.part),
        _outdated(work, work.part),
        _idle(work),
    ]
    return [notice for notice in found if notice is not None]


def _power_share(work: Work, part: Hardware) -> float | None:
    power = work.question.mean_power_w
    return power / part.tdp_w if power is not None and part.tdp_w else None


def _lazy(work: Work, part: Hardware) -> str | None:
    """Why the part does little; None where it works or nothing was measured."""
    share, busy = _power_share(work, part), work.question.utilisation
    if share is not None and share < SMALL_POWER_SHARE:
        return f"mean power is {share:.0%} of rated power"
    if busy is not None and busy < SMALL_UTILISATION:
        return f"it is busy {busy:.0%} of the time"
    return None


def _over(work: Work, part: Hardware) -> Notice | None:
    peak, lazy = work.question.peak_memory_gb, _lazy(work, part)
    if peak is None or lazy is None or not part.tdp_w:
        return None
    smaller = [
        other
        for other in work.catalog.all_hardware()
        if other.tdp_w and other.tdp_w <= MUCH_SMALLER * part.tdp_w
        if other.vendor == part.vendor and "current" in other.status
        if (other.memory_gb or 0) >= 1.1 * peak
        if work.rented or not rented_only(other)
        if not refusals(work.question, other, work.offered)
    ]
    if not smaller:
        return None
    best = min(smaller, key=lambda other: other.tdp_w or 0)
    text = f"{part.id} is more than this job uses: {lazy}, and {peak:g} GiB would fit {best.id}."
    return Notice("flag-over-provisioned", text, "hardware")


def _under(work: Work, part: Hardware) -> Notice | None:
    peak = work.question.peak_memory_gb
    if peak is None or not part.memory_gb or peak <= FULL_MEMORY * part.memory_gb:
        return None
    text = f"The peak of {peak:g} GiB fills {part.id} ({part.memory_gb:g} GiB): swapping is near."
    return Notice("flag-under-provisioned", text, "hardware")


def _long(work: Work, part: Hardware) -> Notice | None:
    hours, lazy = (work.hours or 0.0) * work.count, _lazy(work, part)
    if hours < LONG_JOB_DEVICE_HOURS or lazy is None:
        return None
    text = f"{hours:.0f} device hours at little use: {lazy}."
    return Notice("flag-long-inefficient", text, "energy_kwh")


def _outdated(work: Work, part: Hardware) -> Notice | None:
    """Old parts, but not for small or recommender jobs: there the old part can be the better one.

    Counterexample (Zeus trace, NCF, batch 1024): a V100 takes 733 J an epoch, a newer A40 1700 J.
    """
    small = work.classified.name in ("small", "recsys", None)
    if not part.status.startswith("legacy") or small or part.device_class != "gpu":
        return None
    text = (
        f"{part.id} is of {part.release_year}. Newer GPUs often do more per joule; the verdicts "
        "say which do in this class of work, the embodied carbon of a change included."
    )
    return Notice("flag-outdated", text, "hardware")


def _idle(work: Work) -> Notice | None:
    busy = work.question.utilisation
    if busy is None or busy >= SMALL_UTILISATION:
        return None
    return Notice(
        "flag-idle", f"The devices were busy {busy:.0%} of the reserved time.", "utilisation"
    )
