"""Notices: what the measurements of a job say before any prediction, and what was assumed of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cache

from gramwatt.sci.advice.actions.texts import IN_TURN, LONG_JOB_DEVICE_HOURS, ON_PROCESSORS
from gramwatt.sci.advice.constraints.availability import rented_only
from gramwatt.sci.advice.constraints.memory import estimated_need, shortfall
from gramwatt.sci.advice.constraints.support import FRAMEWORKS, refusals
from gramwatt.sci.advice.prediction.bottleneck import NEAR_RATED
from gramwatt.sci.advice.prediction.measurements import DataRow
from gramwatt.sci.advice.prediction.predict import STACKS
from gramwatt.sci.advice.prediction.workload import (
    SMALL_POWER_SHARE,
    SMALL_UTILISATION,
    mean_power_share,
)
from gramwatt.sci.advice.work import Work
from gramwatt.sci.catalog.catalog import Hardware
from gramwatt.sci.catalog.slices import split_name
from gramwatt.sci.figures.csv_data import Cell, rows
from gramwatt.sci.figures.notices import Notice

FULL_MEMORY = 0.95
"""Share of memory above which a job is about to run out of it (rule 55)."""
MUCH_SMALLER = 0.5
"""Rated power of a part that counts as smaller, over that of the present one."""


def notices(work: Work) -> list[Notice]:
    """Return every notice of a job, in the order of docs/suggestions.md."""
    return [*_misspelt_framework(work.request.framework), *_of_hardware(work)]


def _of_hardware(work: Work) -> list[Notice]:
    if work.part is None:
        text = (
            "No present hardware was named, so no parts can be compared: only where the job fits "
            "and roughly what a training takes is known. For verdicts add hardware (or "
            "instance) and count of the run you have or plan, hours or tokens, zone or region."
        )
        return [Notice("hardware-unstated", text, "hardware"), *_policies(work)]
    found = [
        _over_provisioned(work, work.part),
        _under_provisioned(work, work.part),
        _long_inefficient(work, work.part),
        _outdated(work, work.part),
        _idle(work),
        _pace(work),
        _class(work),
        _memory_disagreement(work, work.part),
    ]
    return [*(notice for notice in found if notice), *_policies(work)]


def _misspelt_framework(framework: str | None) -> list[Notice]:
    """Return that a framework is unknown, where known ones are spelt nearly so."""
    name = (framework or "").strip().lower()
    known = {*FRAMEWORKS, *STACKS, *ON_PROCESSORS, *IN_TURN}
    like = get_close_matches(name, known) if name not in known else []
    if not like:
        return []
    text = (
        f"Nothing is known of the framework {framework!r}, so it leaves no part out; "
        f"spelt like it: {', '.join(like)}."
    )
    return [Notice("framework-misspelt", text, "framework")]


def _little_used(work: Work, part: Hardware) -> str | None:
    """Return why the part does little; None where it works or nothing was measured."""
    share, busy = mean_power_share(work.request, part), work.request.utilisation
    if share is not None and share < SMALL_POWER_SHARE:
        return f"mean power is {share:.0%} of rated power"
    if share is not None and share >= NEAR_RATED:
        return None
    if busy is not None and busy < SMALL_UTILISATION:
        return f"it is busy {busy:.0%} of the time"
    return None


def _over_provisioned(work: Work, part: Hardware) -> Notice | None:
    peak, reason = work.request.peak_memory_gb, _little_used(work, part)
    if peak is None or reason is None or not part.tdp_w or work.slice:
        return None
    smaller = [
        (other.tdp_w, other)
        for other in work.catalog.all_hardware()
        if other.tdp_w and other.tdp_w <= MUCH_SMALLER * part.tdp_w
        if (other.vendor, other.device_class) == (part.vendor, part.device_class)
        if other.market in ("current", "out-of-production")
        if part.host_class == "workstation" or other.host_class != "workstation"
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
    """Return that a part is old, but not for small or recommender jobs: there it can be the better.

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
    busy, share = work.request.utilisation, mean_power_share(work.request, work.part)
    if busy is None or busy >= SMALL_UTILISATION or (share or 0.0) >= NEAR_RATED:
        return None
    text = f"The devices were busy {busy:.0%} of the reserved time."
    return Notice("flag-idle", text, "utilisation")


