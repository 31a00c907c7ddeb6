"""What the measurements of a job say before any prediction (rules 54 to 58 and 63)."""

from __future__ import annotations

from gramwatt.sci.advice.actions.running import LONG_JOB_DEVICE_HOURS
from gramwatt.sci.advice.constraints.availability import rented_only
from gramwatt.sci.advice.constraints.support import refusals
from gramwatt.sci.advice.prediction.workload import (
    SMALL_POWER_SHARE,
    SMALL_UTILISATION,
    mean_power_share,
)
from gramwatt.sci.advice.work import Work
from gramwatt.sci.base.notices import Notice
from gramwatt.sci.catalog.catalog import Hardware

FULL_MEMORY = 0.95
"""Share of memory above which a job is about to run out of it (rule 55)."""
MUCH_SMALLER = 0.5
"""Rated power of a part that counts as smaller, over that of the present one."""


def warnings(work: Work) -> list[Notice]:
    """Warnings that apply to the job, in the order of the rules (docs/suggestions.md)."""
    if work.part is None:
        return []
    notices = [
        _over_provisioned(work, work.part),
        _under_provisioned(work, work.part),
        _long_inefficient(work, work.part),
        _outdated(work, work.part),
        _idle(work),
    ]
    return [notice for notice in notices if notice is not None]


def _little_used(work: Work, part: Hardware) -> str | None:
    """Why the part does little; None where it works or nothing was measured."""
    share, busy = mean_power_share(work.request, part), work.request.utilisation
    if share is not None and share < SMALL_POWER_SHARE:
        return f"mean power is {share:.0%} of rated power"
    if busy is not None and busy < SMALL_UTILISATION:
        return f"it is busy {busy:.0%} of the time"
    return None


def _over_provisioned(work: Work, part: Hardware) -> Notice | None:
    peak, reason = work.request.peak_memory_gb, _little_used(work, part)
    if peak is None or reason is None or not part.tdp_w:
        return None
    smaller = [
        (other.tdp_w, other)
        for other in work.catalog.all_hardware()
        if other.tdp_w and other.tdp_w <= MUCH_SMALLER * part.tdp_w
        if (other.vendor, other.device_class) == (part.vendor, part.device_class)
        if other.market in ("current", "out-of-production")
        if (other.memory_gb or 0) >= 1.1 * peak
        if work.rented or not rented_only(other)
        if not refusals(work.request, other, work.offered)
    ]
    if not smaller:
        return None
    _, best = min(smaller, key=lambda item: item[0])
    text = f"{part.id} is more than this job uses: {reason}, and {peak:g} GiB would fit {best.id}."
    return Notice("flag-over-provisioned", text, "hardware")


def _under_provisioned(work: Work, part: Hardware) -> Notice | None:
    peak = work.request.peak_memory_gb
    if peak is None or not part.memory_gb or peak <= FULL_MEMORY * part.memory_gb:
        return None
    text = f"The peak of {peak:g} GiB fills {part.id} ({part.memory_gb:g} GiB): swapping is near."
    return Notice("flag-under-provisioned", text, "hardware")


def _long_inefficient(work: Work, part: Hardware) -> Notice | None:
    reason = _little_used(work, part)
    if work.device_hours < LONG_JOB_DEVICE_HOURS or reason is None:
        return None
    text = f"{work.device_hours:.0f} device hours at little use: {reason}."
    return Notice("flag-long-inefficient", text, "energy_kwh")


def _outdated(work: Work, part: Hardware) -> Notice | None:
    """Old parts, but not for small or recommender jobs: there the old part can be the better one.

    Counterexample (Zeus trace, NCF, batch 1024): a V100 takes 733 J an epoch, a newer A40 1700 J.
    """
    small = work.classified.name in ("small", "recsys", None)
    if part.market != "legacy" or small or part.device_class != "gpu":
        return None
    text = (
        f"{part.id} is of {part.release_year}. Newer GPUs often do more per joule; the verdicts "
        "say which do in this class of work, the embodied carbon of a change included."
    )
    return Notice("flag-outdated", text, "hardware")


def _idle(work: Work) -> Notice | None:
    busy = work.request.utilisation
    if busy is None or busy >= SMALL_UTILISATION:
        return None
    text = f"The devices were busy {busy:.0%} of the reserved time."
    return Notice("flag-idle", text, "utilisation")