def _pace(work: Work) -> Notice | None:
    """Return that a power cannot be, or which bottleneck was found."""
    if work.impossible:
        text = f"{work.impossible[0].upper()}{work.impossible[1:]}: nothing is compared with it."
        return Notice("power-impossible", text, "mean_power_w")
    if not work.bottleneck.waits or work.bottleneck.declared:
        return None
    text = (
        f"Taken as paced by {work.bottleneck.name}: {work.bottleneck.reason}. Parts are compared "
        "at the same rate; give pace where that is wrong."
    )
    if work.bottleneck.name == "input":
        text += " A faster input pipeline shortens the whole run, and comes before other hardware."
    return Notice("pace-inferred", text, "pace")


def _class(work: Work) -> Notice | None:
    classified = work.classified
    if classified.name is None:
        text = f"The class of work is not known ({classified.reason}): ranges cover all classes."
        return Notice("class-unknown", text, "workload_class")
    if work.request.workload_class:
        return None
    text = f"Taken for class {classified.name}: {classified.reason}."
    return Notice("class-inferred", text, "workload_class")


def _memory_disagreement(work: Work, part: Hardware) -> Notice | None:
    """Return that the estimate of memory says something else than a run."""
    peak = work.request.peak_memory_gb
    if work.misfit or not (work.measured or peak):
        return None
    estimated = shortfall(estimated_need(work.request), part, work.count)
    if not estimated:
        return None
    seen = f"the measured peak of {peak:g} GiB fits" if peak else "the job ran"
    text = (
        f"Estimate and measurement disagree: {estimated[0]}, and yet {seen}. The measurement "
        "counts; check model_parameters, method, precision and count."
    )
    return Notice("memory-disagrees", text, "peak_memory_gb")


class Rule(DataRow, frozen=True, kw_only=True):
    """One of the 77 rules of thumb the advice started from, and what became of it.

    It is kept, kept under a condition, refused or shown as a policy; `held` is what holds instead,
    or the condition. tests/sci/advice/test_rules.py asserts each in the sense of its verdict.
    """

    files = ("rules.csv",)
    key = ("rule",)

    rule: int
    verdict: Cell
    seed: Cell
    statement: Cell
    held: Cell


@cache
def rules() -> Mapping[int, Rule]:
    """Return every rule by number."""
    return {row.rule: row for row in rows(Rule)}


def _names(work: Work, fits: Callable[[Hardware], bool]) -> bool:
    """Tell whether the request names such a part."""
    named = [work.request.hardware, *(work.request.candidates or ())]
    return any(fits(work.catalog.hardware(split_name(name)[0])) for name in named if name)


def _trains_on_aws(part: Hardware) -> bool:
    return part.vendor == "AWS" and "training" in part.intended_use


POLICIES: tuple[tuple[int, Callable[[Work], object]], ...] = (
    (5, lambda work: work.request.constraint == "edge"),
    (36, lambda work: work.request.constraint == "edge"),
    (15, lambda work: _names(work, _trains_on_aws)),
    (17, lambda work: _names(work, lambda part: part.vendor in ("Cerebras", "SambaNova"))),
    (45, lambda work: work.request.batch_size and work.request.kind == "training"),
    (59, lambda work: work.request.provider),
)
"""Rules that no data can test, with the condition under which they touch a request."""


def _policies(work: Work) -> list[Notice]:
    found = [rules()[number] for number, applies in POLICIES if applies(work)]
    return [
        Notice(
            "advice-policy",
            f"Policy, not tested: {one.statement} ({one.seed}, rule {one.rule}). {one.held}.",
        )
        for one in found
    ]
